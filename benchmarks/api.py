"""Time of an explanation by a model behind an API, by the number of requests in flight.

Run: python benchmarks/api.py [--latency 0.1] [--queries 200] [--concurrency 1 8 32]

The server is a process of its own, in asyncio, and needs no model: it answers every request after the latency, with the
log-probabilities of two labels. `queries` is the time of all queries of one text, `text` that with the fit, both without the
probe; `bound` is latency times queries over concurrency, `faster` compares the times of queries. `requests` counts what the
server saw.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import time

from slalom import Explainer
from slalom.models import Api

TEXT = "The first half is dull, but the second half is one of the best things that I have seen in years."


def completion(prompt):
    """Return the answer to a prompt: the log odds depend on its words."""
    odds = 0.3 * prompt.count("e") - 2.0 * prompt.count("dull") + 2.0 * prompt.count("best")
    p = 0.9 / (1.0 + math.exp(-odds))
    top = {" positive": math.log(p), " negative": math.log(0.9 - p), " so": math.log(0.1)}
    logprobs = {"tokens": [" positive"], "token_logprobs": [top[" positive"]], "top_logprobs": [top]}
    return json.dumps({"choices": [{"text": " positive", "logprobs": logprobs}]}).encode()


def serve(latency, port, seen):
    """Answer requests until the process is ended."""

    async def connection(reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            body = json.loads(await reader.readexactly(int(sizes[0])))
            seen.value += 1
            await asyncio.sleep(latency)
            content = completion(body["prompt"])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content))
            writer.write(content)
            await writer.drain()
        writer.close()

    async def forever():
        server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=256)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(forever())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    options = parser.parse_args()
    port, seen = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)
    server = multiprocessing.Process(target=serve, args=(options.latency, port, seen), daemon=True)
    server.start()
    while not port.value:
        time.sleep(0.01)
    print(f"{'concurrency':<13}{'queries (s)':<13}{'text (s)':<10}{'bound (s)':<11}{'faster':<9}requests", flush=True)
    slowest = None
    for concurrency in options.concurrency:
        model = Api(
            "m", "{text} Sentiment:", ["negative", "positive"], f"http://127.0.0.1:{port.value}/v1", concurrency=concurrency
        )
        _ = model.capabilities
        explainer = Explainer(model, queries=options.queries, progress=False)
        before, began = seen.value, time.perf_counter()
        e = explainer(TEXT)
        took, asking = time.perf_counter() - began, explainer.pipeline.engine.cost.seconds
        model.close()
        slowest = slowest or asking
        bound = options.latency * e.queries / concurrency
        times = f"{asking:<13.2f}{took:<10.2f}{bound:<11.2f}{slowest / asking:<9.2f}"
        print(f"{concurrency:<13}{times}{seen.value - before}", flush=True)
    server.terminate()


if __name__ == "__main__":
    main()
