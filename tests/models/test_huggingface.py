"""Every architecture: the right special tokens, the right answers, and the model left as it was."""

import copy
import warnings

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.models import Engine, Queries, model_of
from slalom.models.huggingface.model import HuggingFace
from tests.cases import cases
from tests.models.tiny import ARCHITECTURES, QUICK, classifier, tokenizer

TEXT = "The acting wasn't good!\r\nA naïve 👍🏽 end, a good <br /> film."
# DeBERTa's own code and torch's half precision on old processors warn about themselves.
pytestmark = [pytest.mark.filterwarnings("ignore:.*torch.jit"), pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def ask(model, text, keep):
    return Engine(model)([Queries(model.read(text, "cut", None), keep)])[0].outputs


def by_hand(model, words, ids):
    """Answers one input as a user would."""
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        given = {"input_ids": torch.tensor([ids])}
        if isinstance(model, hf.XLNetForSequenceClassification):
            given["token_type_ids"] = torch.tensor([[0] * (len(ids) - 1) + [2]])
        answer = model(**{k: v.to(next(model.parameters()).device) for k, v in given.items()})
    for module, flag in flags:
        module.training = flag
    return (answer if isinstance(answer, torch.Tensor) else answer.logits)[0].cpu().numpy()


@cases("device", DEVICES)
@cases("name", ARCHITECTURES)
def test_answers_are_the_models_own(name, device):
    made, words = classifier(name)
    made.to(device).train()
    if isinstance(made, hf.PreTrainedModel):
        made.get_input_embeddings().training = False  # one part frozen by the user
    before = copy.deepcopy(made.state_dict())
    flags = [module.training for module in made.modules()]
    config = None if name == "mamba" else made.config.to_dict()
    model = model_of(made, words)
    reading = model.read(TEXT, "cut", None)
    n = len(reading.names)
    keep = np.random.default_rng(0).random((9, n)) < 0.6
    keep[0], keep[:, 0] = True, True
    found = ask(model, TEXT, keep)
    ids = words(TEXT)["input_ids"]
    special = words(TEXT, return_special_tokens_mask=True)["special_tokens_mask"]
    body = [i for i, s in enumerate(special) if not s]
    for row, outputs in zip(keep, found, strict=True):
        gone = {body[j] for j in np.flatnonzero(~row)}
        expected = by_hand(made, words, [t for i, t in enumerate(ids) if i not in gone])
        assert np.allclose(outputs, expected, atol=2e-4), name
    assert np.ptp(found[:, 1] - found[:, 0]) > 0.01, "the model reacts to what is removed"
    assert [module.training for module in made.modules()] == flags
    assert all((before[key] == value).all() for key, value in made.state_dict().items())
    assert config is None or made.config.to_dict() == config


@cases(("kind", "before", "after"), [("bert", 1, 1), ("roberta", 1, 1), ("gpt2", 0, 0), ("t5", 0, 1), ("xlnet", 0, 2)])
def test_special_tokens_are_those_of_the_tokenizer(kind, before, after):
    name = {"xlnet": "xlnet", "t5": "t5"}.get(kind, kind)
    reading = model_of(*classifier(name)).read("a good film", "cut", None)
    assert reading.before.shape[1] == before
    assert reading.after.shape[1] == after
    assert reading.empty == (before + after > 0)
    assert "".join(reading.names).replace(" ", "") == "agoodfilm"


@cases("name", ["bert", "gpt2", "t5", "xlnet"])
def test_units_are_slices_of_the_text(name):
    e = Explainer(*classifier(name), **QUICK)(TEXT)
    assert len(e.units) == len(e.values) == len(e.spans)
    assert not any(mark in unit for unit in e.units for mark in ("##", "Ġ", "▁", "[CLS]", "</s>"))
    assert np.isfinite(e.values).all()
    assert all(TEXT[a:b] == unit or a == b for unit, (a, b) in zip(e.units, e.spans, strict=True))
    assert set("Theactingood") <= set("".join(TEXT[a:b] for a, b in e.spans))


def test_a_literal_special_token_in_the_text_is_a_unit():
    made, words = classifier("bert")
    e = Explainer(made, words, **QUICK)("good [SEP] film")
    assert "[SEP]" in e.units
    only = Explainer(made, words, **QUICK)("[CLS] [SEP]")
    assert only.units == ("[CLS]", "[SEP]")


@cases("name", ["bert", "gpt2"])
def test_a_single_token_and_an_empty_text(name):
    made, words = classifier(name)
    explainer = Explainer(made, words)
    e = explainer("a")
    assert len(e) == 1
    assert e.predict([1]) == pytest.approx(e.score, abs=1e-4)
    for text in ("", " \n"):
        if not words(text, add_special_tokens=False)["input_ids"]:
            with pytest.raises(InputError, match="at least one token"):
                explainer(text)


def test_one_logit_is_a_log_odds():
    made, words = classifier("bert", n=1)
    model = model_of(made, words)
    assert model.head.kind == "score"
    truth = float(by_hand(made, words, words(TEXT)["input_ids"])[0])
    for target in (None, 0, "LABEL_0", "all"):
        e = Explainer(made, words, **QUICK, target=target)(TEXT)
        assert e.score == pytest.approx(truth, abs=1e-5)
        assert e.target == "LABEL_0"
    with pytest.raises(InputError, match="target 1 is not a class"):
        Explainer(made, words, target=1)(TEXT)


def test_many_labels_and_all_of_them():
    made, words = classifier("distilbert", n=4, id2label={0: "a", 1: "b", 2: "c", 3: "d"})
    explainer = Explainer(made, words, queries=20, check=0)
    logits = by_hand(made, words, words(TEXT)["input_ids"]).astype(float)
    e = explainer(TEXT)
    best = int(logits.argmax())
    assert e.target == "abcd"[best]
    rest = np.log(np.exp(np.delete(logits, best)).sum())
    assert e.score == pytest.approx(logits[best] - rest, abs=1e-4)
    assert explainer(TEXT, target="c").target == explainer(TEXT, target=2).target == "c"
    every = explainer(TEXT, target="all")
    assert every.values.shape == (len(every), 4)
    assert np.allclose(every.score, logits - logits.mean(), atol=1e-4)
    with pytest.raises(InputError, match=r'choose one of 0 \(a\), 1 \(b\), 2 \(c\), 3 \(d\), or "all"'):
        explainer(TEXT, target="e")
    with pytest.raises(InputError, match="target 7 is not a class"):
        explainer(TEXT, target=7)


def test_independent_labels_keep_their_own_logits():
    made, words = classifier("bert", n=3, problem_type="multi_label_classification")
    logits = by_hand(made, words, words(TEXT)["input_ids"])
    e = Explainer(made, words, **QUICK, target=2)(TEXT)
    assert e.score == pytest.approx(float(logits[2]), abs=1e-5)
    with pytest.raises(InputError, match="independent"):
        Explainer(made, words, **QUICK, target="all")(TEXT)


def test_what_is_no_classifier_is_refused():
    made, words = classifier("bert")
    with pytest.raises(InputError, match="needs its tokenizer as the second argument"):
        Explainer(made)
    with pytest.raises(InputError, match="its tokenizer"):
        Explainer(made, "bert-base-uncased")
    with pytest.raises(ModelError, match="AutoModelForSequenceClassification"):
        Explainer(made.bert, words)
    with pytest.raises(InputError, match="precision must be"):
        Explainer(made, words, precision="int4")


def test_paths_are_loaded_and_wrong_ones_refused(tmp_path):
    made, words = classifier("bert")
    made.save_pretrained(tmp_path / "classifier")
    words.save_pretrained(tmp_path / "classifier")
    e = Explainer(tmp_path / "classifier", **QUICK, device="cpu")(TEXT)
    assert e.score == pytest.approx(Explainer(made, words, **QUICK)(TEXT).score, abs=1e-5)
    made.bert.save_pretrained(tmp_path / "encoder")
    words.save_pretrained(tmp_path / "encoder")
    with pytest.raises(InputError, match="holds no sequence classifier"):
        Explainer(tmp_path / "encoder")
    with pytest.raises(InputError, match=r"there is no folder or file .*nothing'; name the folder of a saved"):
        Explainer(str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="could be loaded from"):
        Explainer(tmp_path / "empty")


def test_texts_that_are_too_long_are_cut_with_a_warning_or_explained_in_windows():
    made, words = classifier("bert")
    text = " ".join(["a good film with a bad end"] * 12)
    n = len(words(text)["input_ids"]) - 2
    with pytest.warns(UserWarning, match=f"{n - 62} tokens do not fit into"):
        e = Explainer(made, words, **QUICK)(text)
    assert e.cut == n - 62
    assert len(e) == 62
    left = copy.deepcopy(words)
    left.truncation_side = "left"
    with pytest.warns(UserWarning, match="cut"):
        end = Explainer(made, left, **QUICK)(text)
    ids = words(text, add_special_tokens=False)["input_ids"]
    expected = by_hand(made, words, [2, *ids[-62:], 3])
    assert end.score == pytest.approx(float(expected[1] - expected[0]), abs=1e-4)
    assert end.spans[-1, 1] == len(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = Explainer(made, words, **QUICK, long="window")(text)
    assert whole.cut == 0
    assert len(whole) == n
    ids = words(text, add_special_tokens=False)["input_ids"]
    starts = [*range(0, n - 62, 31), n - 62]
    each = [by_hand(made, words, [2, *ids[a : a + 62], 3]) for a in starts]
    assert whole.score == pytest.approx(float(np.mean([x[1] - x[0] for x in each])), abs=1e-4)
    few = by_hand(made, words, [2, *ids[:3], 3])
    alone = Explainer(made, words, long="window").ask(whole, np.arange(n) < 3)  # there is nothing in the other windows
    assert alone == pytest.approx(float(few[1] - few[0]), abs=1e-4)


@cases(("name", "room"), [("bert", 64), ("roberta", 64), ("gpt2", 64), ("llama", 64), ("bloom", None)])
def test_the_context_is_what_the_position_table_allows(name, room):
    made, words = classifier(name)
    model = HuggingFace(made, words)
    assert model.context_length == room
    if room:
        longest = [5] * room
        by_hand(made, words, longest)  # the model takes it


@cases("name", ["llama", "bert"])
@cases("own", [None, 0])
def test_the_identity_is_the_same_after_a_session(name, own):
    """A decoder without a padding token is lent one, which is none of its settings."""
    made, words = classifier(name)
    made.config.pad_token_id = own
    model = HuggingFace(made, words)
    outside = model.identity()
    with model.session():
        assert made.config.pad_token_id is not None
    assert made.config.pad_token_id == own
    assert model.identity() == outside
    made.config.pad_token_id = 1
    assert model.identity() != outside


def test_a_tokenizer_of_another_model_is_refused():
    made, _ = classifier("bert")
    with pytest.raises(ModelError, match="the tokenizer that it was trained with"):
        Explainer(made, tokenizer("gpt2"), **QUICK)("👍🏽 zzz wwww qqqq ÿÿÿ")
    with pytest.raises(InputError, match="valid Unicode"):
        Explainer(*classifier("bert"))("a \ud83d b")
    with torch.inference_mode():
        frozen, words = classifier("bert")
    assert len(Explainer(frozen, words, **QUICK)("a good film")) == 3


def test_half_precision_is_near_and_leaves_the_weights():
    made, words = classifier("bert")
    exact, half = (Explainer(made, words, **QUICK, precision=p)(TEXT) for p in (None, "bfloat16"))
    assert exact.score != half.score
    assert exact.score == pytest.approx(half.score, abs=0.2)
    assert made.dtype == torch.float32
    assert Explainer(made.bfloat16(), words, **QUICK)(TEXT).score == pytest.approx(exact.score, abs=0.3)
    assert made.dtype == torch.bfloat16


def test_a_tokenizer_without_offsets_still_gives_spans():
    class Slow(hf.PythonBackend):
        def __init__(self, **more):
            self.table = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "a", "good", "film", "un", "##like", "##ly"])}
            super().__init__(unk_token="[UNK]", pad_token="[PAD]", **more)

        @property
        def vocab_size(self):
            return len(self.table)

        def get_vocab(self):
            return dict(self.table)

        def _tokenize(self, text, **_):
            return text.lower().replace("unlikely", "un ##like ##ly").split()

        def _convert_token_to_id(self, token):
            return self.table.get(token, 1)

        def _convert_id_to_token(self, index):
            return list(self.table)[index]

    words = Slow()
    made = hf.BertForSequenceClassification(
        hf.BertConfig(vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    )
    e = Explainer(made, words, **QUICK)("An unlikely good film")
    assert [tuple(span) for span in e.spans[-3:].tolist()][1:] == [(12, 16), (17, 21)]
    assert e.units[-2:] == ("good", "film")


def test_a_token_of_id_zero_is_asked_at_every_length():
    made, _ = classifier("gpt2")
    vocabulary = {"!": 0, "good": 1, "bad": 2, "[UNK]": 3}
    tokens = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokens.pre_tokenizer = WhitespaceSplit()
    model = HuggingFace(made, hf.PreTrainedTokenizerFast(tokenizer_object=tokens, unk_token="[UNK]", model_max_length=30))
    reading = model.read("! good ! !", "cut", None)
    keep = np.array([[1, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1], [1, 1, 0, 0]], dtype=bool)
    together = Engine(model)([Queries(reading, keep)])[0]
    alone = np.concatenate([Engine(model)([Queries(reading, row[None])])[0].outputs for row in keep])
    assert len(together.lengths) == 4
    np.testing.assert_allclose(together.outputs, alone, rtol=1e-5)
    assert len(np.unique(alone[:, 0])) == 4


def test_answers_in_double_precision_stay_so():
    made, words = classifier("bert")
    model = HuggingFace(made.double(), words)
    inputs, _ = model.read("good film", "cut", None).groups(np.ones((1, 2), dtype=bool))[0].build()
    with model.session():
        found = model.collect(model.submit(inputs))
        assert (found == model.logits(inputs).numpy()).all()
    assert found.dtype == np.float64


def test_a_folder_without_its_tokenizer_is_refused(tmp_path):
    for name in ("bert", "albert", "roberta", "deberta-v2", "xlnet", "gpt2", "llama", "t5"):
        network, _ = classifier(name)
        network.save_pretrained(tmp_path / name)
        with pytest.raises(InputError, match=r"must have words, and it has special tokens only|could be loaded from"):
            Explainer(tmp_path / name, device="cpu")
    words = hf.AutoTokenizer.from_pretrained(tmp_path / "bert")
    assert words.tokenize("a good film") == ["[UNK]"] * 3  # what transformers makes of it
    with pytest.raises(InputError, match=r"the tokenizer of Bert\w+ must have words"):
        Explainer(classifier("bert")[0], words)


def test_a_text_of_mostly_unknown_tokens_says_so():
    for made in (Explainer(*classifier("bert"), **QUICK), Explainer(**QUICK)):
        assert "The tokenizer does not know 3 of the 5 tokens of this text" in str(made("𓀀 𓀁 𓀂 a film"))
        assert not any("does not know" in remark for remark in made("𓀀 𓀁 a good film").remarks)
