"""The way of arrays to a GPU and back: by pinned memory, so that the host goes on while a copy waits for its turn.

To pin memory takes longer than to copy it, so it is kept: three pieces take turns on the way there; on the way back torch
keeps it. The driver takes up to 64 KB at once from memory that is not pinned. A copy back must be asked for at once: asked for
later it waits for all that was given to the GPU in the meantime.
"""

from threading import local
from typing import NamedTuple

import torch

_PIECES = 3
_AT_ONCE = 65_536  # bytes that the driver copies to a place of its own before it returns


class _Stage:
    """Pinned memory of one thread for one device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.turn = device, 0
        self.pieces = [torch.empty(0, dtype=torch.uint8)] * _PIECES
        self.sent: list[torch.cuda.Event | None] = [None] * _PIECES

    def send(self, block: torch.Tensor) -> torch.Tensor:
        self.turn = turn = (self.turn + 1) % _PIECES
        sent = self.sent[turn]
        if sent is not None:
            sent.synchronize()
        if self.pieces[turn].numel() < block.nbytes:
            with torch.inference_mode(False):  # what is made inside could not be written to outside
                self.pieces[turn] = torch.empty(block.nbytes, dtype=torch.uint8, pin_memory=True)
        piece = self.pieces[turn][: block.nbytes].view(block.dtype).view(block.shape)
        piece.copy_(block)
        there = piece.to(self.device, non_blocking=True)
        self.sent[turn] = torch.cuda.current_stream(self.device).record_event()
        return there


_OWN = local()


def to_device(block: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a block of the host's memory on a device; on a GPU the copy is under way, and the block may be changed."""
    if device.type != "cuda":
        return block.to(device)
    if block.nbytes <= _AT_ONCE:
        return block.to(device, non_blocking=True)
    stages: dict[torch.device, _Stage] = _OWN.__dict__.setdefault("stages", {})
    if device not in stages:
        stages[device] = _Stage(device)
    return stages[device].send(block)


class Coming(NamedTuple):
    """An array on its way to the host's memory; `sent` is when it is there, None where it was there from the start."""

    block: torch.Tensor
    sent: torch.cuda.Event | None

    def wait(self) -> torch.Tensor:
        """Return the array when it is there."""
        if self.sent is not None:
            self.sent.synchronize()
        return self.block


def to_host(block: torch.Tensor) -> Coming:
    """Begin to bring a block to the host's memory."""
    if block.device.type != "cuda":
        return Coming(block.cpu(), None)
    there = block.to("cpu", non_blocking=True)
    return Coming(there, torch.cuda.current_stream(block.device).record_event())
