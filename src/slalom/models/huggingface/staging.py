"""Asynchronous copies between host and GPU, through pinned memory, which torch keeps for the next ones.

A copy back must be requested at once: a later request would wait for everything that was queued in the meantime.
"""

from typing import NamedTuple

import torch

_DRIVER_STAGED = 65_536  # bytes that the driver copies to its own buffer before it returns


def to_device(block: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy of host memory on a device. On a GPU it is asynchronous, and the block may be overwritten at once."""
    if device.type == "cuda" and block.nbytes > _DRIVER_STAGED:
        block = block.pin_memory()
    return block.to(device, non_blocking=device.type == "cuda")


class Transfer(NamedTuple):
    """A tensor on its way to host memory.

    Attributes:
        block: The tensor in host memory.
        done: Recorded after the copy; None where no copy was needed.
    """

    block: torch.Tensor
    done: torch.cuda.Event | None

    def wait(self) -> torch.Tensor:
        """Return the tensor when the copy is complete."""
        if self.done is not None:
            self.done.synchronize()
        return self.block


def to_host(block: torch.Tensor) -> Transfer:
    """Start an asynchronous copy to host memory."""
    if block.device.type != "cuda":
        return Transfer(block.cpu(), None)
    copy = block.to("cpu", non_blocking=True)
    return Transfer(copy, torch.cuda.current_stream(block.device).record_event())
