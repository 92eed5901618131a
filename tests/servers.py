"""Servers for tests: llama.cpp with a real language model in a process of its own, and small ones that answer what a test says.

`Llama` is killed and started again at will. `Proxy` stands between a client and a real server, logs what is asked, and breaks
some answers on purpose.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.smollm2 import gguf
from tests.waiting import DEADLINE

_START = """
import sys, threading, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.port = sys.argv[1], int(sys.argv[2])
parameters.n_parallel, parameters.n_ctx = int(sys.argv[3]), 1024 * int(sys.argv[3])
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = int(sys.argv[4])
parameters.verbosity = -1
server = xllamacpp.Server(parameters)
print("listening", server.listening_address, flush=True)
sys.stdin.read()
"""


class Llama:
    """llama.cpp's own HTTP server with SmolLM2; a context manager.

    Args:
        slots: Requests that it computes at the same time.
    """

    def __init__(self, slots=1):
        self.model, self.slots, self.port = gguf(), slots, 0
        pytest.importorskip("xllamacpp")
        self.start()

    def start(self):
        """Start it, on the same port as before."""
        command = [sys.executable, "-c", _START, str(self.model), str(self.port), str(self.slots), "1"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for line in self.process.stdout:
            if line.startswith("listening"):
                self.port = urlsplit(line.split()[1]).port
                return
        raise RuntimeError("llama.cpp did not start")

    def kill(self):
        """End it at once, as kill -9 does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def ask(self, path, **body):
        """Return the answer to a request, without slalom."""
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return json.load(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Served:
    """An HTTP server in a thread; a context manager. `answer(handler, path, body)` writes the answer.

    Attributes:
        asked: The requests so far, path and body.
        most: Largest number of requests in flight at the same time.
    """

    def __init__(self, answer):
        self.asked, self.most, self.open, self.headers = [], 0, 0, []
        self.lock = threading.Lock()
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with served.lock:
                    served.open += 1
                    served.most = max(served.most, served.open)
                    served.asked.append((self.path, body))
                    served.headers.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    with suppress(BrokenPipeError, ConnectionResetError):
                        answer(self, self.path, body)
                finally:
                    with served.lock:
                        served.open -= 1

            def send(self, content, status=200, **headers):
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json", "Content-Length": len(data)} | headers).items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                self.wfile.write(data)

            def reset(self):
                """Close the connection without an answer."""
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                self.close_connection = True
                self.connection.close()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Proxy(Served):
    """Passes requests on to a server, and breaks some answers: `fault(n)` names what happens to the n-th request.

    Attributes:
        answered: Bodies of the requests whose answers were passed on whole, as JSON.
    """

    def __init__(self, url, fault=lambda n: None):
        self.target, self.fault, self.answered = urlsplit(url), fault, []
        self.count = 0
        super().__init__(self.passed)

    def passed(self, handler, path, body):
        with self.lock:
            number, self.count = self.count, self.count + 1
        fault = self.fault(number)
        if fault == "limit":
            return handler.send({"error": {"message": "slow down"}}, 429, Retry_After="0.2")
        if fault == "500":
            return handler.send({"error": {"message": "oops"}}, 500)
        if fault == "reset":
            return handler.reset()
        try:
            with closing(HTTPConnection(self.target.hostname, self.target.port, timeout=DEADLINE)) as connection:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                content, status = response.read(), response.status
        except (OSError, HTTPException):
            return handler.reset()
        if fault == "truncated":
            return handler.send(content[: len(content) // 2])
        if fault == "slow":
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            for i in range(0, len(content), len(content) // 5):
                handler.wfile.write(content[i : i + len(content) // 5])
                time.sleep(0.02)
        else:
            handler.send(content, status)
        if status == 200:
            with self.lock:
                self.answered.append(json.dumps(body, sort_keys=True))
        return None
