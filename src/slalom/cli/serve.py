"""`slalom serve`: explanations on a live page in the browser, and as a REST API."""

import secrets
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom.cli.corpus_model import confirmed_options
from slalom.cli.language_models import (
    NAMES,
    ApiName,
    BaseUrl,
    Chat,
    Concurrency,
    Labels,
    LanguageModel,
    Mode,
    Spellings,
    TemplateOption,
    check_options,
    classifier,
    labels_of,
    say_what_is_loaded,
    template_of,
)
from slalom.cli.options import Cache, Device, Long
from slalom.cli.printing import complain, console
from slalom.errors import InputError, SlalomError, one_line, require

if TYPE_CHECKING:
    from slalom import Explainer
    from slalom.web.server import Server

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Folder or hub name of a Hugging Face classifier; several are shown side by side.",
        show_default="the bundled sentiment classifier",
    ),
]


def serve(
    model: Models = None,
    lm: LanguageModel = None,
    api: ApiName = None,
    base_url: BaseUrl = None,
    template: TemplateOption = None,
    labels: Labels = None,
    spellings: Spellings = False,
    chat: Chat = False,
    mode: Mode = "auto",
    concurrency: Concurrency = 8,
    long: Long = "cut",
    device: Device = None,
    cache: Cache = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0: all of this machine.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="Secret that visitors need; the printed address holds it.",
            show_default="random; none where only the bundled model is served to this machine",
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="Ask for no token: whoever reaches the address, every user of this machine included, can read the corpus and"
            " query the model.",
        ),
    ] = False,
    max_queries: Annotated[int, typer.Option(min=2, help="Largest budget of model queries of a request.")] = 5000,
    timeout: Annotated[float, typer.Option(min=1.0, help="Longest time of a request, in seconds.")] = 300.0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    corpus: Annotated[
        str | None,
        typer.Option(
            metavar="OUT",
            help="Folder of `slalom corpus run`, also while it runs: its summary, and its texts with search. The default model"
            " is its own.",
        ),
    ] = None,
    gold: Annotated[
        str | None,
        typer.Option(help="Kept column of --corpus with the true labels.", show_default="gold, where it is kept"),
    ] = None,
    slices: Annotated[str | None, typer.Option("--slice", help="Kept column of --corpus that its summary compares.")] = None,
) -> None:
    """Explain texts on a live page, and answer requests of programs.

    Type a text and see why the model decides as it does: first roughly, then as precisely as the budget allows. The page uses
    only the REST API; /api/docs lists it. Ctrl-C ends the server.
    """
    if corpus is None and (gold is not None or slices is not None):
        raise typer.BadParameter("--gold and --slice are about a corpus; name it with --corpus OUT")
    own_options = (labels, spellings, chat, mode) != (None, False, False, "auto")
    of_corpus = corpus is not None and not model and lm is None and not own_options
    if not of_corpus or (api is None and template is None):
        check_options(model[0] if model else None, lm, spellings, chat, api, base_url, template, labels, mode)
    from slalom.web.guard import Access, is_loopback  # noqa: PLC0415
    from slalom.web.limits import Limits  # noqa: PLC0415
    from slalom.web.sockets import listen  # noqa: PLC0415

    local = is_loopback(host)
    private = bool(model or lm or api or corpus)
    access = Access(host, _token(token, no_token, private or not local))
    limits = Limits(queries=max_queries, seconds=timeout)
    with listen(host, port) as listening:  # fails before anything is loaded
        with require("slalom serve", "web"):
            import fastapi  # noqa: F401, PLC0415
            import uvicorn  # noqa: F401, PLC0415
        own = None
        if corpus is not None and of_corpus:
            own = _own_model(corpus, device, cache, local, api, base_url, template)
        named: list[str | None] = [*dict.fromkeys(model)] if model else [None]
        if own is None:
            say_what_is_loaded(named, lm, api, base_url)  # the imports take longer than a small model
        from slalom import Explainer  # noqa: PLC0415
        from slalom.web.served import Served  # noqa: PLC0415
        from slalom.web.server import Server  # noqa: PLC0415

        served = []
        if own is not None:
            explainer, code, remote = own
            served.append(Served(Path(str(explainer.model.name)).name or "model", explainer, limits, code, remote))
        for number, name in enumerate(named, start=1) if own is None else ():
            asked = classifier(
                name, lm=lm, spellings=spellings, chat=chat, device=device,
                api=api, base_url=base_url, template=template, labels=labels, mode=mode, concurrency=concurrency,
            )  # fmt: skip
            explainer = Explainer(asked, device=None if lm else device, cache=cache, long=long, progress=False)
            shown = Path(str(explainer.model.name)).name or "model"  # never a path
            title = shown if len(named) == 1 else f"{number}-{shown}"
            served.append(
                Served(
                    title,
                    explainer,
                    limits,
                    _code(_shown(name, local), _shown(lm, local), api, template, labels),
                    api is not None,
                )
            )
        shown_corpus = None
        if corpus is not None:
            from slalom.web.corpus import ServedCorpus  # noqa: PLC0415

            shown_corpus = ServedCorpus(corpus, served, limits, gold, slices)
        _run(Server(served, access, limits, listening, shown_corpus), open_page)


