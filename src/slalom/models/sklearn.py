"""Fitted scikit-learn classifiers and pipelines that take strings, or data frames of texts and other columns.

Labels and probabilities are always those of `predict` and `predict_proba`. The score that is explained is

    decision_function      where predict_proba is its sigmoid or softmax (logistic regression): exact log odds
    predict_proba          else, as log odds
    decision_function      where there is no predict_proba (linear SVM, perceptron): decision values, no probability

Several binary outputs (MultiOutputClassifier, ClassifierChain, OneVsRestClassifier on indicators) are independent labels.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from scipy.special import expit, softmax

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.models.adapter import Adapter, ModelOptions, Output, instance_of
from slalom.models.base import Model
from slalom.models.callable import Function
from slalom.models.head import Decision, label_names
from slalom.models.strings import Background, background_rows

_BATCH_SIZE = 1024  # strings per call
_PROBE_WORDS = 200  # of the vocabulary, to compare two functions
_TOLERANCE = 1e-6  # in probability
# to probe where there is no vocabulary
_COMMON_WORDS = ("good", "bad", "the", "film", "not", "money", "game", "world", "help", "card")


def scikit_learn(estimator: Any, batch_size: int | None = None, background: Any = None) -> Function:
    """Return the model of a fitted scikit-learn classifier or pipeline that takes strings, or a data frame.

    Args:
        batch_size: Strings per call. Default: 1024.
        background: Rows of values that replace removed columns which are no texts. Default: such a column is missing.

    Raises:
        InputError: The estimator is not a classifier, is not fitted, or has neither probabilities nor decision values.
        ModelError: It does not take strings.
    """
    from sklearn.base import is_classifier  # noqa: PLC0415
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415
    from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415

    name = type(estimator).__name__
    if not is_classifier(estimator):
        raise InputError(f"{name} is not a classifier; give a scikit-learn classifier or a pipeline that ends with one")
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise InputError(f"{name} is not fitted; call fit before explaining it") from error
    table = _table(name, estimator, background)
    labels, several = _labels(name, estimator, table)
    if len(labels) < 2:
        raise InputError(f"{name} has only one class, {labels[0]!r}; fit it on at least two")
    function, output = _scores(name, estimator, len(labels), several, table)
    return Function(
        lambda inputs: function(table.given(inputs)),
        output,
        labels,
        _BATCH_SIZE if batch_size is None else batch_size,
        independent=several,
        name=name,
        fingerprint=lambda: _fingerprint(estimator),
        decide=lambda texts: _decisions(name, estimator, labels, several, table.given(texts)),
        background=table.background,
    )


@final
@dataclass(frozen=True)
class ScikitLearnAdapter(Adapter):
    """Fitted classifiers, and pipelines that end with one."""

    name: str = "scikit-learn"
    summary: str = "a fitted classifier or pipeline that takes strings or data frames"
    kind: str = "scikit-learn classifiers"
    takes: tuple[str, ...] = ("batch_size", "background")
    extra: str | None = "sklearn"

    def matches(self, model: object) -> bool:
        return instance_of(model, "sklearn", "BaseEstimator")

    def adapt(self, model: Any, options: ModelOptions) -> Model:
        return scikit_learn(model, options.batch_size, options.background)


class _Table(NamedTuple):
    """The columns of a data frame that an estimator reads; none where it reads strings.

    Attributes:
        background: Its columns, which of them are texts, and what replaces the others.
        types: Categorical types of columns, by name.
    """

    background: Background
    types: Mapping[str, Any] = {}  # it is never changed

    def given(self, inputs: Any) -> Any:
        """Return inputs as the estimator takes them."""
        if not self.background.fields:
            return inputs
        import pandas  # noqa: PLC0415

        frame = pandas.DataFrame(inputs).reindex(columns=list(self.background.fields)).astype(dict(self.types))
        missing = [name for name in frame.columns if name not in self.types and frame[name].isna().all()]
        return frame.astype(dict.fromkeys(missing, object))  # an encoder of strings takes no column of floats

    def probes(self, texts: list[str]) -> Any:
        """Return inputs with these texts, in every column of texts; other columns are those of the background, in turn."""
        if not self.background.fields:
            return texts
        return self.given([self.background.example(text, i) for i, text in enumerate(texts)])


def _table(name: str, estimator: Any, background: Any) -> _Table:
    """Return the columns that an estimator reads: those of its ColumnTransformer; a single one (no list) has texts."""
    found = [part for part in _parts(estimator) if hasattr(part, "transformers_") and hasattr(part, "feature_names_in_")]
    columns = tuple(map(str, found[0].feature_names_in_)) if found else ()
    if not columns:
        if background is not None:
            raise InputError(f"background= is for a pipeline with a ColumnTransformer fitted to a data frame; {name} has none")
        return _Table(Background())
    chosen = [
        of for _, transformer, of in found[0].transformers_ if not (isinstance(transformer, str) and transformer == "drop")
    ]
    single = [of for of in chosen if isinstance(of, (str, int))]
    texts = frozenset(columns[of] if isinstance(of, int) else of for of in single)
    used = {columns[one] if isinstance(one, int) else str(one) for of in chosen if isinstance(of, list) for one in of} | texts
    if all(isinstance(of, (str, int, list)) for of in chosen):  # others are slices and masks
        columns = tuple(column for column in columns if column in used)
    rows = background_rows(background)
    for column in columns:
        if rows and column not in rows[0] and column not in texts:
            raise InputError(f"background lacks the column {column!r} of {name}; it has {', '.join(rows[0])}", "background")
    types = getattr(background, "dtypes", {})
    known = types.items() if hasattr(types, "items") else ()
    categories = {str(column): kind for column, kind in known if kind == "category" and column in columns}
    return _Table(Background(columns, texts, rows), categories)


def _labels(name: str, estimator: Any, table: _Table) -> tuple[tuple[str, ...], bool]:
    """Return the labels, and whether they are several binary outputs rather than exclusive classes."""
    classes = estimator.classes_
    answer = np.asarray(_call(name, estimator.predict, table.probes(["a"])))
    if answer.ndim == 1:
        return label_names(classes), False
    if not isinstance(classes, (list, tuple)) and np.ndim(classes) != 2:  # indicators: one class is one output
        return label_names(classes), True
    wrong = next((i for i, values in enumerate(classes) if len(values) != 2), None)
    if wrong is not None:
        raise InputError(
            f"{name} has {len(classes)} outputs, and output {wrong} has {len(classes[wrong])} classes: only binary outputs can"
            f" be explained together; explain one at a time, estimators_[{wrong}] after the vectorizer"
        )
    return tuple(f"output {i}" for i in range(answer.shape[1])), True


def _scores(name: str, estimator: Any, n: int, several: bool, table: _Table) -> tuple[Callable[[Any], Any], Output]:
    """Return the function that is explained, and what it returns."""
    chance, decide = (getattr(estimator, method, None) for method in ("predict_proba", "decision_function"))
    if chance is not None:
        if decide is not None and not several and not _pairwise(estimator):
            output = _decision_output(name, estimator, decide, chance, table)
            if output is not None:
                return decide, output
        return (lambda texts: _probabilities(chance(texts), several)), "probabilities"
    if decide is None:
        raise InputError(
            f"{name} has neither predict_proba nor decision_function, only labels, which do not change by degrees; use one that"
            ' gives probabilities (for a VotingClassifier voting="soft")'
        )
    width = np.asarray(_call(name, decide, table.probes(["a"]))).reshape(1, -1).shape[1]
    if width not in (1, n) or (n > 2 and _pairwise(estimator)):
        raise InputError(
            f"{name} decides between pairs of classes, not for or against one;"
            ' set decision_function_shape="ovr", or use one with predict_proba'
        )
    return decide, "scores"


def _decision_output(
    name: str, estimator: Any, decide: Callable[[Any], Any], chance: Callable[[Any], Any], table: _Table
) -> Output | None:
    """Return what decision values are, where probabilities are their sigmoid or softmax on probe texts; else None."""
    texts = [*_COMMON_WORDS, *_vocabulary(estimator)]
    texts += [" ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
    probes = table.probes(texts)
    values, shares = np.asarray(_call(name, decide, probes)), np.asarray(_call(name, chance, probes))
    output: Output
    if values.ndim == 1 and shares.shape[1] == 2:
        expected, output = np.stack([expit(-values), expit(values)], axis=1), "log_odds"
    elif values.shape == shares.shape:
        expected, output = softmax(values, axis=1), "logits"
    else:
        return None
    varies = np.ptp(values.reshape(len(texts), -1), axis=0).max() > 0.0  # constants may agree by chance
    return output if varies and np.abs(expected - shares).max() <= _TOLERANCE else None


def _pairwise(estimator: Any) -> bool:
    """Return whether the columns of the decision function are pairs of classes."""
    return any(key.endswith("decision_function_shape") and value == "ovo" for key, value in estimator.get_params().items())


def _vocabulary(estimator: Any) -> list[str]:
    """Return words spread over the vocabularies of a pipeline's vectorizers; none where there is no vectorizer."""
    probes: list[str] = []
    for part in _parts(estimator):
        words = sorted(word for word in getattr(part, "vocabulary_", None) or () if isinstance(word, str))
        probes += words[:: max(len(words) // _PROBE_WORDS, 1)][:_PROBE_WORDS]
    return probes


def _parts(estimator: Any) -> list[Any]:
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    names = ("best_estimator_", "estimator_", "estimators_", "calibrated_classifiers_", "estimator")
    found = [getattr(estimator, name) for name in names if hasattr(estimator, name)]
    fitted = [one for part in found for one in (part if isinstance(part, (list, np.ndarray)) else [part])]
    return [estimator, *params.values(), *(part for model in fitted for part in _parts(model))]


def _decisions(name: str, estimator: Any, labels: tuple[str, ...], several: bool, texts: Any) -> list[Decision]:
    """Return the labels of `predict` and the probabilities of `predict_proba`; of several outputs, the most probable one."""
    chance = getattr(estimator, "predict_proba", None)
    shares = None if chance is None else _probabilities(_call(name, chance, texts), several)
    if several:
        if shares is None:
            return [Decision(None, None) for _ in texts]
        return [Decision(labels[int(row.argmax())], row) for row in shares]
    decided = label_names(np.asarray(_call(name, estimator.predict, texts)).tolist())
    return [Decision(label, None if shares is None else shares[row]) for row, label in enumerate(decided)]


def _probabilities(returned: Any, several: bool) -> Floats:
    """Return probabilities (n, labels); of several binary outputs that of the second class of each."""
    if several and isinstance(returned, list):
        return np.stack([np.asarray(part, dtype=np.float64)[:, -1] for part in returned], axis=1)
    shares = np.asarray(returned, dtype=np.float64)
    return shares[:, :, -1].T if several and shares.ndim == 3 else shares


def _fingerprint(estimator: Any) -> str:
    """Return a digest of everything in an estimator; it pickles, which may raise anything."""
    import joblib  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(joblib.hash(estimator))


def _call(name: str, function: Callable[[Any], Any], inputs: Any) -> Any:
    try:
        return function(inputs)
    except SlalomError:
        raise
    except Exception as error:
        reason = f"({type(error).__name__}: {one_line(error)})"
        if not isinstance(inputs, list):
            values = "missing values" if inputs.isna().any(axis=None) else "the values of the background"
            raise ModelError(f"{name} does not take {values} {reason}; give background=, a few rows of its data") from error
        raise ModelError(f"{name} does not take strings {reason}; put it into a pipeline after a vectorizer") from error
