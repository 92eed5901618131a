"""Imports without what a classifier does not use: what is deferred, when it is loaded, and that nothing else changes."""

import gc
import importlib
import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

import slalom
from slalom.models import EMBEDDED
from slalom.models.huggingface import imports
from slalom.models.huggingface.imports import lean

DEFERRED = ("torch._dynamo", "torch.distributed.tensor", "torch.distributed.fsdp", "scipy.optimize")
TEXTS = ["A dull film.", "One of the best films of the year, and not a minute too long."]


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A package `heavy`, one that takes two names of it, and one that is not among the importers; the names of these."""
    heavy = tmp_path / "heavy_of_test"
    heavy.mkdir()
    (heavy / "__init__.py").write_text("class Thing:\n  size = 3\nclass Other: pass\ndef helper(x): return x + 1\n")
    (heavy / "part.py").write_text("from heavy_of_test import Thing\nvalue = 7\n")
    (tmp_path / "taker_of_test.py").write_text("from heavy_of_test import Thing, helper as by_another_name\n")
    (tmp_path / "stranger_of_test.py").write_text("import heavy_of_test\nthing = heavy_of_test.Thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "_DEFERRED", {"heavy_of_test": (("taker_of_test",), "Thing helper")})
    monkeypatch.setattr(imports, "_DEFERRAL", imports._Deferral())
    before = list(sys.meta_path)
    sys.meta_path[:] = [finder for finder in before if not isinstance(finder, imports._Deferral)]  # that of this process waits
    yield ("heavy_of_test", "taker_of_test", "stranger_of_test")
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_of_test")]:
        del sys.modules[name]
    sys.meta_path[:] = before


def test_what_is_taken_is_imported_when_it_is_used(packages):
    heavy, taker, _ = packages
    taken = lean(lambda: importlib.import_module(taker))
    assert heavy not in sys.modules
    assert not isinstance(3, taken.Thing)
    assert not issubclass(int, taken.Thing)
    assert heavy not in sys.modules
    assert taken.by_another_name(4) == 5
    real = sys.modules[heavy]
    assert (taken.Thing, taken.by_another_name) == (real.Thing, real.helper)
    assert not any(type(finder).__module__ == imports.__name__ for finder in sys.meta_path)


def test_stand_ins_that_others_hold_act_like_the_real_objects(packages):
    heavy, taker, _ = packages
    thing = lean(lambda: importlib.import_module(taker)).Thing
    child = types.new_class("Child", (thing,))
    real = sys.modules[heavy].Thing
    assert child.__mro__[1] is real
    assert thing.size == 3
    assert isinstance(thing(), real)
    assert isinstance(real(), thing)
    assert issubclass(child, thing)
    assert thing | None == real | None
    assert None | thing == None | real


def test_two_uses_wait_together_and_ask_for_one_name_once(packages):
    heavy, taker, _ = packages
    modules = []

    def work():
        modules.append(importlib.reload(modules[-1]) if modules else importlib.import_module(taker))
        return lean(work) if len(modules) == 2 else modules[-1].Thing

    assert lean(work) is lean(work)
    assert [len(waiting) for waiting in imports._DEFERRAL.pending.values()] == [2]
    assert sum(finder is imports._DEFERRAL for finder in sys.meta_path) == 1
    assert importlib.import_module(heavy).Thing is modules[0].Thing


@pytest.mark.parametrize("first", ["heavy_of_test", "heavy_of_test.part", "stranger_of_test"])
def test_whoever_imports_the_module_puts_the_real_objects_in_place(packages, first):
    heavy, taker, _ = packages
    taken = lean(lambda: importlib.import_module(taker))
    importlib.import_module(first)
    assert taken.Thing is sys.modules[heavy].Thing
    assert "exec_module" not in vars(sys.modules[heavy].__spec__.loader)


@pytest.mark.parametrize("other", ["stranger_of_test", "heavy_of_test.part"])
def test_other_importers_get_the_real_module_at_once(packages, other):
    heavy, taker, _ = packages
    modules = lean(lambda: [importlib.import_module(name) for name in (taker, other)])
    assert modules[0].Thing is sys.modules[heavy].Thing
    assert type(sys.modules[heavy]) is types.ModuleType
    assert getattr(modules[1], "heavy_of_test", sys.modules[heavy]) is sys.modules[heavy]


def test_other_names_load_the_module_at_once(packages, tmp_path):
    heavy, taker, _ = packages
    (tmp_path / f"{taker}.py").write_text("from heavy_of_test import Thing, Other\n")
    assert lean(lambda: importlib.import_module(taker)).Other is sys.modules[heavy].Other
    (tmp_path / f"{taker}_2.py").write_text("from heavy_of_test import Missing\n")
    with pytest.raises(ImportError, match="cannot import name 'Missing'"):
        lean(lambda: importlib.import_module(f"{taker}_2"))


def test_a_missing_module_is_missing(packages, monkeypatch):
    monkeypatch.setattr(imports, "_DEFERRED", {"absent_of_test": (("",), "x")})
    with pytest.raises(ModuleNotFoundError, match="absent_of_test"):
        lean(lambda: importlib.import_module("absent_of_test"))


def test_after_an_unexpected_error_everything_is_imported_plainly(packages):
    heavy, taker, _ = packages
    runs = []

    def work():
        module = importlib.import_module(taker)
        runs.append(heavy in sys.modules)
        if type(module.Thing) is not type:
            raise TypeError("not a class")
        return module.Thing

    assert lean(work) is sys.modules[heavy].Thing
    assert runs == [True, True]  # an empty module, then the real one


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_errors_of_files_are_passed_on_at_once(packages, error):
    runs = []

    def work():
        runs.append(importlib.import_module(packages[1]))
        raise error("no such file")

    with pytest.raises(error, match="no such file"):
        lean(work)
    assert len(runs) == 1
    assert packages[0] not in sys.modules


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_left_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert lean(gc.isenabled) is False
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


AFTERWARDS = f"""
import sys, slalom
from slalom.models import EMBEDDED
explainer = slalom.Explainer(str(EMBEDDED), device="cpu")
print([e.scores("removal").tolist() for e in explainer({TEXTS!r}, queries=20)])
print(*[name for name in {DEFERRED!r} if name in sys.modules], "none")