def _own_model(
    path: str, device: str | None, cache: Path | None, local: bool, api: str | None, base_url: str | None, template: str | None
) -> "tuple[Explainer, str, bool] | None":
    """Return the explainer of the model that made a corpus, its code, and whether an API answers; None if it does not load.

    The options are those of `slalom corpus run` that the manifest keeps; its budget and its method do not bind the page.
    """
    options = confirmed_options(path, None, None, api, base_url, template)
    if options is None:  # begun in Python, or by another version
        return None
    try:
        say_what_is_loaded([options["model"]], options["lm"], options["api"], options["base_url"])
        from slalom import Explainer  # noqa: PLC0415

        asked = classifier(options["model"], device=device, **{name: options[name] for name in NAMES})
        made = Explainer(asked, device=None if options["lm"] else device, cache=cache, long=options["long"], progress=False)
    except (SlalomError, OSError, typer.BadParameter) as error:
        if api is not None or template is not None:  # the command line names it, so it is wanted
            raise
        complain(f"the model of {path!r} could not be loaded ({one_line(error)}); the bundled one is served")
        return None
    name, lm = _shown(options["model"], local), _shown(options["lm"], local)
    return made, _code(name, lm, *(options[option] for option in ("api", "template", "labels"))), options["api"] is not None


def _run(server: "Server", open_page: bool) -> None:
    """Serve until Ctrl-C."""

    def ready() -> None:
        console().print(f"slalom is running at {server.address} (Ctrl-C stops it)", markup=False, soft_wrap=True)
        if open_page:
            webbrowser.open(server.address)

    try:
        server.run_until_stopped(ready)
    except KeyboardInterrupt as stop:
        complain("stopped")
        raise typer.Exit(130) from stop


def _token(given: str | None, none: bool, needed: bool) -> str | None:
    """Return the token that visitors need, if any."""
    if none:
        if given is not None:
            raise typer.BadParameter("choose one of --token and --no-token")
        if needed:
            complain("no token: whoever reaches this address, every user of this machine included, can use all that is served")
        return None
    if given is not None and (len(given) < 8 or not all(33 <= ord(char) < 127 and char not in ';,"\\&#%+=' for char in given)):
        raise InputError("--token must have at least 8 letters, digits, - or _; leave it out for a random one")
    return secrets.token_urlsafe(16) if given is None and needed else given


def _shown(model: str | None, local: bool) -> str | None:
    """Return the name of a model in the code that visitors copy: those of other machines see no folder of this one."""
    return model if local or model is None or not Path(model).exists() else Path(model).name


def _code(model: str | None, lm: str | None, api: str | None, template: str | None, labels: str | None) -> str:
    """Return the Python code that makes the same explainer; keys and addresses stay on the server."""
    if lm is None and api is None:
        return f"explainer = slalom.Explainer({'' if model is None else repr(model)})"
    parts = f"{template_of(template or '')!r}, {labels_of(labels or '')!r}"
    if api is not None:
        return f"explainer = slalom.Explainer(slalom.models.Api({api!r}, {parts}))  # OPENAI_API_KEY, OPENAI_BASE_URL"
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f"network, tokenizer = AutoModelForCausalLM.from_pretrained({lm!r}), AutoTokenizer.from_pretrained({lm!r})\n"
        f"explainer = slalom.Explainer(slalom.models.Prompted(network, tokenizer, {parts}))"
    )
