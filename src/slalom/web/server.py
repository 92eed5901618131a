"""Runs the application in uvicorn until it is interrupted."""

import asyncio
import socket
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import uvicorn

from slalom.web.access import Access, Limits
from slalom.web.app import application
from slalom.web.connections import bounded
from slalom.web.served import Served

if TYPE_CHECKING:
    from slalom.web.corpus import ServedCorpus
    from slalom.web.sources import ServedSources

_PATIENCE = 2  # seconds that open connections have to end


@final
class Server(uvicorn.Server):
    """A server that cancels its work when it is told to stop, so that open streams end."""

    def __init__(
        self,
        models: Sequence[Served],
        access: Access,
        limits: Limits,
        listening: socket.socket,
        corpus: "ServedCorpus | None" = None,
        sources: "ServedSources | None" = None,
    ) -> None:
        self.models, self.access, self.socket, self.corpus, self.sources = models, access, listening, corpus, sources
        super().__init__(
            uvicorn.Config(
                application(models, access, limits, corpus, sources),
                server_header=False,
                access_log=False,  # a log would hold tokens of addresses
                log_level="critical",
                http=bounded(limits),
                ws="none",
                lifespan="off",
                timeout_keep_alive=15,
                timeout_graceful_shutdown=_PATIENCE,
                h11_max_incomplete_event_size=64_000,
            )
        )

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.access.host, self.access.host)
        token = "" if self.access.token is None else f"?token={self.access.token}"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/{token}"

    def run_until_stopped(self, ready: Callable[[], Any] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM, or until `stop` is called in another thread."""
        shown_by_the_page = ".* tokens do not fit into |a fit of .* takes about "
        warnings.filterwarnings("ignore", shown_by_the_page, UserWarning)
        self._ready = ready
        try:
            asyncio.run(self.serve(sockets=[self.socket]))
        finally:
            self._cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            await asyncio.to_thread(self._ready)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._cancel()  # before open connections get their last seconds, so that streams say why they end
        await super().shutdown(sockets)

    def _cancel(self) -> None:
        for served in self.models:
            served.queue.stop()
        if self.sources is not None:
            self.sources.queue.stop()
        if self.corpus is not None:
            self.corpus.stop()

    def stop(self) -> None:
        self.should_exit = True