import torch, transformers
from transformers.distributed import checkpoint, fsdp, mixin, sharding_utils
from transformers.loss import loss_for_object_detection as losses
from transformers.modeling_utils import PreTrainedModel
assert type(sharding_utils.DTensor) is not type

def twice(x):
    return 2 * x if x.sum() > 0 else x
calls = []
def backend(graph, inputs):
    calls.append(graph)
    return graph.forward
assert torch.compile(twice, backend=backend)(torch.ones(2)).tolist() == [2.0, 2.0] and calls
rules = torch._dynamo.trace_rules
assert id(PreTrainedModel.can_record_outputs.fget) in rules._allowed_callable_ids
from transformers.integrations.eager_paged import eager_paged_attention_forward
assert eager_paged_attention_forward._torchdynamo_disable
import torch.distributed.tensor, torch.distributed.fsdp, scipy.optimize
assert sharding_utils.DTensor is torch.distributed.tensor.DTensor
assert fsdp.MixedPrecisionPolicy is torch.distributed.fsdp.MixedPrecisionPolicy
assert losses.linear_sum_assignment is scipy.optimize.linear_sum_assignment
assert checkpoint._StridedShard is torch.distributed.tensor.placement_types._StridedShard
from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES, apply_tensor_parallelism
assert mixin.apply_tensor_parallelism is apply_tensor_parallelism and "colwise" in ALL_PARALLEL_STYLES
from transformers import BitsAndBytesConfig, TorchAoConfig
from transformers.quantizers import auto
assert BitsAndBytesConfig(load_in_8bit=True).load_in_8bit and "torchao" in auto.AUTO_QUANTIZER_MAPPING
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=4, n_layer=1, n_head=1, bos_token_id=1, eos_token_id=2))
assert model.generate(torch.tensor([[3, 4]]), max_new_tokens=3, min_new_tokens=3, pad_token_id=0).shape == (1, 5)
print("done")
"""


def test_a_saved_classifier_answers_the_same_and_all_else_works_afterwards():
    """In a fresh interpreter: answers by lean imports, what was not imported, and all the rest of torch and transformers."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", AFTERWARDS], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    answers, loaded, done = run.stdout.splitlines()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected = slalom.Explainer(str(EMBEDDED), device="cpu")(TEXTS, queries=20)
    finally:
        torch.set_num_threads(threads)
    for found, e in zip(json.loads(answers), expected, strict=True):
        np.testing.assert_allclose(found, e.scores("removal"), atol=1e-5)  # batches may differ, and so the last digits
    assert (loaded, done) == ("none", "done")
