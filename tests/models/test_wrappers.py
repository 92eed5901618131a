"""The contract of every way to hand over a Hugging Face model: it is explained as if the model inside had been given."""

import copy

import numpy as np
import peft
import pytest
import torch
import transformers as hf

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.models import Engine, Head, Queries, model_of
from slalom.models.huggingface.model import HuggingFace
from slalom.models.huggingface.wrappers import unwrapped
from tests.cases import cases
from tests.models.tiny import QUICK, adapted, classifier, hooks

TEXT = "The acting wasn't good! A naïve end, a very good film, but the plot was thin."
TOPICS = {"n": 3, "problem_type": "multi_label_classification", "id2label": {0: "plot", 1: "cast", 2: "end"}}
STARS = {"n": 1, "problem_type": "regression", "id2label": {0: "stars"}}
SIGNS = {"id2label": {0: "negative", 1: "positive"}}
CLASSES, LABELS = Head("classes", ("negative", "positive")), Head("labels", ("plot", "cast", "end"))
SCORE = Head("score", ("stars",), probabilistic=False)


@pytest.fixture(autouse=True)
def _uncompiled():
    """Let torch.compile wrap, but not trace, which takes seconds for each length."""
    with torch.compiler.set_stance("force_eager"):
        yield


def compiled(model):
    return torch.compile(model, backend="eager")


def pipeline(model, words, **options):
    return hf.pipeline("text-classification", model=model, tokenizer=words, device="cpu", **options)


def merged(name, **more):
    return adapted(classifier(name, **more)[0]).merge_and_unload()


# How it is handed over, the same model without anything around it, and what the adapter must know.
CASES = {
    "plain": (lambda: classifier("bert", **SIGNS), lambda: classifier("bert", **SIGNS)[0], CLASSES, 64),
    "adapter on a decoder without padding": (
        lambda: (adapted(classifier("llama", **TOPICS)[0]), classifier("llama")[1]),
        lambda: merged("llama", **TOPICS),
        LABELS,
        64,
    ),
    "mixed adapter": (
        lambda: (
            peft.get_peft_model(
                classifier("llama", **TOPICS)[0], peft.LoraConfig(task_type="SEQ_CLS", target_modules="all-linear"), mixed=True
            ),
            classifier("llama")[1],
        ),
        lambda: classifier("llama", **TOPICS)[0],
        LABELS,
        64,
    ),
    "compiled": (
        lambda: (compiled(classifier("roberta", **SIGNS)[0]), classifier("roberta")[1]),
        lambda: classifier("roberta", **SIGNS)[0],
        CLASSES,
        64,
    ),
    "data parallel": (
        lambda: (torch.nn.DataParallel(classifier("gpt2", **TOPICS)[0]), classifier("gpt2")[1]),
        lambda: classifier("gpt2", **TOPICS)[0],
        LABELS,
        64,
    ),
    "compiled adapter in data parallel": (
        lambda: (torch.nn.DataParallel(compiled(adapted(classifier("qwen2", **TOPICS)[0]))), classifier("qwen2")[1]),
        lambda: merged("qwen2", **TOPICS),
        LABELS,
        64,
    ),
    "average": (
        lambda: (torch.optim.swa_utils.AveragedModel(classifier("bert", **TOPICS)[0]), classifier("bert")[1]),
        lambda: classifier("bert", **TOPICS)[0],
        LABELS,
        64,
    ),
    "regression": (
        lambda: (compiled(classifier("bert", **STARS)[0]), classifier("bert")[1]),
        lambda: classifier("bert", **STARS)[0],
        SCORE,
        64,
    ),
    "pipeline": (lambda: (pipeline(*classifier("bert", **SIGNS)),), lambda: classifier("bert", **SIGNS)[0], CLASSES, 64),
    "pipeline with options around an adapter": (
        lambda: (
            pipeline(
                adapted(classifier("bert", **TOPICS)[0]), classifier("bert")[1], max_length=32, truncation=True, top_k=None
            ),
        ),
        lambda: merged("bert", **TOPICS),
        LABELS,
        32,
    ),
    "pipeline with labels apart": (
        lambda: (pipeline(*classifier("distilbert", **SIGNS), function_to_apply="sigmoid"),),
        lambda: classifier("distilbert", **SIGNS)[0],
        Head("labels", ("negative", "positive")),
        64,
    ),
}


def state(model):
    """Return what must be as it was found."""
    config = unwrapped(model).config.to_dict()
    return [module.training for module in model.modules()], config, hooks(model), list(vars(model))


def alone(model, ids):
    """Return the logits of one input as a user would ask for them."""
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0].double().numpy()


