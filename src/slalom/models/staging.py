"""The way of arrays to a GPU: by pinned memory that is kept, so that the host goes on while the copy waits for its turn.

To pin memory takes longer than to copy it. Three pieces take turns, one more than the engine has batches under way.
"""

from threading import local

import torch

_PIECES = 3


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
    stages: dict[torch.device, _Stage] = _OWN.__dict__.setdefault("stages", {})
    if device not in stages:
        stages[device] = _Stage(device)
    return stages[device].send(block)
