"""Methods that ask in their own way: leave-one-out, and those of the packages lime, shap and captum as they come.

    LeaveOneOut       F(text) - F(text without i)
    Lime              lime.lime_text.LimeTextExplainer: random deletions, kernel on the cosine distance, ridge regression
    KernelShap        shap.KernelExplainer: coalitions by the Shapley kernel, least squares that add up to the score
    PartitionShap     shap.PartitionExplainer: Owen values along a tree over the text, shap's default for texts
    CaptumKernelShap  captum.attr.KernelShap
    CaptumLime        captum.attr.Lime, with its own interpretable model (a lasso)

A unit is taken away, not masked. Each draws from its own generator under the seed.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, final

import numpy as np

from slalom.core import Additive
from slalom.core.checks import Floats
from slalom.errors import InputError, require
from slalom.methods.base import BlackBoxMethod, QueryContext

_REMOVED = "UNKWORDZ"  # what LIME writes in place of a word


@final
@dataclass(frozen=True)
class LeaveOneOut(BlackBoxMethod):
    """What the score loses without each unit; the budget plays no part. A text of one unit loses against the empty one."""

    name: str = "leave-one-out"
    summary: str = "what the score loses without each unit"
    takes_budget: ClassVar[bool] = False

    def attribute(self, context: QueryContext) -> Additive:
        """Ask n + 1 rows."""
        n = len(context.units)
        if n == 1 and not context.empty:
            whole = float(context.ask(np.ones((1, 1)))[0])
            return Additive([whole], 0.0)
        scores = context.ask(np.concatenate([np.ones((1, n)), 1.0 - np.eye(n)]))
        effects = scores[0] - scores[1:]
        return Additive(effects, scores[0] - effects.sum())


@final
@dataclass(frozen=True)
class Lime(BlackBoxMethod):
    """LIME with all units, by position. kernel_width: None takes the package's own, 25."""

    kernel_width: float | None = None

    name: str = "lime"
    summary: str = "the lime package: random deletions, a kernel, ridge regression"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: QueryContext) -> Additive:
        """Let it read words that stand for the units, so that its positions are ours."""
        text = _package("lime.lime_text")
        n = len(context.units)

        def classify(texts: list[str]) -> Floats:
            scores = context.ask([[word != _REMOVED for word in text.split()] for text in texts])
            return np.column_stack([-scores, scores])

        width = {} if self.kernel_width is None else {"kernel_width": self.kernel_width}
        explainer = text.LimeTextExplainer(bow=False, mask_string=_REMOVED, random_state=context.seed, **width)
        names = " ".join(f"u{i}" for i in range(n))
        found = explainer.explain_instance(names, classify, labels=(1,), num_features=n, num_samples=context.budget)
        effects = np.zeros(n)
        for i, effect in found.local_exp[1]:
            effects[i] = effect
        return Additive(effects, found.intercept[1])


@final
@dataclass(frozen=True)
class KernelShap(BlackBoxMethod):
    """KernelSHAP. l1_reg: how units are chosen; None takes shap's own, at most ten of them; False keeps all."""

    l1_reg: str | bool | None = None

    name: str = "kernel-shap"
    summary: str = "shap's KernelExplainer: Shapley kernel, least squares"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: QueryContext) -> Additive:
        """Ask the text and the empty text besides the samples."""
        shap = _package("shap")
        n = len(context.units)
        _need_empty(context, "KernelSHAP")
        with _seeded(context.seed):
            explainer = shap.KernelExplainer(context.ask, np.zeros((1, n)))
            chosen = {} if self.l1_reg is None else {"l1_reg": self.l1_reg}
            effects = explainer.shap_values(np.ones(n), nsamples=max(context.budget - 2, 1), silent=True, **chosen)
        return Additive(effects, explainer.expected_value)


@final
@dataclass(frozen=True)
class PartitionShap(BlackBoxMethod):
    """Owen values along shap's tree for texts."""

    name: str = "partition-shap"
    summary: str = "shap's PartitionExplainer: Owen values along a tree"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: QueryContext) -> Additive:
        """Let the tree see the real units; the model gets their numbers, 0 where one is masked."""
        shap = _package("shap")
        _need_empty(context, "PartitionSHAP")

        def tokenizer(text: str, return_offsets_mapping: bool = True) -> dict[str, Any]:
            spans = context.spans.tolist() if text else []
            return {"input_ids": list(range(1, len(spans) + 1)), "offset_mapping": spans}

        with _seeded(context.seed):
            masker = shap.maskers.Text(tokenizer, mask_token=0, output_type="token_ids")
            explainer = shap.PartitionExplainer(lambda ids: context.ask(ids != 0), masker)
            found = explainer([context.text], max_evals=context.budget, silent=True)
        return Additive(found.values[0], found.base_values[0])


@final
@dataclass(frozen=True)
class CaptumKernelShap(BlackBoxMethod):
    """KernelSHAP as captum has it."""

    name: str = "captum-kernel-shap"
    summary: str = "KernelSHAP of the captum package"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: QueryContext) -> Additive:
        """Ask all samples at once."""
        _need_empty(context, "captum's KernelShap")
        effects = _captum(context, "KernelShap")
        return Additive(effects, context.ask(np.zeros((1, len(effects))))[0])  # captum has asked it: the engine remembers


@final
@dataclass(frozen=True)
class CaptumLime(BlackBoxMethod):
    """LIME as captum has it: every unit present or not by the toss of a coin, a lasso."""

    name: str = "captum-lime"
    summary: str = "LIME of the captum package, with a lasso"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: QueryContext) -> Additive:
        """Ask all samples at once; the base is what the effects do not add up to."""
        effects = _captum(context, "Lime")
        whole = context.ask(np.ones((1, len(effects))))[0]
        return Additive(effects, whole - effects.sum())


def _captum(context: QueryContext, name: str) -> Floats:
    torch, captum = _package("torch"), _package("captum.attr")
    state = torch.get_rng_state()
    torch.manual_seed(context.seed)

    def forward(keep: Any) -> Any:
        rows = keep.numpy() > 0.5
        if not context.empty:
            rows[~rows.any(axis=1), 0] = True
        return torch.from_numpy(context.ask(rows))

    try:
        found = getattr(captum, name)(forward).attribute(
            torch.ones(1, len(context.units)), n_samples=context.budget, perturbations_per_eval=context.budget
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


def _need_empty(context: QueryContext, name: str) -> None:
    if not context.empty:
        raise InputError(
            f"{name} compares with the empty text, which this model cannot be asked about;"
            " use lime, ridge or leave-one-out, or a tokenizer with special tokens"
        )


def _package(name: str) -> Any:
    with require("this baseline", "baselines", name.partition(".")[0]):
        return import_module(name)