@cases("case", CASES)
def test_a_model_is_what_is_inside_of_its_wrappers(case):
    make, plain, head, context = CASES[case]
    given, inside = make(), plain()
    wrapped = given[0].model if isinstance(given[0], hf.Pipeline) else given[0]
    wrapped.train()
    before = state(wrapped)
    model = model_of(*given)
    assert isinstance(model, HuggingFace)
    assert (model.head, model.context_length, model.name) == (head, context, type(inside).__name__)
    identity = model.identity()
    reading = model.read(TEXT, "cut", None)
    keep = np.random.default_rng(0).random((5, len(reading.names))) < 0.6
    keep[0], keep[:, 0] = True, True
    found = Engine(model)([Queries(reading, keep)])[0].outputs
    ids, (ahead, behind) = model.tokenizer(TEXT)["input_ids"], (reading.before.shape[1], reading.after.shape[1])
    body = ids[ahead : len(ids) - behind]
    for row, outputs in zip(keep, found, strict=True):
        kept = [token for token, there in zip(body, row, strict=True) if there]
        expected = alone(inside, [*ids[:ahead], *kept, *ids[len(ids) - behind :]])
        np.testing.assert_allclose(outputs, expected, atol=2e-5)
    assert np.ptp(found[:, 0]) > 0.01
    assert model_of(*given).identity() == model.identity() == identity
    assert state(wrapped) == before


def test_the_forward_pass_goes_through_the_compiled_code():
    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.top = torch.nn.Embedding(400, 4), torch.nn.Linear(4, 2)

        def forward(self, ids):
            return self.top(self.table(ids).mean(dim=1))

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    made, words = Small(), classifier("bert")[1]
    with torch.compiler.set_stance("default"):
        wrapped = torch.compile(made, backend=backend, dynamic=True)
        found = Explainer(wrapped, words, **QUICK)(TEXT).score
    assert graphs
    assert found == pytest.approx(Explainer(made, words, **QUICK)(TEXT).score, abs=1e-5)


def test_a_distributed_model_is_its_own_replica(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        made, words = classifier("bert", **TOPICS)
        model = HuggingFace(torch.nn.parallel.DistributedDataParallel(made), words)
        assert (model.head, model.context_length) == (LABELS, 64)
        assert Explainer(model, **QUICK)(TEXT).score == Explainer(made, words, **QUICK)(TEXT).score
    finally:
        torch.distributed.destroy_process_group()


def test_switching_an_adapter_off_or_turning_it_down_is_noticed():
    made, words = classifier("llama", **SIGNS)
    wrapped = adapted(made)
    explainer = Explainer(wrapped, words, **QUICK)
    on = explainer(TEXT).score
    with wrapped.disable_adapter():
        off = explainer(TEXT).score
    assert off == pytest.approx(Explainer(*classifier("llama", **SIGNS), **QUICK)(TEXT).score, abs=1e-5)
    assert abs(on - off) > 0.01
    assert explainer(TEXT).score == on
    for module in wrapped.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.set_scale("default", 0.0)
    assert explainer(TEXT).score == pytest.approx(off, abs=1e-5)


def test_a_module_of_ones_own_is_no_wrapper_unless_it_holds_nothing_else():
    class Own(torch.nn.Module):
        def __init__(self, more):
            super().__init__()
            self.module = classifier("bert", **TOPICS)[0]
            if more:
                self.top = torch.nn.Linear(3, 2)

        def forward(self, ids):
            logits = self.module(ids).logits
            return self.top(logits) if hasattr(self, "top") else logits

    words = classifier("bert")[1]
    assert HuggingFace(Own(False), words).head == LABELS
    assert HuggingFace(Own(True), words).head == Head("classes", ("LABEL_0", "LABEL_1"))


class ByKeyword(torch.nn.Module):
    """A classifier that takes everything by name."""

    def __init__(self):
        super().__init__()
        self.inside = classifier("bert")[0]

    def forward(self, *, input_ids, attention_mask):
        return self.inside(input_ids, attention_mask=attention_mask).logits


class Second(ByKeyword):
    def forward(self, attention_mask, input_ids):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask)


class AnyKeyword(ByKeyword):
    def forward(self, **given):
        return self.inside(**given).logits


@cases("kind", [ByKeyword, Second, AnyKeyword])
@cases("wrap", [lambda m: m, torch.nn.DataParallel, compiled], ids=["plain", "parallel", "compiled"])
def test_token_ids_go_by_name_where_the_model_wants_that(kind, wrap):
    made, words = classifier("bert")
    model = HuggingFace(wrap(kind()), words)
    _, inputs = model._probe()
    with model.session():
        np.testing.assert_allclose(model.logits(inputs)[0], alone(made, inputs[0, 0].tolist()), atol=1e-5)


