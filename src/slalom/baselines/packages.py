"""The methods of other packages, as they come, asked through our engine: lime, shap, captum.

    Lime              lime.lime_text.LimeTextExplainer: random deletions, kernel on the cosine distance, ridge regression
    KernelShap        shap.KernelExplainer: coalitions by the Shapley kernel, least squares that add up to the score
    PartitionShap     shap.PartitionExplainer: Owen values along a tree over the text, shap's default for texts
    CaptumKernelShap  captum.attr.KernelShap
    CaptumLime        captum.attr.Lime, with its own interpretable model (a lasso)

A unit is taken away, not masked. Each draws from its own generator under the seed.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, final

import numpy as np

from slalom.core import Additive
from slalom.core.checks import Floats
from slalom.errors import InputError, MissingExtra
from slalom.models import Querying, Questions

_REMOVED = "UNKWORDZ"  # what LIME writes in place of a word


@final
@dataclass(frozen=True)
class Lime(Querying):
    """LIME with all units, by position. kernel_width: None takes the package's own, 25."""

    kernel_width: float | None = None

    def __call__(self, questions: Questions) -> Additive:
        """Let it read words that stand for the units, so that its positions are ours."""
        text = _package("lime.lime_text")
        n = len(questions.units)

        def classify(texts: list[str]) -> Floats:
            scores = questions.ask([[word != _REMOVED for word in text.split()] for text in texts])
            return np.column_stack([-scores, scores])

        width = {} if self.kernel_width is None else {"kernel_width": self.kernel_width}
        explainer = text.LimeTextExplainer(bow=False, mask_string=_REMOVED, random_state=questions.seed, **width)
        names = " ".join(f"u{i}" for i in range(n))
        found = explainer.explain_instance(names, classify, labels=(1,), num_features=n, num_samples=questions.budget)
        effects = np.zeros(n)
        for i, effect in found.local_exp[1]:
            effects[i] = effect
        return Additive(effects, found.intercept[1])


@final
@dataclass(frozen=True)
class KernelShap(Querying):
    """KernelSHAP. l1_reg: how units are chosen; None takes shap's own, at most ten of them; False keeps all."""

    l1_reg: str | bool | None = None

    def __call__(self, questions: Questions) -> Additive:
        """Ask the text and the empty text besides the samples."""
        shap = _package("shap")
        n = len(questions.units)
        _need_empty(questions, "KernelSHAP")
        with _seeded(questions.seed):
            explainer = shap.KernelExplainer(questions.ask, np.zeros((1, n)))
            chosen = {} if self.l1_reg is None else {"l1_reg": self.l1_reg}
            effects = explainer.shap_values(np.ones(n), nsamples=max(questions.budget - 2, 1), silent=True, **chosen)
        return Additive(effects, explainer.expected_value)


@final
@dataclass(frozen=True)
class PartitionShap(Querying):
    """Owen values along shap's tree for texts."""

    def __call__(self, questions: Questions) -> Additive:
        """Let the tree see the real units; the model gets their numbers, 0 where one is masked."""
        shap = _package("shap")
        _need_empty(questions, "PartitionSHAP")

        def tokenizer(text: str, return_offsets_mapping: bool = True) -> dict[str, Any]:
            spans = questions.spans.tolist() if text else []
            return {"input_ids": list(range(1, len(spans) + 1)), "offset_mapping": spans}

        with _seeded(questions.seed):
            masker = shap.maskers.Text(tokenizer, mask_token=0, output_type="token_ids")
            explainer = shap.PartitionExplainer(lambda ids: questions.ask(ids != 0), masker)
            found = explainer([questions.text], max_evals=questions.budget, silent=True)
        return Additive(found.values[0], found.base_values[0])


@final
@dataclass(frozen=True)
class CaptumKernelShap(Querying):
    """KernelSHAP as captum has it."""

    def __call__(self, questions: Questions) -> Additive:
        """Ask all samples at once."""
        _need_empty(questions, "captum's KernelShap")
        effects = _captum(questions, "KernelShap")
        return Additive(effects, questions.ask(np.zeros((1, len(effects))))[0])  # captum has asked it: the engine remembers


@final
@dataclass(frozen=True)
class CaptumLime(Querying):
    """LIME as captum has it: every unit present or not by the toss of a coin, a lasso."""

    def __call__(self, questions: Questions) -> Additive:
        """Ask all samples at once; the base is what the effects do not add up to."""
        effects = _captum(questions, "Lime")
        whole = questions.ask(np.ones((1, len(effects))))[0]
        return Additive(effects, whole - effects.sum())


def _captum(questions: Questions, name: str) -> Floats:
    torch, captum = _package("torch"), _package("captum.attr")
    state = torch.get_rng_state()
    torch.manual_seed(questions.seed)

    def forward(keep: Any) -> Any:
        rows = keep.numpy() > 0.5
        if not questions.empty:
            rows[~rows.any(axis=1), 0] = True
        return torch.from_numpy(questions.ask(rows))

    try:
        found = getattr(captum, name)(forward).attribute(
            torch.ones(1, len(questions.units)), n_samples=questions.budget, perturbations_per_eval=questions.budget
        )
    finally:
        torch.set_rng_state(state)
    return np.asarray(found.numpy()[0], dtype=np.float64)


class _seeded:  # noqa: N801
    """shap draws from numpy's global generator; give it a seed and put the generator back."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __enter__(self) -> None:
        self.state = np.random.get_state()  # noqa: NPY002
        np.random.seed(self.seed % 2**32)  # noqa: NPY002

    def __exit__(self, *_: object) -> None:
        np.random.set_state(self.state)  # noqa: NPY002


def _need_empty(questions: Questions, name: str) -> None:
    if not questions.empty:
        raise InputError(
            f"{name} compares with the empty text, which this model cannot be asked about;"
            " use lime, ridge or leave-one-out, or a tokenizer with special tokens"
        )


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        root = name.split(".", maxsplit=1)[0]
        raise MissingExtra(f"this baseline needs {root}; install it with: pip install 'slalom[baselines]'") from error
