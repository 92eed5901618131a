"""Training: it learns, it goes on where it was stopped bit by bit, it can be taught, and it says what is wrong."""

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from safetensors.numpy import load_file  # noqa: E402

import slalom  # noqa: E402
from slalom.errors import InputError, ModelError  # noqa: E402
from slalom.models.huggingface.saved import load_saved  # noqa: E402
from slalom.training import Labelled, Recipe, Stopped, train  # noqa: E402
from slalom.training.batches import encoded, shuffled  # noqa: E402

SMALL = Recipe(layers=1, hidden=16, heads=2, vocabulary=120, max_length=24, epochs=3, batch=16, learning_rate=1e-2, seed=1)
LEARNS = replace(SMALL, epochs=4, learning_rate=5e-3)  # enough for texts that are clear


def reviews(m, seed=0, least=1):
    """Texts that are good where they have more good words than bad ones; least: how many more, of either."""
    rng = np.random.default_rng(seed)
    words = np.array(["good", "fine", "bad", "poor", "the", "film", "was", "and", "of", "story"])
    texts = [" ".join(rng.choice(words, rng.integers(4, 20))) for _ in range(m)]
    kinds = [sum(w in ("good", "fine") for w in t.split()) - sum(w in ("bad", "poor") for w in t.split()) for t in texts]
    keep = [i for i, k in enumerate(kinds) if abs(k) >= least]
    labels = np.array([int(kinds[i] > 0) for i in keep])
    return Labelled(tuple(texts[i] for i in keep), labels, ("negative", "positive"), "made up")


def trained(data, out, recipe=SMALL, **options):
    return train(data, out, recipe, device="cpu", progress=False, **options)


