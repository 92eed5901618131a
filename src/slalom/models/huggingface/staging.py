"""Asynchronous copies between host and GPU, through pinned memory.

Pinning memory takes longer than copying it, so pinned buffers are reused: three take turns on the way to the GPU; on the way
back torch caches them. The driver stages copies of up to 64 KB itself. A copy back must be requested at once: a later request
would wait for everything that was queued in the meantime.
"""

from threading import local
from typing import NamedTuple

import torch

_BUFFERS = 3
_DRIVER_STAGED = 65_536  # bytes that the driver copies to its own buffer before it returns


class _PinnedBuffers:
    """Pinned memory of one thread for one device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.turn = device, 0
        self.buffers = [torch.empty(0, dtype=torch.uint8)] * _BUFFERS
        self.sent: list[torch.cuda.Event | None] = [None] * _BUFFERS

    def send(self, block: torch.Tensor) -> torch.Tensor:
        self.turn = turn = (self.turn + 1) % _BUFFERS
        sent = self.sent[turn]
        if sent is not None:
            sent.synchronize()
        if self.buffers[turn].numel() < block.nbytes:
            with torch.inference_mode(False):  # an inference tensor could not be written to outside
                self.buffers[turn] = torch.empty(block.nbytes, dtype=torch.uint8, pin_memory=True)
        buffer = self.buffers[turn][: block.nbytes].view(block.dtype).view(block.shape)
        buffer.copy_(block)
        copy = buffer.to(self.device, non_blocking=True)
        self.sent[turn] = torch.cuda.current_stream(self.device).record_event()
        return copy


_THREAD = local()


def to_device(block: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy of host memory on a device. On a GPU it is asynchronous, and the block may be overwritten at once."""
    if device.type != "cuda":
        return block.to(device)
    if block.nbytes <= _DRIVER_STAGED:
        return block.to(device, non_blocking=True)
    pools: dict[torch.device, _PinnedBuffers] = _THREAD.__dict__.setdefault("pools", {})
    if device not in pools:
        pools[device] = _PinnedBuffers(device)
    return pools[device].send(block)


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
