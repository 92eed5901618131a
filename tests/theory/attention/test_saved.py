"""Training: it learns, the best epoch is kept, Ctrl-C loses nothing, and arguments are checked."""

import os
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from safetensors.numpy import load_file  # noqa: E402

import slalom  # noqa: E402
from slalom.errors import InputError  # noqa: E402
from slalom.theory import attention  # noqa: E402
from slalom.training import Recipe, Stopped  # noqa: E402
from slalom.training.networks import learnt_words, new_tokenizer  # noqa: E402
from tests.cases import cases  # noqa: E402
from tests.theory.attention.made import SMALL, reviews  # noqa: E402


def train(out, **changes):
    return attention.train(*reviews(300), out, device="cpu", progress=False, **{**SMALL, "epochs": 4, **changes})


@cases("final", [True, False])
def test_it_learns_with_and_without_a_final_layer(final, tmp_path):
    made = train(tmp_path / f"m{final}", epochs=8, final=final, test=reviews(200, 9))
    assert made.test > 0.85
    assert attention.load(tmp_path / f"m{final}").inner.model.config.final == final


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole")
    step, count = torch.optim.AdamW.step, []

    def counted(self, *arguments, **options):
        count.append(1)
        if len(count) == 33:  # in the third epoch
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", counted)
    with pytest.raises(Stopped, match="run the same command to continue"):
        train(tmp_path / "cut")
    assert train(tmp_path / "cut").validation == whole.validation
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all((one[name] == two[name]).all() for name in one)


def test_the_epoch_that_did_best_is_kept(tmp_path):
    made = train(tmp_path / "m", epochs=8, learning_rate=0.05)
    best = int(np.argmax(made.validation))
    assert best < 7  # such a rate is unsteady
    short = train(tmp_path / "short", epochs=best + 1, learning_rate=0.05)
    assert short.validation == made.validation[: best + 1]
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("m", "short"))
    assert all((one[name] == two[name]).all() for name in one)
    assert "after the epoch that was best on them" in (tmp_path / "m" / "README.md").read_text()


def test_the_tokenizer_reads_whole_words():
    texts = ["A good film, isn't it?<br />It's GOOD!", "a dog"]
    tokenizer = new_tokenizer(learnt_words(texts, 100), 20)
    ids = tokenizer("It's a Good cat<br />[UNK]")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "it's", "a", "good", "[UNK]", "[UNK]"]
    assert (tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.cls_token_id) == (0, 0, 1)
    assert tokenizer.convert_ids_to_tokens([2, 3]) == ["a", "good"]  # by frequency, then by the alphabet
    few = new_tokenizer(learnt_words(texts, 4), 20)
    assert len(few) == 4
    assert few.convert_ids_to_tokens(few("a good film")["input_ids"]) == ["[CLS]", "a", "good", "[UNK]"]


@cases(
    ("arguments", "settings", "said"),
    [
        ((["a", "b"], [0]), {}, r"must be 2 whole numbers, one per text; got int64 of shape \(1,\)"),
        ((["a", "b"], [0.5, 1.0]), {}, "must be 2 whole numbers, one per text; got float64"),
        (("ab", [0, 1]), {}, "must be a list of strings"),
        ((["a", None], [0, 1]), {}, "must be strings; 1 of the 2 are not, the first is NoneType"),
        ((["a", "b"], [0, 1]), {"names": ["no", "no"]}, "names must be a list of different strings"),
        ((["a", "b"], [0, 1]), {"names": "ny"}, "names must be a list of different strings"),
        ((["a", "b"], [0, 1]), {"epoch": 3}, "a setting must be one of layers, .*; got epoch"),
        ((["a", "b"], [0, 1]), {"test": ["a"]}, "test must be a pair of texts and labels; got list"),
        (([], np.zeros(0, int)), {}, "at least one text; got none"),
        ((["a", "b"], [0, 3]), {"names": ["no", "yes"]}, "must be 0 to 1; got 0 to 3"),
        ((["a", "b"], [0, 1]), {"recipe": Recipe()}, "must be of the architecture attention"),
        ((["a", "b"], [0, 1]), {"recipe": Recipe.of("attention"), "epochs": 2}, "not both; got a recipe and epochs"),
        ((["a", "b"], [0, 1]), {"layers": 2}, "layers must be 1 for the architecture attention; got 2"),
    ],
)
def test_arguments_are_checked(arguments, settings, said, tmp_path):
    with pytest.raises(InputError, match=said):
        attention.train(*arguments, tmp_path / "m", progress=False, device="cpu", **settings)


def test_recipes_are_checked():
    with pytest.raises(InputError, match="only the architecture attention can do without its final layer; got 'bert'"):
        Recipe(final=False)
    with pytest.raises(InputError, match="best needs held-out texts"):
        Recipe(best=True, validation=0.0)
    assert not Recipe.of("attention", validation=0.0).best


def test_other_classifiers_are_no_networks_of_one_layer():
    with pytest.raises(InputError, match="must hold an AttentionClassifier"):
        attention.load(slalom.models.EMBEDDED)
    with pytest.raises(InputError, match="closed forms are of one layer of attention"):
        attention.trace(slalom.Explainer().model, "a good film")
