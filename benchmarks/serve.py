"""`slalom serve` under load: time to the first colours, many users at once, and random bytes.

    python benchmarks/serve.py                                     50 users for 60 s, 1,000 random requests
    python benchmarks/serve.py --users 8 --seconds 10 --random 200  a short run

The bundled classifier, a real server in a process of its own, requests over HTTP. Everything but 200 and 429 is a failure, and
the exit code says so. Users type a new text each time, read the stream to its end, and click three words of it.
"""

import argparse
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

SENTENCE = (
    "the film is slow but beautiful and its cast is great although I did not like an ending which felt dull yet every"
    " scene had charm with clever jokes awful music honest people and terrible weather that nobody believed for a moment"
)
JSON = {"Content-Type": "application/json"}


def text_of(rng, n):
    return " ".join(rng.choices(SENTENCE.split(), k=n)) + f" {rng.randrange(10**6)}."


class Server:
    """`slalom serve` in a process of its own."""

    def __init__(self):
        began = time.perf_counter()
        command = [sys.executable, "-m", "slalom", "serve", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)/", line).group(1))
        self.started = time.perf_counter() - began

    def memory(self):
        """Resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status")
        return int(re.search(r"VmRSS:\s+(\d+)", status.read_text()).group(1)) / 1024 if status.exists() else float("nan")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)


def streamed(connection, text, **options):
    """Explain a text; return the status, and the seconds to the first and to the final explanation."""
    began, first, final = time.perf_counter(), None, None
    connection.request("POST", "/api/explain", json.dumps({"text": text, **options}), {**JSON, "Accept": "text/event-stream"})
    response = connection.getresponse()
    if response.status != 200:
        wait = response.headers.get("Retry-After")
        response.read()
        return response.status, None, wait
    name = ""
    for line in response:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
            if name == "explanation":
                final = time.perf_counter() - began
                first = final if first is None else first
            if name == "error":
                response.read()
                return 500, None, None
    return (200 if name == "done" else 599), first, final


def asked(connection, text, n):
    """Ask the model about three words of an explained text; return the status and the seconds."""
    began = time.perf_counter()
    keep = [[int(i != j) for i in range(n)] for j in range(3)]
    connection.request("POST", "/api/ask", json.dumps({"text": text, "unit": "word", "keep": keep}), JSON)
    response = connection.getresponse()
    response.read()
    return response.status, time.perf_counter() - began


def alone(server, lengths):
    """One user: cold, then texts of several lengths."""
    rng = random.Random(0)
    connection = server.connect()
    _, first, final = streamed(connection, text_of(rng, 20))
    print(f"first request after the start ({server.started:.1f} s): first colours {first:.2f} s, final {final:.2f} s")
    for n in lengths:
        rows = np.array([streamed(connection, text_of(rng, n))[1:] for _ in range(5 if n < 300 else 2)])
        print(f"{n:4d} words, warm: first colours {np.median(rows[:, 0]):.2f} s, final {np.median(rows[:, 1]):.2f} s (median)")


def crowd(server, users, seconds):
    """Many users at once; returns the statuses."""
    end, lock = time.perf_counter() + seconds, threading.Lock()
    statuses, firsts, finals, questions = Counter(), [], [], []

    def use(number):
        rng, connection = random.Random(1000 + number), server.connect()
        while time.perf_counter() < end:
            n = rng.choice([10, 20, 20, 40])
            text = text_of(rng, n)
            status, first, final = streamed(connection, text, unit="word")
            with lock:
                statuses[status] += 1
                if status == 200:
                    firsts.append(first)
                    finals.append(final)
            if status == 429:
                time.sleep(float(final or 1))
                continue
            if status == 200 and time.perf_counter() < end:
                answered, took = asked(connection, text, n + 2)  # the number and the full stop are words, too
                with lock:
                    statuses[answered] += 1
                    questions.extend([took] if answered == 200 else [])

    memory = []
    threads = [threading.Thread(target=use, args=(i,)) for i in range(users)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        memory.append(server.memory())
        time.sleep(max(seconds / 20, 0.25))
    quarter = memory[len(memory) // 4]
    print(f"{users} users for {seconds:g} s: {sum(statuses.values())} requests, statuses {dict(statuses)}")
    for name, times in (("first colours", firsts), ("final", finals), ("three questions", questions)):
        if times:
            p50, p95 = np.percentile(times, [50, 95])
            print(f"  {name}: p50 {p50:.2f} s, p95 {p95:.2f} s")
    print(f"  memory: {memory[0]:.0f} MB at the start, {quarter:.0f} MB after a quarter, {memory[-1]:.0f} MB at the end")
    return statuses


def noise(server, number):
    """Random bytes to all routes; returns the statuses."""
    rng, statuses = random.Random(7), Counter()
    routes = ("/api/explain", "/api/ask", "/api/flip", "/api/download", "/api/methods", "/", "/assets/x")
    connection = server.connect()
    for _ in range(number):
        body = rng.randbytes(rng.randrange(2000))
        verb = rng.choice(("POST", "POST", "POST", "GET", "PUT"))
        try:
            connection.request(verb, rng.choice(routes), body, JSON if rng.random() < 0.9 else {})
            response = connection.getresponse()
            response.read()
            statuses[response.status] += 1
        except (OSError, http.client.HTTPException):
            statuses["hung up"] += 1
            connection.close()
    print(f"{number} requests of random bytes: statuses {dict(statuses)}, memory {server.memory():.0f} MB")
    return statuses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--random", type=int, default=1000)
    parser.add_argument("--words", type=int, nargs="*", default=[20, 100, 300], help="lengths of texts of a single user")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    server = Server()
    try:
        alone(server, options.words)
        under_load = crowd(server, options.users, options.seconds)
        hostile = noise(server, options.random)
    finally:
        server.stop()
    failed = [s for s in under_load if s not in (200, 429)] + [s for s in hostile if s == "hung up" or s >= 500]
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