@pytest.mark.parametrize("arch", ["bert", "distilbert", "gpt2"])
def test_each_architecture_learns_and_is_explained(arch, tmp_path):
    data, test = reviews(1500, least=3), reviews(500, 5, least=3)
    made = trained(data, tmp_path / "m", replace(LEARNS, arch=arch, hidden=32), test=test)
    assert made.test > 0.9
    assert made.validation[-1] > 0.85
    e = slalom.Explainer(tmp_path / "m")("the story of the film was good")
    assert e.target == "positive"
    assert e.prediction[0] == "positive"
    assert e.units[int(e.shapley().argmax())] == "good"  # removed alone it changes little: the others saturate
    assert e.model == "m"


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch):
    data = reviews(300)
    whole = trained(data, tmp_path / "whole")
    steps, before = [], signal.getsignal(signal.SIGINT)
    step = torch.optim.AdamW.step

    def counted(self, *arguments, **options):
        steps.append(1)
        if len(steps) in (5, 21):  # in the first epoch, and in a later one
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", counted)
    for at in ("step 5 of", "step 21 of"):
        with pytest.raises(Stopped, match=at):
            trained(data, tmp_path / "parts")
        assert (tmp_path / "parts" / "checkpoint.pt").exists()
    parts = trained(data, tmp_path / "parts")
    assert len(steps) == 3 * -(-round(0.95 * len(data)) // 16)
    assert parts.validation == whole.validation
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not (tmp_path / "parts" / "checkpoint.pt").exists()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("at", ["the last step of an epoch", "the end"])
def test_a_stop_between_epochs_or_at_the_end_loses_nothing(tmp_path, monkeypatch, at):
    data = reviews(60)
    recipe = replace(SMALL, batch=64, epochs=2)  # one step an epoch
    whole = trained(data, tmp_path / "whole", recipe)
    with monkeypatch.context() as patch:
        if at == "the end":
            patch.setattr("slalom.training.loop.card", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        else:
            step = torch.optim.AdamW.step
            patch.setattr(torch.optim.AdamW, "step", lambda self: os.kill(os.getpid(), signal.SIGINT) or step(self))
        with pytest.raises(KeyboardInterrupt):
            trained(data, tmp_path / "parts", recipe)
    parts = trained(data, tmp_path / "parts", recipe)
    assert parts.validation == whole.validation
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_a_start_for_independent_labels_becomes_one_for_classes(tmp_path):
    data = reviews(60)
    trained(data, tmp_path / "one", replace(SMALL, epochs=1))
    path = tmp_path / "one" / "config.json"
    path.write_text(path.read_text().replace("single_label_classification", "multi_label_classification"))
    trained(data, tmp_path / "two", replace(SMALL, epochs=1, init=str(tmp_path / "one")))
    assert slalom.Explainer(tmp_path / "two").model.head.kind == "classes"


def test_a_teacher_that_answers_with_nothing_is_refused(tmp_path):
    data = reviews(60)
    trained(data, tmp_path / "one", replace(SMALL, epochs=1))
    model, tokenizer, _ = load_saved(str(tmp_path / "one"))
    model.classifier.bias.data[:] = float("nan")
    model.save_pretrained(tmp_path / "nan")
    tokenizer.save_pretrained(tmp_path / "nan")
    with pytest.raises(ModelError, match="the teacher answers with NaN"):
        trained(data, tmp_path / "two", replace(SMALL, epochs=1, teacher=str(tmp_path / "nan")))


def test_positions_that_begin_after_the_padding_index_are_counted(tmp_path):
    import transformers  # noqa: PLC0415

    from tests.models import tiny  # noqa: PLC0415

    config = transformers.RobertaConfig(
        vocab_size=400, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=20, pad_token_id=1,
    )  # fmt: skip
    transformers.RobertaForSequenceClassification(config).save_pretrained(tmp_path / "roberta")
    tiny.tokenizer("roberta").save_pretrained(tmp_path / "roberta")
    trained(reviews(40), tmp_path / "m", replace(SMALL, epochs=1, init=str(tmp_path / "roberta"), max_length=512))


def test_another_run_does_not_go_on_by_mistake(tmp_path, monkeypatch):
    data = reviews(100)

    def stop(*_arguments, **_options):
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", stop)
        with pytest.raises(Stopped):
            trained(data, tmp_path / "m")
    with pytest.raises(InputError, match=r"is of another run \(hidden differ\)"):
        trained(data, tmp_path / "m", replace(SMALL, hidden=32))
    with pytest.raises(InputError, match="the data differ"):
        trained(reviews(99, 3), tmp_path / "m")
    torch.save({"mine": 1}, tmp_path / "m" / "checkpoint.pt")
    with pytest.raises(InputError, match="not a checkpoint of slalom"):
        trained(data, tmp_path / "m")
    (tmp_path / "m" / "checkpoint.pt").write_bytes(b"broken")
    with pytest.raises(InputError, match="not a checkpoint that can be read"):
        trained(data, tmp_path / "m")
    trained(data, tmp_path / "m", replace(SMALL, epochs=1), fresh=True)
    with pytest.raises(InputError, match="already holds a model"):
        trained(data, tmp_path / "m")


def test_a_student_learns_what_its_teacher_thinks_not_only_the_labels(tmp_path):
    """The labels are wrong by half, the teacher is right."""
    data, test = reviews(1500, least=3), reviews(500, 5, least=3)
    trained(data, tmp_path / "teacher", replace(LEARNS, hidden=32))
    noise = np.random.default_rng(0).random(len(data)) < 0.5
    wrong = Labelled(data.texts, np.where(noise, 1 - data.labels, data.labels), data.names, data.source)
    alone = trained(wrong, tmp_path / "alone", LEARNS, test=test)
    taught = replace(LEARNS, teacher=str(tmp_path / "teacher"), hard=0.0, views=2)
    made = trained(wrong, tmp_path / "student", taught, test=test)
    assert alone.test < 0.8
    assert made.test > 0.85


def test_a_teacher_with_other_labels_is_refused(tmp_path):
    data = reviews(60)
    trained(data, tmp_path / "teacher", replace(SMALL, epochs=1))
    other = Labelled(data.texts, data.labels, ("no", "yes"), "here")
    with pytest.raises(InputError, match=r"the same labels \(no, yes\); it has negative, positive"):
        trained(other, tmp_path / "m", replace(SMALL, teacher=str(tmp_path / "teacher")))
    # With its labels in another order it is understood.
    turned = Labelled(data.texts, 1 - data.labels, ("positive", "negative"), "here")
    trained(turned, tmp_path / "n", replace(SMALL, epochs=1, teacher=str(tmp_path / "teacher")))


def test_a_saved_model_is_a_start_also_for_other_classes(tmp_path):
    data = reviews(1500, least=3)
    trained(data, tmp_path / "one", LEARNS)
    again = trained(data, tmp_path / "two", replace(SMALL, epochs=1, init=str(tmp_path / "one"), learning_rate=1e-5))
    assert again.validation[-1] > 0.85
    three = Labelled(data.texts, np.arange(len(data)) % 3, ("a", "b", "c"), "here")
    trained(three, tmp_path / "three", replace(SMALL, epochs=1, init=str(tmp_path / "one")))
    assert slalom.Explainer(tmp_path / "three").model.head.labels == ("a", "b", "c")


def test_what_is_saved_says_what_it_is(tmp_path):
    data = reviews(200)
    test = Labelled((*data.texts[:5], "good film"), np.array([*data.labels[:5], 1]), data.names, "test.csv")
    made = trained(data, tmp_path / "m", replace(SMALL, half=True, epochs=1), test=test, command="slalom train x")
    assert made.repeated == 5
    card = (tmp_path / "m" / "README.md").read_text()
    for part in (
        "made up",
        "slalom train x",
        f"{made.test:.4f} on all 6 texts",
        "must not be used for",
        f"{made.test_new:.4f}",
    ):
        assert part in card
    assert all(w.dtype == np.float16 for w in load_file(tmp_path / "m" / "model.safetensors").values())
    assert json.loads((tmp_path / "m" / "tokenizer.json").read_text())["truncation"] is None
    assert json.loads((tmp_path / "m" / "config.json").read_text())["dtype"] == "float32"  # as it is to be loaded
    assert json.loads((tmp_path / "m" / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_the_same_seed_gives_the_same_weights(tmp_path):
    data = reviews(80)
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained(data, tmp_path / name, replace(SMALL, epochs=1, seed=seed))
        weights.append(load_file(tmp_path / name / "model.safetensors")["classifier.weight"])
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layers": 0}, "layers must be at least 1; got 0"),
        ({"dropout": 1.0}, "dropout must be a share"),
        ({"learning_rate": -1.0}, "learning_rate must be above 0"),
        ({"temperature": float("nan")}, "temperature must be finite"),
        ({"validation": -0.1}, "validation must be a share"),
    ],
)
def test_a_recipe_checks_its_numbers(options, said):
    with pytest.raises(InputError, match=said):
        replace(SMALL, **options)


def test_networks_that_cannot_be_made_are_refused(tmp_path):
    data = reviews(50)
    with pytest.raises(InputError, match="must be one of bert, distilbert, gpt2, attention; got 'rnn'"):
        trained(data, tmp_path / "m", replace(SMALL, arch="rnn"))
    with pytest.raises(InputError, match="multiple of the heads; got 16 and 3"):
        trained(data, tmp_path / "m", replace(SMALL, heads=3))
    with pytest.raises(InputError, match="no sequence classifier with its tokenizer could be loaded"):
        trained(data, tmp_path / "m", replace(SMALL, init=str(tmp_path)))
    with pytest.raises(InputError, match="at least two classes"):
        trained(Labelled(("a", "b"), np.array([0, 0]), ("x",), "here"), tmp_path / "m")
    with pytest.raises(InputError, match=r"device 'cuda:99' cannot be used: .*try 'cpu'"):
        train(data, tmp_path / "m", SMALL, device="cuda:99", progress=False)
    assert not (tmp_path / "m").exists()


def test_batches_have_every_text_once_and_nearly_one_length():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = shuffled(lengths, 8, np.random.default_rng(1))
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert np.mean([np.ptp(lengths[b]) for b in batches]) < 5
    assert len({tuple(b) for b in batches} & {tuple(b) for b in shuffled(lengths, 8, np.random.default_rng(2))}) == 0


def test_padding_changes_nothing(tmp_path):
    made = trained(reviews(60), tmp_path / "m", replace(SMALL, epochs=1))
    model, tokenizer, _ = load_saved(str(made.path))
    texts = ["good film", "bad", "the story was poor and bad and the film was fine of the story"]
    together = encoded(tokenizer, texts, 24)
    with torch.inference_mode():
        padded = model.eval()(**together.inputs(np.arange(3), torch.device("cpu"))).logits
        for i in range(3):
            alone = model(**together.inputs(np.array([i]), torch.device("cpu"))).logits
            assert torch.allclose(padded[i], alone[0], atol=1e-5)
