"""A pipeline is explained with its options: label and probability are those that it reports itself."""

import copy
import warnings

import numpy as np
import pytest
import transformers as hf

from slalom import Explainer
from slalom.errors import InputError
from slalom.models import Engine, Head, Queries, model_of
from tests.cases import cases
from tests.models.tiny import ARCHITECTURES, QUICK, classifier, tokenizer

TEXTS = [
    "good",
    "The acting wasn't good! A naïve end, a very good film",
    "Unbelievable: 3 of 10 viewers left early... but the plot was thin, and the cast was bad.",
]
THREE = {"n": 3, "id2label": {0: "bad", 1: "so-so", 2: "good"}}


def pipeline(name, made=None, words=None, kind=hf.TextClassificationPipeline, **options):
    model, usual = made or classifier(name, **THREE)
    return kind(model=model.eval(), tokenizer=words or usual, device="cpu", task="text-classification", **options)


def own(asked, text):
    """Return the pipeline's own top answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains about its own options
        answer = asked(text, top_k=1)[0]
    return answer["label"], answer["score"]


def outputs(asked, text):
    """Return what slalom asks a pipeline about a whole text."""
    model = model_of(asked)
    reading = model.read(text, "cut", None)
    return model, Engine(model)([Queries(reading, np.ones((1, len(reading.names)), dtype=bool))])[0].outputs


@pytest.mark.filterwarnings("ignore:.*tokens do not fit into")
@cases(
    ("name", "options"),
    [
        ("bert", {}),
        ("bert", {"max_length": 8}),
        ("bert", {"truncation": True, "max_length": 8, "padding": True}),
        ("roberta", {"truncation": False, "max_length": 8}),
        ("roberta", {"truncation": "only_first", "max_length": 9, "padding": "longest"}),
        ("gpt2", {"truncation": "longest_first", "max_length": 6}),
        ("xlnet", {"padding": True}),
        ("t5", {"function_to_apply": "sigmoid", "max_length": 7}),
        ("distilbert", {"function_to_apply": "softmax", "top_k": 2}),
        ("bert", {"top_k": None, "verbose": False}),
    ],
)
def test_label_and_probability_are_the_pipelines_own(name, options):
    asked = pipeline(name, **options)
    before = copy.deepcopy([asked._preprocess_params, asked._forward_params, asked._postprocess_params])
    explainer = Explainer(asked, **QUICK)
    for text in TEXTS:
        label, share = explainer(text).prediction
        expected = own(asked, text)
        assert label == expected[0]
        assert share == pytest.approx(expected[1], abs=1e-5)
    assert [asked._preprocess_params, asked._forward_params, asked._postprocess_params] == before


@cases("side", ["left", "right"])
@cases("name", ["bert", "gpt2", "t5", "xlnet"])
def test_a_text_is_cut_to_the_tokens_that_the_pipeline_sees(name, side):
    words = copy.deepcopy(tokenizer(ARCHITECTURES[name]))
    words.truncation_side = side
    for length in (4, 20):
        asked = pipeline(name, words=words, truncation=True, max_length=length)
        model = model_of(asked)
        for text in TEXTS:
            reading = model.read(text, "cut", None)
            inputs, _ = reading.groups(np.ones((1, len(reading.names)), dtype=bool))[0].build()
            assert inputs[0, 0].tolist() == asked.preprocess(text, **asked._preprocess_params)["input_ids"][0].tolist()


def test_without_truncation_a_tokenizer_cuts_nothing():
    words = copy.deepcopy(tokenizer("t5"))
    words.model_max_length = 8
    assert model_of(pipeline("t5", words=words)).context_length is None
    assert model_of(pipeline("t5", words=words, truncation=True)).context_length == 8
    assert model_of(pipeline("t5", words=words, truncation=True, max_length=12)).context_length == 12
    assert model_of(pipeline("bert", truncation=True, max_length=1000)).context_length == 64


@cases(
    ("options", "settings", "head"),
    [
        ({"function_to_apply": "none"}, THREE, Head("classes", ("bad", "so-so", "good"), probabilistic=False)),
        ({}, {"n": 1, "problem_type": "regression"}, Head("score", ("LABEL_0",), probabilistic=False)),
        ({"function_to_apply": "none"}, {"n": 1}, Head("score", ("LABEL_0",), probabilistic=False)),
        (
            {"function_to_apply": "none"},
            {"n": 2, "problem_type": "multi_label_classification"},
            Head("labels", ("LABEL_0", "LABEL_1"), probabilistic=False),
        ),
        ({}, {"n": 2, "problem_type": "regression"}, Head("labels", ("LABEL_0", "LABEL_1"), probabilistic=False)),
    ],
)
def test_outputs_without_a_function_stand_for_no_probability(options, settings, head):
    asked = pipeline("bert", made=classifier("bert", **settings), **options)
    for text in TEXTS:
        model, found = outputs(asked, text)
        assert model.head == head
        assert model.head.probabilities(found) is None
        label, score = own(asked, text)
        best = int(found[0].argmax())
        assert model.head.labels[best] == label
        assert float(model.head.scores(found, best)[0]) == pytest.approx(score, abs=1e-5)


@cases(
    ("options", "settings", "head"),
    [
        ({}, {"n": 1}, Head("score", ("LABEL_0",))),
        ({"function_to_apply": "sigmoid"}, {"n": 1, "problem_type": "regression"}, Head("score", ("LABEL_0",))),
        ({}, {"n": 2, "problem_type": "multi_label_classification"}, Head("labels", ("LABEL_0", "LABEL_1"))),
        (
            {"function_to_apply": "softmax"},
            {"n": 2, "problem_type": "multi_label_classification"},
            Head("classes", ("LABEL_0", "LABEL_1")),
        ),
    ],
)
def test_probabilities_are_those_of_the_function_that_the_pipeline_applies(options, settings, head):
    asked = pipeline("bert", made=classifier("bert", **settings), **options)
    for text in TEXTS:
        model, found = outputs(asked, text)
        assert model.head == head
        every = {one["label"]: one["score"] for one in asked(text, top_k=None)}
        assert dict(zip(head.labels, model.head.probabilities(found)[0], strict=True)) == pytest.approx(every, abs=1e-5)


@cases(
    "options",
    [
        {"add_special_tokens": False},
        {"stride": 2, "truncation": True, "max_length": 8},
        {"text_pair": "And another one."},
        {"truncation": "only_second", "max_length": 8},
        {"is_split_into_words": True},
        {"return_special_tokens_mask": True},
        {"temperature": 2.0},
    ],
)
def test_options_that_cannot_be_followed_are_refused(options):
    name = next(iter(options))
    with pytest.raises(InputError, match=rf"the option {name}=.* explain a callable .* output=") as caught:
        Explainer(pipeline("bert", **options))
    assert "\n" not in str(caught.value)


class Lowered(hf.TextClassificationPipeline):
    def preprocess(self, inputs, **options):
        return super().preprocess(inputs.lower(), **options)


class Cooled(hf.TextClassificationPipeline):
    def postprocess(self, model_outputs, **options):
        model_outputs["logits"] = model_outputs["logits"] / 2
        return super().postprocess(model_outputs, **options)


class Named(hf.TextClassificationPipeline):
    """A subclass that changes no answer."""

    def _sanitize_parameters(self, limit=None, **options):
        return super()._sanitize_parameters(**options, **({} if limit is None else {"max_length": limit}))


def test_pipelines_with_methods_of_their_own_are_refused():
    for kind, name in ((Lowered, "preprocess"), (Cooled, "postprocess")):
        with pytest.raises(InputError, match=rf"{kind.__name__} has its own {name}; explain a callable"):
            Explainer(pipeline("bert", kind=kind))
    patched = pipeline("bert")
    patched._forward = lambda inputs: patched.model(**inputs)
    with pytest.raises(InputError, match="has its own _forward"):
        Explainer(patched)
    assert model_of(pipeline("bert", kind=Named, limit=8)).context_length == 8


def test_padding_that_may_change_the_answers_is_refused():
    for options in ({"padding": "max_length", "max_length": 16}, {"pad_to_multiple_of": 8}):
        with pytest.raises(InputError, match=r"of the pipeline cannot be followed; leave it out, texts are read one by one"):
            Explainer(pipeline("bert", **options))
