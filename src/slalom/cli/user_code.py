"""Models that run the user's own code: `--model module:function`, `--model FILE.joblib`, folders with Python modules.

Only `explain` and `compare` take them: `serve` and `corpus` answer strangers or read a folder that a stranger may have written.
"""

import sys
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from slalom.cli.inputs import rows_of
from slalom.cli.language_models import LanguageModel, labels_of
from slalom.cli.options import MODEL, Device, Rows, TrustCode
from slalom.cli.printing import UsageError
from slalom.errors import InputError, one_line, require

_PICKLES = (".joblib", ".pkl", ".pickle")


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True)
class AnyClassifier:
    """A classifier, which may run code of the user's own."""

    model: str | None = None
    """Folder or hub name; `module:function`; pickled scikit-learn model."""
    device: Device = None
    output: Literal["logits", "probabilities", "log_odds", "scores"] | None = None
    """Of a function: logits, probabilities, log_odds, scores."""
    trust_remote_code: TrustCode = False
    trust_pickle: bool = False
    """Unpickle --model, which runs whatever code is in it."""
    background: Path | None = None
    """Rows whose values replace removed columns that are no texts (default: they are missing)."""

    def load(self, language_model: LanguageModel, columns: Rows = Rows()) -> tuple[Any, dict[str, Any]]:
        """Return the model that the options name, and the options of the Explainer about it."""
        code = None if self.model is None else _user_object(self.model, self.trust_pickle)
        if code is not None:
            replace(language_model, labels=None).check(self.model)
            labels = None if language_model.labels is None else labels_of(language_model.labels)
            about: dict[str, Any] = {"output": self.output, "labels": labels, "device": self.device}
            about["background"] = self._background(columns, texts=hasattr(code, "predict"))
            return code, {**about, "trust_remote_code": self.trust_remote_code}
        if self.background is not None:
            raise UsageError("--background is for functions and scikit-learn models, which read columns that are no texts")
        if self.output is not None:
            raise UsageError("--output says what a Python function returns; name one with --model module:function")
        asked = language_model.load(self.model, self.device, self.trust_remote_code)
        if language_model.lm is not None:  # it is loaded already
            return asked, {}
        return asked, {"device": self.device, "trust_remote_code": self.trust_remote_code}

    def _background(self, columns: Rows, texts: bool) -> list[dict[str, Any]] | None:
        """Return the rows of the background, with the columns of texts too where the model knows which these are."""
        if self.background is None:
            return None
        named = columns.column if texts else ()
        if not named and not columns.numeric:
            raise UsageError("--background needs the columns that it replaces: --numeric NAME")
        return rows_of(self.background, named, columns.numeric)


def _user_object(model: str, trust_pickle: bool) -> Any:
    """Return the object that `module:function` or a pickle file names; None where it is a folder or a name on the hub."""
    from slalom.models.huggingface.adapters import names_code  # noqa: PLC0415

    path = Path(model)
    if names_code(model):
        found = _imported(model)
    elif path.is_file():
        found = _unpickled(path, model, trust_pickle)
    elif path.suffix in _PICKLES and not path.exists():
        raise InputError(f"there is no file {model!r}; name the file of a pickled scikit-learn model")
    else:
        return None
    if not callable(found) and not hasattr(found, "predict"):
        raise InputError(
            f"{model!r} must be a function list[str] -> scores or a fitted scikit-learn classifier; it is of type"
            f" {type(found).__name__}"
        )
    return found


def _imported(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    _import_from_here()
    try:
        imported = import_module(module)
    except (Exception, SystemExit) as error:  # a module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"there is no module {error.name!r} here or in PYTHONPATH; --model {reference} imports it: run slalom in its"
                " folder"
            ) from error
        raise InputError(f"importing {module!r} failed: {type(error).__name__}: {one_line(error)}") from error
    try:
        return reduce(getattr, attribute.split("."), imported)
    except AttributeError as error:
        where = getattr(imported, "__file__", None) or module
        raise InputError(
            f"the module {module!r} ({where}) has no {attribute!r}; name a function or a classifier in it"
        ) from error


def _unpickled(path: Path, model: str, trusted: bool) -> Any:
    if not trusted:
        raise InputError(
            f"{model!r} is a file, not the folder of a Hugging Face classifier; unpickling it as a scikit-learn model runs"
            " whatever code is in it: if you trust where it comes from, add --trust-pickle"
        )
    with require("a pickled model", "sklearn", "scikit-learn"):
        import joblib  # noqa: PLC0415
        import sklearn  # noqa: F401, PLC0415
    _import_from_here()  # a pipeline may use functions of the user's own
    try:
        return joblib.load(path)
    except ModuleNotFoundError as error:
        raise InputError(f"{model!r} needs the module {error.name!r}; install it, or run slalom where it is found") from error
    except Exception as error:  # of any kind
        raise InputError(f"{model!r} is not a joblib or pickle file: {type(error).__name__}: {one_line(error)}") from error


def _import_from_here() -> None:
    """Import modules from the current folder too, as `python -m` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")
