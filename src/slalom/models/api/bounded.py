"""HTTP clients that read a limited number of bytes of an answer, so that no server can fill the memory."""

from typing import Any

_MAX_BYTES = 1_000_000  # of one answer


class TooLarge(Exception):
    """An answer that is not read to its end."""


def bounded(http_client: Any) -> Any:
    """Return a class of HTTP clients that read a limited number of bytes of an answer, and decompress nothing."""

    class Bounded(http_client):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            response = await super().send(request, **options | {"stream": True})
            try:
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    raise TooLarge("compresses its answers though it is asked not to; switch that off")
                content = bytearray()
                async for part in response.aiter_raw():
                    content += part
                    if len(content) > _MAX_BYTES:
                        raise TooLarge(f"answered with more than {_MAX_BYTES // 1_000_000} MB, which no completion is")
            finally:
                await response.aclose()
            skipped = ("content-length", "transfer-encoding", "content-encoding")
            headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in skipped]
            return type(response)(response.status_code, headers=headers, content=bytes(content), request=request)

    return Bounded
