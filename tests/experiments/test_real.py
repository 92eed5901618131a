"""What the real-data experiments stand on: networks to begin from, texts, and settings."""

import gzip
import json

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel, MambaConfig

from experiments.__main__ import main
from experiments.harness import Lab, lots
from experiments.learnt_tokenizers import learnt_tokenizer, new_tokenizer, save_tokenizer
from experiments.real import Measured, better
from experiments.reviews import reviews
from experiments.starts import MambaForSequenceClassification, begin
from experiments.table11 import printed
from experiments.texts import FILMS, MIXED, RESTAURANTS, made_of_phrases
from experiments.training import Labelled, Recipe, train
from slalom import Explainer

TEXTS = made_of_phrases("films", 40, 0)[0]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A tiny BERT, saved as an encoder is."""
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = new_tokenizer(learnt_tokenizer(TEXTS, "bert", 200), 64)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    save_tokenizer(tokenizer, folder)
    return str(folder)


@pytest.mark.parametrize("arch", ["bert", "distilbert"])
def test_a_network_that_begins_from_an_encoder_computes_what_its_first_layers_do(arch, encoder, tmp_path):
    begin(tmp_path / "a", arch, 2, TEXTS, ("0", "1"), max_length=32, given=encoder)
    made = AutoModelForSequenceClassification.from_pretrained(tmp_path / "a").eval()
    whole = AutoModel.from_pretrained(encoder).eval()
    ids = torch.tensor([[2, 9, 10, 11, 3], [2, 12, 13, 14, 3]])
    with torch.inference_mode():
        wanted = whole(ids, output_hidden_states=True).hidden_states[2]
        torch.testing.assert_close(made.base_model(ids)[0], wanted)


@pytest.mark.parametrize(("arch", "table"), [("gpt2", "wte"), ("bloom", "word_embeddings"), ("mamba", "embeddings")])
def test_other_networks_begin_from_its_token_embeddings(arch, table, encoder, tmp_path):
    begin(tmp_path / "a", arch, 1, TEXTS, ("0", "1"), max_length=32, given=encoder)
    made = AutoModelForSequenceClassification.from_pretrained(tmp_path / "a")
    wanted = AutoModel.from_pretrained(encoder).embeddings.word_embeddings.weight
    torch.testing.assert_close(getattr(made.base_model, table).weight, wanted)
    assert "token_type_ids" not in AutoTokenizer.from_pretrained(tmp_path / "a").model_input_names


def test_mamba_reads_the_last_token_that_is_no_padding(encoder, tmp_path):
    begin(tmp_path / "a", "mamba", 1, TEXTS, ("0", "1"), max_length=32, given=encoder)
    made = MambaForSequenceClassification.from_pretrained(tmp_path / "a").eval()
    ids, padded = torch.tensor([[2, 9, 10, 3]]), torch.tensor([[2, 9, 10, 3, 0, 0]])
    with torch.inference_mode():
        torch.testing.assert_close(made(padded, (padded != 0).long()).logits, made(ids).logits)


def test_a_mamba_is_trained_and_explained_from_its_folder_and_takes_no_name_of_transformers(encoder, tmp_path):
    start = begin(tmp_path / "a", "mamba", 1, TEXTS, ("0", "1"), max_length=32, given=encoder)
    data = Labelled(TEXTS, np.arange(len(TEXTS)) % 2, ("0", "1"), "films")
    recipe = Recipe(init=start, max_length=32, epochs=1, batch=16, validation=0.2)
    train(data, tmp_path / "b", recipe, device="cpu", progress=False)
    ask = Explainer(str(tmp_path / "b"), device="cpu", progress=False)
    assert isinstance(ask.model.model, MambaForSequenceClassification)
    assert MambaConfig.model_type != ask.model.model.config.model_type
    assert MambaConfig not in AutoModelForSequenceClassification._model_mapping


def test_texts_that_are_explained_or_tested_are_not_trained_on():
    for data in ("imdb", "yelp"):
        found = reviews(Lab("some", quick=True), data)
        assert not set(found.train.texts) & set(found.explained)
        assert found.explained


@pytest.mark.parametrize("data", ["imdb", "yelp"])
def test_with_more_texts_the_same_ones_come_first_and_the_rest_stays(data, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for i, name in enumerate(("imdb_train", "imdb_test", "yelp_polarity_train", "yelp_polarity_test")):
        texts, labels = made_of_phrases("films", 60, i)
        _written(
            tmp_path / "data" / f"{name}.jsonl.gz", [{"text": t, "label": int(n)} for t, n in zip(texts, labels, strict=True)]
        )
    marked = [{"words": ["word", f"a{i}"], "maps": [[1, 0]] * 3, "label": 0, "subset": "yelp50"} for i in range(30)]
    _written(tmp_path / "data" / "yelp_hat.jsonl.gz", marked)
    monkeypatch.setenv("SLALOM_SHARED", str(tmp_path))
    few, many = (reviews(Lab("some", settings=(("test", 10), ("texts", number), ("train", 20))), data) for number in (7, 20))
    assert (len(few.explained), len(many.explained)) == (7, 20)
    assert many.explained[:7] == few.explained
    assert [one.text for one in few.marked] == [one.text for one in many.marked[:7]]
    assert (few.train.texts, few.test.texts) == (many.train.texts, many.test.texts)


def _written(path, rows):
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def test_whole_lots_of_a_smaller_run_are_taken_by_a_larger_one():
    few, many = lots(12, 5), lots(30, 5)
    assert few == {"0": 0, "5": 5, "10of12": 10}
    assert set(few) - set(many) == {"10of12"}
    assert list(many.values()) == [0, 5, 10, 15, 20, 25]
    assert lots(0, 5) == {}


def test_marks_are_of_words():
    for one in (*FILMS, *RESTAURANTS, *MIXED):
        assert len(one.words) == len(one.marks)
        assert 0 < one.marks.sum() < len(one.words)
        assert "*" not in one.text


def test_settings_replace_sizes(tmp_path, capsys):
    lab = Lab("some", settings=(("texts", 7),))
    assert (lab.number("texts", 100, 3), lab.number("samples", 100, 3)) == (7, 100)
    assert main(["proposition52", "--quick", "--set", "texts=7", "--out", str(tmp_path), "--silent"]) == 0
    assert '"texts": 7' in (tmp_path / "proposition52-quick.json").read_text()


def test_printed_figures_are_whole():
    assert len(printed()) == 12
    assert printed()["deletion", "yelp", "gpt2"]["attnlrp", "removal"] == 0.740


def test_a_claim_against_a_method_that_is_missing_does_not_hold():
    records = {("imdb", "bert"): [{"method": "eff", "scores": {"linear": {"bayes": 0.5}}}]}
    found = better("It is best.", Measured(records, ()), "bayes", ("eff", "linear"), [("lime", "removal")])
    assert not found.holds
    assert "not available: LIME" in found.because
    assert np.isclose(Measured(records, ()).average(("eff", "linear"), "bayes"), 0.5)
