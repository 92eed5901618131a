"""Models that run the user's own code: `--model module:function`, `--model FILE.joblib`, folders with Python modules.

Only `explain` and `compare` take them: `serve` and `corpus` answer strangers or read a folder that a stranger may have written.
"""

import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.cli.language_models import check_options, classifier, labels_of
from slalom.errors import InputError, one_line, require

AnyModel = Annotated[
    str | None,
    typer.Option(
        help="Folder or hub name of a Hugging Face classifier; `module:name` of a Python function or scikit-learn classifier;"
        " or the file of a pickled one, with `--trust-pickle`.",
        show_default="the bundled sentiment classifier",
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run Python modules that the model's folder brings; read them first."),
]
TrustPickle = Annotated[
    bool,
    typer.Option("--trust-pickle", help="Unpickle the file of `--model`, which runs whatever code is in it."),
]
OutputOption = Annotated[
    Literal["logits", "probabilities", "log_odds", "scores"] | None,
    typer.Option(
        "--output",
        metavar="<kind>",
        help="What a function returns: logits, probabilities, log_odds or scores; `--labels` names its classes.",
    ),
]
_PICKLES = (".joblib", ".pkl", ".pickle")


def model_and_options(
    model: str | None,
    device: str | None,
    output: Any,
    labels: str | None,
    trust_remote_code: bool,
    trust_pickle: bool,
    **language_model: Any,
) -> tuple[Any, dict[str, Any]]:
    """Return the model that the options name, and the options of the Explainer about it."""
    code = None if model is None else _user_object(model, trust_pickle)
    if code is None:
        if output is not None:
            raise typer.BadParameter("--output says what a Python function returns; name one with --model module:function")
        lm = language_model["lm"]
        asked = classifier(model, device=device, labels=labels, trust_remote_code=trust_remote_code, **language_model)
        return asked, {"device": None if lm else device, "trust_remote_code": trust_remote_code and lm is None}
    unused = {name: part for name, part in language_model.items() if name != "concurrency"}
    check_options(model, labels=None, **unused)
    options = {"output": output, "labels": None if labels is None else labels_of(labels), "device": device}
    return code, {**options, "trust_remote_code": trust_remote_code}


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
