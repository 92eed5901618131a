"""Black-box baselines: leave-one-out, and the methods of the packages lime and shap with their own defaults.

    LeaveOneOut       F(text) - F(text without i)
    Lime              lime.lime_text.LimeTextExplainer: random deletions, kernel on the cosine distance, ridge regression
    KernelShap        shap.KernelExplainer: coalitions by the Shapley kernel, least squares that add up to the score
    PartitionShap     shap.PartitionExplainer: Owen values along a tree over the text, shap's default for texts

Units are removed, not masked. Random choices depend on the seed alone, and global generators are restored.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from slalom.core import Additive
from slalom.core.checks import Floats
from slalom.errors import InputError, require
from slalom.methods.base import BlackBoxMethod, MethodContext

_REMOVED = "UNKWORDZ"  # LIME replaces a removed word by this


@final
@dataclass(frozen=True)
class LeaveOneOut(BlackBoxMethod):
    """The change of the score when each unit is removed; n + 1 queries, independent of the budget."""

    name: str = "leave-one-out"
    summary: str = "the change of the score when each unit is removed"
    takes_budget: ClassVar[bool] = False

    def attribute(self, context: MethodContext) -> Additive:
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
    """LIME of the lime package, with all units as features."""

    name: str = "lime"
    summary: str = "the lime package: random deletions, a kernel, ridge regression"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: MethodContext) -> Additive:
        def ask(keep: ArrayLike) -> Floats:
            rows = np.asarray(keep, dtype=bool)
            asked = rows.any(axis=1) | context.empty
            scores = context.ask(rows[asked])
            filled = np.full(len(rows), scores.mean())  # of the empty text, whose weight is below 0.001
            filled[asked] = scores
            return filled

        return lime_effects(ask, len(context.units), context.budget, context.seed)


def lime_effects(ask: Callable[[ArrayLike], Floats], n: int, samples: int, seed: int) -> Additive:
    """Return what the lime package finds for n units by the scores of rows (m, n)."""
    lime_text = _package("lime.lime_text")

    def classify(texts: list[str]) -> Floats:
        scores = ask([[word != _REMOVED for word in text.split()] for text in texts])
        return np.column_stack([-scores, scores])

    explainer = lime_text.LimeTextExplainer(bow=False, mask_string=_REMOVED, random_state=seed % 2**32)
    names = " ".join(f"u{i}" for i in range(n))
    explanation = explainer.explain_instance(names, classify, labels=(1,), num_features=n, num_samples=samples)
    effects = np.zeros(n)
    for i, effect in explanation.local_exp[1]:
        effects[i] = effect
    return Additive(effects, explanation.intercept[1])


@final
@dataclass(frozen=True)
class KernelShap(BlackBoxMethod):
    """KernelSHAP of the shap package.

    Args:
        l1_reg: Feature selection of `shap_values`; False keeps all units. Default: that of shap, at most ten units.
    """

    l1_reg: str | bool | None = None

    name: str = "kernel-shap"
    summary: str = "shap's KernelExplainer: Shapley kernel, least squares"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: MethodContext) -> Additive:
        shap = _package("shap")
        n = len(context.units)
        _need_empty(context, "KernelSHAP")
        with _seeded(context.seed):
            explainer = shap.KernelExplainer(context.ask, np.zeros((1, n)))
            selection = {} if self.l1_reg is None else {"l1_reg": self.l1_reg}
            effects = explainer.shap_values(np.ones(n), nsamples=max(context.budget - 2, 1), silent=True, **selection)
        return Additive(effects, explainer.expected_value)


@final
@dataclass(frozen=True)
class PartitionShap(BlackBoxMethod):
    """Owen values along the tree that shap builds for texts."""

    name: str = "partition-shap"
    summary: str = "shap's PartitionExplainer: Owen values along a tree"
    extra: ClassVar[str | None] = "baselines"

    def attribute(self, context: MethodContext) -> Additive:
        shap = _package("shap")
        _need_empty(context, "PartitionSHAP")
        if len(context.units) == 1:
            nothing, whole = context.ask([[0], [1]])  # the package computes nothing for a single unit
            return Additive([whole - nothing], nothing)

        def tokenizer(text: str, return_offsets_mapping: bool = True) -> dict[str, Any]:
            spans = context.units.spans.tolist() if text else []
            return {"input_ids": list(range(1, len(spans) + 1)), "offset_mapping": spans}

        with _seeded(context.seed):
            masker = shap.maskers.Text(tokenizer, mask_token=0, output_type="token_ids")
            explainer = shap.PartitionExplainer(lambda ids: context.ask(ids != 0), masker)
            explanation = explainer([context.reading.text], max_evals=context.budget, silent=True)
        return Additive(explanation.values[0], explanation.base_values[0])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, which shap uses, and restore it."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _need_empty(context: MethodContext, name: str) -> None:
    if not context.empty:
        raise InputError(
            f"{name} compares with the empty text, which this model does not accept;"
            " use lime, ridge or leave-one-out, or a tokenizer with special tokens"
        )


def _package(name: str) -> Any:
    with require("this baseline", "baselines", name.partition(".")[0]):
        return import_module(name)
