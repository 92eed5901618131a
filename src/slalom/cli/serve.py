"""`slalom serve`: explanations on a live page in the browser, and as a REST API."""

import secrets
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from slalom.cli.corpus_model import confirmed_options
from slalom.cli.language_models import LanguageModel, labels_of, language_model_of, template_of
from slalom.cli.options import BUDGET, EXPLANATION, INPUT, MODEL, RUN, SERVER, Cache, Device, Long, Slice
from slalom.cli.printing import UsageError, complain, console
from slalom.errors import InputError, MissingExtra, SlalomError, one_line, require

if TYPE_CHECKING:
    from slalom import Explainer
    from slalom.web.access import Limits
    from slalom.web.served import Served
    from slalom.web.server import Server
    from slalom.web.sources import ServedSources


@Parameter(name="*", group=SERVER)
@dataclass(frozen=True)
class Serving:
    """Where the page is, who may read it, and how long a request may take."""

    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 8000
    """Port (default: 8000); 0: any that is free."""
    host: str = "127.0.0.1"
    """Address to listen on (default: 127.0.0.1); 0.0.0.0: all of this machine."""
    token: str | None = None
    """Secret that visitors need (default: random; none for the bundled model here)."""
    no_token: bool = False
    """Ask for no token: whoever reaches the address can use all that is served."""
    open_page: Annotated[bool, Parameter(name="--open")] = False
    """Open the page in a browser."""
    max_queries: Annotated[int, Parameter(validator=validators.Number(gte=2), group=BUDGET)] = 5000
    """Largest budget of model queries of a request (default: 5000)."""
    timeout: Annotated[float, Parameter(validator=validators.Number(gte=1), group=RUN)] = 300.0
    """Longest time of a request, in seconds (default: 300)."""


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True)
class Table:
    """A corpus that is shown, too."""

    corpus: str | None = None
    """Folder of `slalom corpus run`, also while it runs: its summary and its texts; the default model is its own."""
    gold: str | None = None
    """Kept column of --corpus with the true labels (default: gold, where it is kept)."""
    slices: Slice = None


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True)
class Models:
    """The classifiers that are served."""

    model: tuple[str, ...] = ()
    """Folder or hub name of a Hugging Face classifier (default: the bundled one); several are shown side by side."""
    device: Device = None
    long: Annotated[Long, Parameter(group=EXPLANATION)] = "cut"
    prior: Annotated[str | None, Parameter(group=EXPLANATION)] = None
    """File of `slalom lexicon build`, for the first colours (default: that of the bundled classifier, for this one)."""
    cache: Cache = None


def serve(
    *,
    table: Table = Table(),
    models: Models = Models(),
    language_model: LanguageModel = LanguageModel(),
    serving: Serving = Serving(),
) -> int:
    """Explain texts on a live page, and answer requests of programs.

    Type a text and see why the model decides as it does: first roughly, then as precisely as the budget allows. A language
    model answers from sources, too, and does only that without --template and --labels. The page uses only the REST API;
    /api/docs lists it. Ctrl-C ends the server.
    """
    if table.corpus is None and (table.gold is not None or table.slices is not None):
        raise UsageError("--gold and --slice are about a corpus; name it with --corpus OUT")
    # The model of a corpus is its own unless the options name another; a server or a file of a prompt they confirm.
    where = replace(LanguageModel(), api=language_model.api, base_url=language_model.base_url, template=language_model.template)
    of_corpus = table.corpus is not None and not models.model and replace(language_model, concurrency=8) == where
    if not of_corpus or (language_model.api is None and language_model.template is None):
        language_model.check(models.model[0] if models.model else None, classifies=table.corpus is not None)
    from slalom.web.access import Access, Limits, is_loopback, listen  # noqa: PLC0415

    local = is_loopback(serving.host)
    private = bool(models.model or language_model.is_named or table.corpus)
    access = Access(serving.host, _token(serving.token, serving.no_token, private or not local))
    limits = Limits(queries=serving.max_queries, seconds=serving.timeout)
    with listen(serving.host, serving.port) as listening:  # fails before anything is loaded
        with require("slalom serve", "web"):
            import fastapi  # noqa: F401, PLC0415
            import uvicorn  # noqa: F401, PLC0415
        from slalom.lexicon.lexicon import BUNDLED  # noqa: PLC0415
        from slalom.web.served import Served  # noqa: PLC0415
        from slalom.web.server import Server  # noqa: PLC0415

        own = _own_model(table.corpus, models, local, language_model) if table.corpus is not None and of_corpus else None
        served = []
        writes_only = language_model.writes_only and table.corpus is None
        for title, explainer, code, remote in () if writes_only else own or _named_models(models, local, language_model):
            known = Path(models.prior).name if models.prior else BUNDLED
            served.append(Served(title, _beginning(explainer, models.prior), limits, code, remote, known))
        shown = None
        if table.corpus is not None:
            from slalom.web.corpus import ServedCorpus  # noqa: PLC0415

            shown = ServedCorpus(table.corpus, served, limits, table.gold, table.slices)
        sources = None if own or not language_model.is_named else _sources(language_model, models, limits, served)
        return _run(Server(served, access, limits, listening, shown, sources), serving.open_page)


