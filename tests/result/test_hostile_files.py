"""Saved explanations with one part changed; benchmarks/hostile_files.py changes every part in every way."""

import json

import pytest

import slalom
from slalom.errors import InputError
from tests.factories import benchmark, fitted

CASES = 60  # benchmarks/hostile_files.py runs thousands


def test_a_file_with_one_part_changed_is_refused_or_works():
    counted = {"refused": 0, "works": 0}
    for kind, path, change, outcome in benchmark("hostile_files").campaign(CASES):
        assert outcome in counted, (kind, path, change, outcome)
        assert change != "unchanged" or outcome == "works", kind
        counted[outcome] += 1
    assert sum(counted.values()) > CASES
    assert min(counted.values()) > 10


def test_what_a_file_does_not_hold_takes_no_memory(tmp_path):
    """Each of these took gigabytes, minutes or an error of another library."""
    saved = json.loads(fitted().to_json())
    damaged = [
        {"held_out": saved["held_out"] | {"units": 10**7}},
        {"held_out": {"units": 10**7, "keep": [], "scores": [], "near": 0}},
        {"parts": [saved["parts"][0] | {"unit_of_atom": [10**7] * len(saved["units"])}]},
        {"parts": [{"kind": "new"}]},
        {"sizes": [10**15] * len(saved["sizes"])},
        {"queries": 10**400},
        {"values": [[10**400] * 2] * len(saved["values"])},
        {"settings": {"queries": 10**400}},
        {"probabilities": [float("nan"), 1.0]},
        {"target": "neither"},
    ]
    for change in damaged:
        (tmp_path / "e.json").write_text(json.dumps(saved | change))
        with pytest.raises(InputError, match="a saved explanation lacks a part or has one of a wrong kind") as raised:
            slalom.load(tmp_path / "e.json")
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 500


def test_failures_of_a_wrong_kind_are_refused(tmp_path):
    failure = slalom.result.Failure(3, "text", "error")
    assert slalom.result.Failure.from_dict(failure.to_dict()) == failure
    for change in ({"number": float("inf")}, {"number": -1}, {"number": 10**400}, {"text": None}, {"error": ["x"]}):
        (tmp_path / "e.jsonl").write_text(json.dumps(failure.to_dict() | change))
        with pytest.raises(InputError, match="a saved failure"):
            slalom.load(tmp_path / "e.jsonl")
