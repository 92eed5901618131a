"""The socket that the server listens on; it is opened before anything heavy is loaded."""

import socket

from slalom.errors import InputError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address, family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"could not listen on {host} port {port}: {reason}; choose another --port or --host") from error