class Fails(torch.nn.Module):
    """A classifier that raises."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, input_ids):
        raise self.error


@cases(
    ("error", "message"),
    [
        (
            ValueError("first line\nsecond line"),
            r"Fails failed on inputs of 3 tokens, ids up to \d+: ValueError: first line second",
        ),
        (RuntimeError(""), "RuntimeError; load it with AutoModelForSequenceClassification, or explain a callable"),
        (IndexError("index out of range"), "the tokenizer that it was trained with"),
        (TypeError("missing 1 required argument"), "its forward must take input_ids"),
    ],
)
def test_an_error_of_the_model_is_told_in_one_line(error, message):
    with pytest.raises(ModelError, match=message) as caught:
        Explainer(Fails(error), classifier("bert")[1])
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_interruptions_and_errors_of_slalom_pass():
    for error in (KeyboardInterrupt(), InputError("of its own"), MemoryError("full")):
        with pytest.raises(type(error)) as caught:
            Explainer(Fails(error), classifier("bert")[1])
        assert caught.value is error


def test_a_full_gpu_is_still_an_error_of_memory():
    with pytest.raises(MemoryError, match="CUDA out of memory"):
        Explainer(Fails(torch.OutOfMemoryError("CUDA out of memory")), classifier("bert")[1])


def test_models_for_other_tasks_are_refused_in_one_line():
    made, words = classifier("bert")
    for kind in (hf.BertForQuestionAnswering, hf.BertForMultipleChoice, hf.BertForTokenClassification, hf.BertForMaskedLM):
        with pytest.raises(ModelError, match="AutoModelForSequenceClassification") as caught:
            Explainer(kind(made.config), words)
        assert "\n" not in str(caught.value)


def test_weights_that_are_not_loaded_are_refused():
    made, words = classifier("bert")
    with torch.device("meta"):
        empty = hf.BertForSequenceClassification(made.config)
    with pytest.raises(InputError, match=r"weights of BertForSequenceClassification must be loaded.*meta device"):
        Explainer(empty, words)
    made.classifier.to("meta")
    with pytest.raises(InputError, match="meta device"):
        Explainer(torch.nn.DataParallel(made), words)


class AtLeastThree(torch.nn.Module):
    """A classifier that takes no mask and no fewer than three tokens."""

    def __init__(self):
        super().__init__()
        self.inside = classifier("bert")[0]

    def forward(self, input_ids):
        if input_ids.shape[1] < 3:
            raise ValueError("too short")
        return self.inside(input_ids).logits


def test_an_input_without_words_is_not_asked_where_the_model_cannot_read_it():
    made, words = classifier("bert")
    explainer = Explainer(AtLeastThree(), words, **QUICK)
    assert not explainer.model.read(TEXT, "cut", None).empty
    assert explainer(TEXT).score == pytest.approx(Explainer(made, words, **QUICK)(TEXT).score, abs=1e-5)


def test_regression_has_no_probability():
    one, words = classifier("bert", **STARS)
    assert HuggingFace(one, words).head == SCORE
    several, words = classifier("bert", n=3, problem_type="regression")
    assert HuggingFace(several, words).head == Head("labels", ("LABEL_0", "LABEL_1", "LABEL_2"), probabilistic=False)
    unnamed, words = classifier("bert", n=1)
    assert HuggingFace(unnamed, words).head == Head("score", ("LABEL_0",))  # a pipeline applies the sigmoid
    with pytest.raises(InputError, match="softmax makes 1 of the one output"):
        HuggingFace(unnamed, words, activation="softmax")


def test_an_adapter_without_a_classifier_is_refused(tmp_path):
    """transformers fills in a random classifier, without a word where the folder holds an adapter."""
    made, words = classifier("llama")
    hf.LlamaForCausalLM(made.config).save_pretrained(tmp_path / "base")
    base = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    settings = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"])
    peft.get_peft_model(base, settings).save_pretrained(tmp_path / "generator")
    words.save_pretrained(tmp_path / "generator")
    with pytest.raises(InputError, match=r"holds no sequence classifier, score.weight is missing"):
        Explainer(tmp_path / "generator", device="cpu")
    base = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
    classifies = adapted(base)
    classifies.save_pretrained(tmp_path / "classifier")
    words.save_pretrained(tmp_path / "classifier")
    found = Explainer(tmp_path / "classifier", **QUICK, device="cpu")(TEXT).score
    assert found == pytest.approx(Explainer(classifies, words, **QUICK)(TEXT).score, abs=1e-5)


def test_an_adapter_is_copied_with_its_model():
    model = HuggingFace(torch.nn.DataParallel(classifier("bert")[0]), classifier("bert")[1])
    twin = copy.deepcopy(model)
    assert twin.base is unwrapped(twin.model)
    assert twin.base is not model.base
    assert twin.identity() == model.identity()
