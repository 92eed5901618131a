"""Blocks arrive on their device as they were sent, also when the host's memory is written over at once."""

import pytest
import torch

from slalom.models.staging import to_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))]


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_all_sizes_arrive_whole_inside_and_outside_of_inference_mode(device):
    generator = torch.Generator().manual_seed(0)
    sent, arrived = [], []
    for number in range(12):
        block = torch.randint(0, 1000, (number % 5 + 1, 2, 7 * number + 1), generator=generator, dtype=torch.int32)
        sent.append(block.clone())
        with torch.inference_mode(number % 3 == 0):
            arrived.append(to_device(block, torch.device(device)).clone())
        if device == "cuda":
            block.zero_()
    for before, after in zip(sent, arrived, strict=True):
        assert after.device.type == device
        assert torch.equal(before, after.cpu())
