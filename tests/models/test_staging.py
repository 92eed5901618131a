"""Blocks arrive where they are sent as they were, also when the memory that they came from is written over at once."""

import torch

from slalom.models.huggingface.staging import to_device, to_host
from tests.cases import cases

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@cases("device", DEVICES)
def test_blocks_of_all_sizes_arrive_whole_inside_and_outside_of_inference_mode(device):
    generator = torch.Generator().manual_seed(0)
    sent, arrived = [], []
    for number in range(24):
        width = 7 * number + 1 if number % 2 else 8192 + 1000 * (number % 7)  # of up to 64 KB, exactly so many, and more
        block = torch.randint(0, 1000, (number % 5 + 1, 2, width), generator=generator, dtype=torch.int32)
        sent.append(block.clone())
        with torch.inference_mode(number % 3 == 0):
            arrived.append(to_device(block, torch.device(device)).clone())
        if device == "cuda":
            block.zero_()
    for before, after in zip(sent, arrived, strict=True):
        assert after.device.type == device
        assert torch.equal(before, after.cpu())


@cases("device", DEVICES)
def test_blocks_come_back_as_they_were_when_the_copy_was_asked_for(device):
    blocks = [torch.full((number % 5 + 1, 3), float(number), device=device) for number in range(12)]
    coming = [to_host(block) for block in blocks]
    if device == "cuda":
        for block in blocks:
            block.zero_()
    for number, back in enumerate(coming):
        assert back.wait().tolist() == [[float(number)] * 3] * (number % 5 + 1)