def _sources(language_model: LanguageModel, models: Models, limits: "Limits", served: "list[Served]") -> "ServedSources":
    """Return the language model that answers from sources; a local one that classifies, too, is loaded once."""
    from slalom.contexts import language_model_of  # noqa: PLC0415
    from slalom.models import AnswerServer  # noqa: PLC0415
    from slalom.web.sources import ServedSources  # noqa: PLC0415

    if not served:
        language_model.say_what_is_loaded(())
    api, model = language_model.api, served[0].explainer.model.lm if served and language_model.lm else None  # type: ignore[attr-defined]
    if model is None:
        model = (
            AnswerServer(api, language_model.base_url) if api else language_model_of(language_model.lm, device=models.device)
        )
    sources = ServedSources(Path(model.name).name or "model", model, limits, api is not None, models.cache)
    return replace(sources, mode="sample") if language_model.mode == "sample" else sources


def _named_models(models: Models, local: bool, language_model: LanguageModel) -> "list[tuple[str, Explainer, str, bool]]":
    named: list[str | None] = [*dict.fromkeys(models.model)] or [None]
    language_model.say_what_is_loaded(named)  # the imports take longer than a small model
    found = []
    for number, name in enumerate(named, start=1):
        title, explainer, code, remote = _explained(name, models, local, language_model, models.long)
        found.append((title if len(named) == 1 else f"{number}-{title}", explainer, code, remote))
    return found


def _own_model(
    path: str, models: Models, local: bool, language_model: LanguageModel
) -> "list[tuple[str, Explainer, str, bool]] | None":
    """Return the model that made a corpus, as `_named_models` does; None if it does not load.

    The options are those of `slalom corpus run` that the manifest keeps; its budget and its method do not bind the page.
    """
    api, template = language_model.api, language_model.template
    options = confirmed_options(path, None, None, api, language_model.base_url, template)
    if options is None:  # begun in Python, or by another version
        return None
    try:
        language_model_of(options).say_what_is_loaded([options["model"]])
        return [_explained(options["model"], models, local, language_model_of(options), options["long"])]
    except (SlalomError, OSError) as error:
        if api is not None or template is not None:  # the command line names it, so it is wanted
            raise
        complain(f"the model of {path!r} could not be loaded ({one_line(error)}); the bundled one is served")
        return None


def _explained(
    name: str | None, models: Models, local: bool, language_model: LanguageModel, long: Long
) -> "tuple[str, Explainer, str, bool]":
    from slalom import Explainer  # noqa: PLC0415

    asked, device = language_model.load(name, models.device), None if language_model.lm else models.device
    explainer = Explainer(asked, device=device, cache=models.cache, long=long, progress=False)
    title = Path(str(explainer.model.name)).name or "model"  # never a path
    shown = replace(language_model, lm=_shown(language_model.lm, local))
    return title, explainer, _code(_shown(name, local), shown), language_model.api is not None


def _run(server: "Server", open_page: bool) -> int:

    def ready() -> None:
        console().print(f"slalom is running at {server.address} (Ctrl-C stops it)", markup=False, soft_wrap=True)
        if open_page:
            webbrowser.open(server.address)

    try:
        server.run_until_stopped(ready)
    except KeyboardInterrupt:
        complain("stopped")
        return 130
    return 0


def _beginning(explainer: "Explainer", prior: str | None) -> "Explainer":
    """Return an Explainer that begins with the lexicon that is named, or with that of the bundled classifier."""
    from slalom import Lexicon  # noqa: PLC0415
    from slalom.lexicon.lexicon import BUNDLED  # noqa: PLC0415

    try:
        return explainer.with_prior(Lexicon.load(prior or BUNDLED))
    except (InputError, MissingExtra):
        if prior is not None:
            raise
        return explainer


def _token(given: str | None, none: bool, needed: bool) -> str | None:
    """Return the token that visitors need, if any."""
    if none:
        if given is not None:
            raise UsageError("choose one of --token and --no-token")
        if needed:
            complain("no token: whoever reaches this address, every user of this machine included, can use all that is served")
        return None
    if given is not None and (len(given) < 8 or not all(33 <= ord(char) < 127 and char not in ';,"\\&#%+=' for char in given)):
        raise InputError("--token must have at least 8 letters, digits, - or _; leave it out for a random one")
    return secrets.token_urlsafe(16) if given is None and needed else given


def _shown(model: str | None, local: bool) -> str | None:
    """Return the name of a model in the code that visitors copy: those of other machines see no folder of this one."""
    return model if local or model is None or not Path(model).exists() else Path(model).name


def _code(model: str | None, language_model: LanguageModel) -> str:
    """Return the Python code that makes the same explainer; keys and addresses stay on the server."""
    if not language_model.is_named:
        return f"explainer = slalom.Explainer({'' if model is None else repr(model)})"
    lm, api = language_model.lm, language_model.api
    parts = f"{template_of(language_model.template or '')!r}, {labels_of(language_model.labels or '')!r}"
    if api is not None:
        return f"explainer = slalom.Explainer(slalom.models.Api({api!r}, {parts}))  # OPENAI_API_KEY, OPENAI_BASE_URL"
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f"network, tokenizer = AutoModelForCausalLM.from_pretrained({lm!r}), AutoTokenizer.from_pretrained({lm!r})\n"
        f"explainer = slalom.Explainer(slalom.models.Prompted(network, tokenizer, {parts}))"
    )
