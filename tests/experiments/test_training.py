"""Training: it learns by labels and by a teacher, the same seed gives the same weights, and what is saved loads."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from safetensors.numpy import load_file  # noqa: E402

import slalom  # noqa: E402
from experiments.__main__ import main  # noqa: E402
from experiments.learnt_tokenizers import learnt_words, new_tokenizer  # noqa: E402
from experiments.training import ATTENTION, Labelled, Recipe, ask, encoded, loaded_classifier, shuffled, train  # noqa: E402
from slalom.errors import InputError, ModelError  # noqa: E402
from slalom.theory import attention  # noqa: E402

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


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    """A classifier trained on clear texts, and these."""
    data = reviews(1000, least=3)
    return trained(data, tmp_path_factory.mktemp("clear") / "m", LEARNS, test=reviews(300, 5, least=3)), data


def test_each_architecture_is_trained_and_explained(clear, tmp_path):
    made, data = clear
    assert made.test > 0.9
    e = slalom.Explainer(made.path, queries=60, method="ridge")("the story of the film was good")
    assert e.prediction[0] == "positive"
    assert e.units[int(e.shapley().argmax())] == "good"
    for arch in ("bert", "gpt2"):
        assert trained(data, tmp_path / arch, replace(LEARNS, arch=arch, epochs=1)).validation[-1] > 0.4


def test_one_layer_of_attention_learns_with_and_without_a_final_layer_and_keeps_its_best_epoch(tmp_path):
    small = replace(ATTENTION, hidden=8, heads=2, inner=8, max_length=24, epochs=6, learning_rate=2e-2, seed=1)
    for final in (True, False):
        made = trained(reviews(300, least=2), tmp_path / str(final), replace(small, final=final))
        assert max(made.validation) > 0.85
        assert attention.load(made.path).model.config.final == final
    unsteady = replace(small, learning_rate=0.1)
    whole = trained(reviews(100), tmp_path / "whole", unsteady)
    best = int(np.argmax(whole.validation))
    short = trained(reviews(100), tmp_path / "short", replace(unsteady, epochs=best + 1))
    assert short.validation == whole.validation[: best + 1]
    one, two = (load_file(made.path / "model.safetensors") for made in (whole, short))
    assert all((one[name] == two[name]).all() for name in one)


def test_a_student_learns_what_its_teacher_thinks_not_only_the_labels(clear, tmp_path):
    """The labels are wrong by half, the teacher is right."""
    teacher, data = clear
    test = reviews(300, 5, least=3)
    noise = np.random.default_rng(0).random(len(data)) < 0.5
    wrong = replace(data, labels=np.where(noise, 1 - data.labels, data.labels))
    taught = replace(LEARNS, teacher=str(teacher.path), hard=0.0, views=2)
    assert trained(wrong, tmp_path / "alone", LEARNS, test=test).test < 0.8
    assert trained(wrong, tmp_path / "student", taught, test=test).test > 0.85
    with pytest.raises(InputError, match=r"the same labels \(no, yes\); it has negative, positive"):
        trained(replace(data, names=("no", "yes")), tmp_path / "m", taught)
    # With its labels in another order it is understood.
    turned = Labelled(data.texts, 1 - data.labels, ("positive", "negative"), "here")
    assert trained(turned, tmp_path / "n", replace(taught, hard=0.5)).validation[-1] > 0.8


def test_a_teacher_that_answers_with_nothing_is_refused(tmp_path):
    data = reviews(60)
    trained(data, tmp_path / "one", replace(SMALL, epochs=1))
    model, tokenizer = loaded_classifier(str(tmp_path / "one"))
    model.classifier.bias.data[:] = float("nan")
    model.save_pretrained(tmp_path / "nan")
    tokenizer.save_pretrained(tmp_path / "nan")
    with pytest.raises(ModelError, match="answers with NaN"):
        trained(data, tmp_path / "two", replace(SMALL, epochs=1, teacher=str(tmp_path / "nan")))


def test_a_saved_model_is_a_start_also_for_other_classes_and_kinds_of_labels(clear, tmp_path):
    begun, data = clear
    shutil.copytree(begun.path, tmp_path / "one")
    path = tmp_path / "one" / "config.json"
    path.write_text(path.read_text().replace("single_label_classification", "multi_label_classification"))
    again = replace(SMALL, epochs=1, init=str(tmp_path / "one"), learning_rate=1e-5)
    few = data[np.arange(90)]
    assert trained(few, tmp_path / "two", again, test=data).test > 0.85
    assert slalom.Explainer(tmp_path / "two").model.head.kind == "classes"
    three = Labelled(few.texts, np.arange(90) % 3, ("a", "b", "c"), "here")
    trained(three, tmp_path / "three", again)
    assert slalom.Explainer(tmp_path / "three").model.head.labels == ("a", "b", "c")


def test_positions_that_begin_after_the_padding_index_are_counted(tmp_path):
    from tests.models import tiny  # noqa: PLC0415

    config = transformers.RobertaConfig(
        vocab_size=400, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=20, pad_token_id=1,
    )  # fmt: skip
    transformers.RobertaForSequenceClassification(config).save_pretrained(tmp_path / "roberta")
    tiny.tokenizer("roberta").save_pretrained(tmp_path / "roberta")
    trained(reviews(40), tmp_path / "m", replace(SMALL, epochs=1, init=str(tmp_path / "roberta"), max_length=512))


def test_what_is_saved_says_what_it_is(tmp_path):
    data = reviews(60)
    test = Labelled((*data.texts[:5], "good film"), np.array([*data.labels[:5], 1]), data.names, "test.csv")
    made = trained(data, tmp_path / "m", replace(SMALL, half=True, epochs=1), test=test)
    card = (tmp_path / "m" / "README.md").read_text()
    assert all(part in card for part in ("made up", "negative, positive", "vocabulary=120", f"test_new={made.test_new}"))
    assert all(w.dtype == np.float16 for w in load_file(tmp_path / "m" / "model.safetensors").values())
    assert json.loads((tmp_path / "m" / "tokenizer.json").read_text())["truncation"] is None
    assert json.loads((tmp_path / "m" / "config.json").read_text())["dtype"] == "float32"  # as it is to be loaded
    assert json.loads((tmp_path / "m" / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_the_same_seed_gives_the_same_weights(tmp_path):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained(reviews(80), tmp_path / name, replace(SMALL, epochs=1, seed=seed))
        weights.append(load_file(tmp_path / name / "model.safetensors")["classifier.weight"])
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_what_cannot_be_trained_is_refused(tmp_path):
    data = reviews(50)
    for recipe, said in (
        (replace(SMALL, arch="rnn"), "must be one of bert, distilbert, gpt2; got 'rnn'"),
        (replace(SMALL, heads=3), "multiple of the heads; got 16 and 3"),
    ):
        with pytest.raises(InputError, match=said):
            trained(data, tmp_path / "m", recipe)
    with pytest.raises(InputError, match="two or more classes"):
        trained(Labelled(("a", "b"), np.array([0, 0]), ("x",), "here"), tmp_path / "m")
    with pytest.raises(ModelError, match="training has diverged"):
        trained(data, tmp_path / "m", replace(SMALL, learning_rate=1e30))
    assert not (tmp_path / "m").exists()


def test_batches_have_every_text_once_and_nearly_one_length():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = shuffled(lengths, 8, np.random.default_rng(1))
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert np.mean([np.ptp(lengths[b]) for b in batches]) < 5
    assert len({tuple(b) for b in batches} & {tuple(b) for b in shuffled(lengths, 8, np.random.default_rng(2))}) == 0


def test_padding_changes_nothing(tmp_path):
    model, tokenizer = loaded_classifier(str(trained(reviews(60), tmp_path / "m", replace(SMALL, epochs=1)).path))
    ids = encoded(tokenizer, ["good film", "bad", "the story was poor and bad and the film was fine of the story"], 24)
    with torch.inference_mode():
        padded = ask(model.eval(), ids)
        for i in range(3):
            assert torch.allclose(padded[i], ask(model, ids[i : i + 1])[0], atol=1e-5)


def test_the_tokenizer_of_one_layer_reads_whole_words():
    texts = ["A good film, isn't it?<br />It's GOOD!", "a dog"]
    tokenizer = new_tokenizer(learnt_words(texts, 100), 20)
    ids = tokenizer("It's a Good cat<br />[UNK]")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "it's", "a", "good", "[UNK]", "[UNK]"]
    assert (tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.cls_token_id) == (0, 0, 1)
    assert tokenizer.convert_ids_to_tokens([2, 3]) == ["a", "good"]  # by frequency, then by the alphabet
    few = new_tokenizer(learnt_words(texts, 4), 20)
    assert few.convert_ids_to_tokens(few("a good film")["input_ids"]) == ["[CLS]", "a", "good", "[UNK]"]


def test_the_command_trains(tmp_path, capsys, monkeypatch):
    data = reviews(60)
    rows = "".join(f"{text}\t{data.names[label]}\n" for text, label in zip(data.texts, data.labels, strict=True))
    (tmp_path / "d.tsv").write_text("text\tlabel\n" + rows)
    monkeypatch.setattr("experiments.training.Recipe", lambda: replace(SMALL, epochs=1))
    assert main(["train", str(tmp_path / "d.tsv"), "--out", str(tmp_path / "m")]) == 0
    assert "Trained(path=" in capsys.readouterr().out
    assert slalom.Explainer(tmp_path / "m").model.head.labels == ("negative", "positive")
    assert main(["train", str(tmp_path / "d.txt"), "--out", str(tmp_path / "m")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
