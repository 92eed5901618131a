"""Comparing methods side by side, on one model and the same texts: the arguments, checked.

Records are appended to a file as they are made, so that an interrupted comparison can be continued.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, cast

import numpy as np

from slalom.budget import AUTO
from slalom.core.checks import plain, whole_number
from slalom.errors import InputError, SlalomError, did_you_mean
from slalom.evaluate.compared import MEASURES, Compared
from slalom.evaluate.human import unit_marks
from slalom.evaluate.measuring import Annotations, Comparison, MethodRun
from slalom.evaluate.naive_bayes import NaiveBayes as LogRatios
from slalom.explainer import Explainer, ModelKeywords
from slalom.methods import Method, NaiveBayes
from slalom.methods import method as find_method
from slalom.models import Estimate, Target
from slalom.models.removal import Removal, check_removal, removal_name
from slalom.text import UnitFunction, as_examples

DEFAULT_METHODS = (
    "joint", "local", "eff", "fidel", "ridge", "leave-one-out", "lime", "kernel-shap", "integrated-gradients", "random",
)  # fmt: skip
_COSTS = ("queries", "tokens", "seconds")


class CompareOptions(ModelKeywords, total=False):
    """Options of a comparison, and those of the `Explainer` about the model.

    Attributes:
        methods: Names of methods, or Methods; `slalom.list_methods()` lists the names. Default: `DEFAULT_METHODS`.
        queries: One or more budgets per text; "auto" asks in rounds until the error on its own held-out queries, which count
            as queries, no longer falls. Default: 500.
        measures: Names of `MEASURES`. Default: all that apply.
        corpus: Labelled texts and their labels, 0 or 1. They add the measure "naive_bayes" and the method "naive-bayes".
        human: Words and maps (annotators, words) for each text, which must be ``" ".join(words)``. Adds the measure "human".
        target: As `Explainer` takes it.
        removal: As `Explainer` takes it, or several: rows are then named by both, as "joint (mask)". Default: "drop".
        unit: As `Explainer` takes it; None: that of each method. Default: "token".
        seed: Seed of the queries, the fits and the masks. None draws one, which `about` records. Default: 0.
    """

    methods: Sequence[str | Method]
    queries: int | Literal["auto"] | Sequence[int | Literal["auto"]]
    measures: Sequence[str] | None
    corpus: tuple[Sequence[str], Sequence[int]] | None
    human: Annotations | None
    target: Target
    removal: Removal | Sequence[Removal]
    unit: str | UnitFunction | None
    seed: int | None


def compare(
    model: Any,
    texts: Iterable[str],
    tokenizer: Any = None,
    *,
    out: str | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[CompareOptions],
) -> Compared:
    """Explain texts by several methods and measure all of them.

    Args:
        model: As `Explainer` takes it.
        texts: The texts to explain.
        tokenizer: As `Explainer` takes it.
        out: File for the records; the same call continues an interrupted comparison.
        progress: Whether to show a progress bar. Default: in a terminal.
        **options: methods, queries, measures, corpus, human, target, removal, unit and seed, as `CompareOptions` describes
            them, and options of the `Explainer` about the model: output, labels, batch_size, precision, device,
            trust_remote_code, cache, identity, long, prices, max_cost and background.

    Returns:
        The records, with tables and pictures. A method that fails or cannot be used on this model is left out and named in
        `skipped`.

    Raises:
        InputError: If an argument is out of range, no method can be used, or `out` holds something else.
        CostLimit: If it would cost more than `max_cost`, by the estimate before anything is asked, or as it goes; what was
            measured until then is in `out`.
        ModelError: If the model fails or its answers are unusable.
        TypeError: If there is no such option.

    Example:
        >>> def model(texts):
        ...     return [2.0 * ("good" in text) - ("bad" in text) for text in texts]
        >>> texts = ["a good film", "a bad end"]
        >>> compare(model, texts, methods=["ridge", "random"], queries=50, output="log_odds", progress=False).rows
        [('ridge', 50), ('random', None)]
    """
    comparison = _prepared(model, texts, tokenizer, out, **options)
    spending = comparison.explainers[0].engine.spending
    if spending.max_cost is not None:
        estimate = comparison.estimate()
        spending.check(estimate.cost or 0.0, f"this comparison ({estimate})")
    return comparison.compared(progress)


def comparison_estimate(model: Any, texts: Iterable[str], tokenizer: Any = None, **options: Unpack[CompareOptions]) -> Estimate:
    """Return what a comparison will ask and cost, with the arguments of `compare`; the model is asked nothing.

    It counts the queries of every method and budget, those that measure it, and twenty of each method that come before the
    first text. What is in the cache is free. Methods that choose queries as they go, and budgets of "auto", ask more.

    Raises:
        InputError: As `compare` does.

    Example:
        >>> def model(texts):
        ...     return [2.0 * ("good" in text) - ("bad" in text) for text in texts]
        >>> options = {"methods": ["ridge"], "queries": 50, "output": "log_odds", "prices": {"input": 1.0}}
        >>> print(comparison_estimate(model, ["one good film and two bad ones", "a bad end"], **options))
        164 queries, about 754 tokens: $0.000754
    """
    return _prepared(model, texts, tokenizer, None, **options).estimate()


def _prepared(
    model: Any,
    texts: Any,
    tokenizer: Any,
    out: Any,
    *,
    methods: Any = DEFAULT_METHODS,
    queries: Any = 500,
    measures: Any = None,
    corpus: Any = None,
    human: Any = None,
    target: Any = None,
    removal: Any = "drop",
    unit: Any = "token",
    seed: Any = 0,
    **about_model: Any,
) -> Comparison:
    """Check all arguments of a comparison."""
    if isinstance(model, Explainer):
        raise InputError("model must be what an Explainer takes; got an Explainer: pass its model and options instead")
    unknown = sorted(about_model.keys() - ModelKeywords.__annotations__.keys())
    if unknown:
        taken = ", ".join(CompareOptions.__annotations__)
        raise TypeError(f"compare has no option {', '.join(unknown)}; it has {taken}")
    texts, budgets, path = _texts(texts), _budgets(queries), _file(out)
    methods = [find_method(name) for name in _listed("methods", methods, "'joint', 'lime'")]
    if not methods:
        raise InputError("methods must name at least one method; slalom.list_methods() lists them")
    human = _annotations(human, texts)
    removals = _removals(removal)
    options = {"target": target, "seed": seed, "unit": unit, "progress": False}
    explainer = Explainer(model, tokenizer, **options, **about_model)
    head = explainer.model.head
    head.resolve(target, np.zeros(head.n_outputs))  # before anything is asked
    measures = _measures(measures, corpus is not None, human is not None, head.probabilistic)
    for what, name in (("a unit function", explainer.options.unit_name), *(("removal", name) for name in removals)):
        if path is not None and "<lambda>" in name:
            raise InputError(f"out= knows {what} by its name; got a lambda; define it with def")
    options |= {name: about_model[name] for name in ("cache", "identity", "long") if name in about_model}
    explainers = {name: Explainer(explainer.model, **options, removal=removal) for name, removal in removals.items()}
    for one in explainers.values():
        one.engine.spending = explainer.engine.spending
    ratios = None
    if corpus is not None:
        ratios = LogRatios.fit(*_labelled(corpus), explainer.tokens)
        if explainer.tokens(texts[0]) and unit in (None, "token", "type"):
            methods.append(NaiveBayes({cast(int | str, token): (-r, r) for token, r in ratios.ratios.items()}))
    if len({method.name for method in methods}) != len(methods):
        raise InputError(f"methods must differ in their names; got {', '.join(method.name for method in methods)}")
    about = {
        "model": explainer.model.name,
        "identity": explainer.engine.identify(),
        "texts": len(texts),
        "first": texts[0][:80],
        "last": texts[-1][:80],
        "seed": int(explainer.options.seed),
        "unit": unit if unit is None else explainer.options.unit_name,
        "target": plain(target),
    }
    if list(removals) != ["drop"]:
        about["removal"] = list(removals)
    runs = [
        MethodRun(method.name if len(removals) == 1 else f"{method.name} ({name})", one, method, budget)
        for method in methods
        for name, one in explainers.items()
        for budget in (budgets if method.takes_budget else (None,))
    ]
    return Comparison(list(explainers.values()), texts, runs, measures, ratios, human, path, about)


def _texts(texts: Any) -> list[str]:
    """Return the texts of any ordered container, at least one."""
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings; got one string; pass a list: [text]")
    listed, _ = as_examples(list(texts) if isinstance(texts, tuple) else texts)
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            raise InputError(f"texts must be a list of at least one string; text {number} is {type(text).__name__}")
    if not listed:
        raise InputError("texts must be a list of at least one string; got none")
    return listed


def _listed(name: str, items: Any, example: str) -> list[Any]:
    """Return the items of a list; a string or a single object is refused."""
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable) or getattr(items, "shape", None) == ():
        raise InputError(f"{name} must be a list, such as [{example}]; got {items!r:.80}")
    return list(items)


def _removals(removal: Any) -> dict[str, Removal]:
    """Return the ways to remove units by their names."""
    listed = [removal] if isinstance(removal, str) or callable(removal) else _listed("removal", removal, "'drop', 'mask'")
    for one in listed:
        check_removal(one)
    named = {removal_name(one): one for one in listed}
    if not named or len(named) < len(listed):
        raise InputError(f"removal must be one way or several, with different names; got {listed!r:.80}")
    return named


def _budgets(queries: Any) -> list[int | Literal["auto"]]:
    """Return the budgets, each once."""
    single = isinstance(queries, (int, np.integer)) or queries == AUTO
    listed = [queries] if single else _listed("queries", queries, "500")
    if not listed:
        raise InputError("queries must have at least one budget, such as [500]; got none")
    return list(dict.fromkeys("auto" if budget == AUTO else whole_number("queries", budget, 2) for budget in listed))


def _file(out: Any) -> Path | None:
    if out is None:
        return None
    if not isinstance(out, (str, os.PathLike)) or Path(out).is_dir():
        raise InputError(f"out must be the name of a file; got {out!r:.80}")
    return Path(out)


def _labelled(corpus: Any) -> tuple[list[str], list[Any]]:
    try:
        texts, labels = corpus
        return _texts(texts), list(labels)
    except SlalomError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"corpus must be a pair: labelled texts, and their labels 0 or 1; got {corpus!r:.80}") from error


def _annotations(human: Any, texts: list[str]) -> Annotations | None:
    """Return the words and maps of each text."""
    if human is None:
        return None
    wrong = "human must have the words and maps of each text, and each text must be its words joined by blanks"
    try:
        pairs = [(list(words), maps) for words, maps in human]
        joined = [" ".join(words) for words, _ in pairs]
    except (TypeError, ValueError) as error:
        raise InputError(f"{wrong}; got {human!r:.80}") from error
    if joined != texts:
        raise InputError(wrong)
    for words, maps in pairs:
        unit_marks(np.zeros((0, 2), dtype=np.int64), words, maps)  # raises where they do not fit
    return pairs


def _measures(requested: Sequence[str] | None, has_corpus: bool, has_human: bool, probabilistic: bool) -> tuple[str, ...]:
    """Return the requested measures, or all that apply."""
    missing = {} if has_corpus else {"naive_bayes": "a corpus of labelled texts"}
    missing |= {} if has_human else {"human": "texts with words that people have marked"}
    missing |= {} if probabilistic else dict.fromkeys(("deletion", "insertion"), "a model with probabilities")
    if requested is None:
        return tuple(name for name in MEASURES if name not in missing)
    requested = _listed("measures", requested, "'near', 'far'")
    for name in requested:
        if name not in tuple(MEASURES):
            raise InputError(f"a measure must be one of {', '.join(MEASURES)}; got {name!r}{did_you_mean(name, MEASURES)}")
        if name in missing:
            raise InputError(f"the measure {name!r} needs {missing[name]}")
    return tuple(name for name in MEASURES if name in requested or name in _COSTS)
