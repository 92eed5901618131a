"""The real thing: SmolLM2 in llama.cpp's HTTP server, beside the same weights in transformers."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch

from slalom import Explainer
from slalom.models import Api
from slalom.models.api.probe import TEXT as PROBE
from tests.servers import Llama, Proxy
from tests.smollm2 import loaded
from tests.waiting import until

TEMPLATE = "Great film! -> positive\nBoring. -> negative\n{text} ->"
LABELS = ["negative", "positive"]
TEXT = "Fine, but too long."
QUERIES, CHECK = 12, 4
# llama.cpp computes with 8-bit activations, transformers in float32. Measured on 50 queries about seven reviews: log odds
# differ by 0.06 on average and by 0.23 at most; their standard deviation is 1.15.
QUANTISATION = 0.35


@pytest.fixture(scope="module")
def llama():
    """The server; its answers do not depend on the order of requests."""
    with Llama() as server:
        yield server


def api(server, **options):
    return Api("smollm2", TEMPLATE, LABELS, server.url, **{"top": 100, "concurrency": 2} | options)


def log_odds(text):
    """Of the labels after the prompt, by a plain forward pass of transformers."""
    model, tokenizer = loaded()
    ids = tokenizer(TEMPLATE.replace("{text}", text), return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits[0, -1]
    tokens = [tokenizer(f" {label}", add_special_tokens=False)["input_ids"] for label in LABELS]
    assert [len(token) for token in tokens] == [1, 1]
    return float(logits[tokens[1][0]] - logits[tokens[0][0]])


@pytest.fixture(scope="module")
def undisturbed(llama):
    """The explanation of the text, by the server itself."""
    model = api(llama)
    e = Explainer(model, queries=QUERIES, check=CHECK)(TEXT)
    model.close()
    return e


def comparable(e):
    """Everything that an explanation says, but for the time that it took and the address of the server."""
    content = e.to_dict()
    assert content.pop("seconds") > 0
    return re.sub(r"api 127\.0\.0\.1:\d+/v1 smollm2 [0-9a-f]{32}", "api", json.dumps(content, sort_keys=True))


def test_the_server_and_transformers_agree_up_to_quantisation(llama, undisturbed):
    local = Explainer(lambda texts: [log_odds(text) for text in texts], output="log_odds", queries=QUERIES, check=CHECK)(TEXT)
    assert undisturbed.score == pytest.approx(log_odds(TEXT), abs=QUANTISATION)
    keep, ours, theirs = local.held_out.keep, undisturbed.held_out.scores, local.held_out.scores
    assert (keep == undisturbed.held_out.keep).all()
    assert np.abs(ours - theirs).max() < QUANTISATION
    assert np.corrcoef(undisturbed.removal, local.removal)[0, 1] > 0.99
    assert 0.2 < undisturbed.figures["label share"] < 1.0
    assert undisturbed.figures["censored"] < 0.2


def test_the_probe_says_what_llama_cpp_can_do(llama):
    model = api(llama, top=20)
    way = model.capabilities
    assert (way.chat, way.sampled, way.size, way.requests, way.noise) == (False, False, 20, 3, 0.0)
    model.close()


def test_chat_gives_the_log_probabilities_of_the_server(llama):
    """The same numbers as a request without slalom, summed over spellings."""
    messages = [{"role": "user", "content": "{text} Good or bad?"}, {"role": "assistant", "content": "Bad or"}]
    model = Api("smollm2", messages[:1], ["bad", "good"], llama.url, top=1000)
    outputs = model.collect(model.submit(["Fine."]))
    body = {"messages": [{"role": "user", "content": "Fine. Good or bad?"}], "logprobs": True, "top_logprobs": 1000}
    answer = llama.ask("chat/completions", model="smollm2", max_tokens=1, temperature=0, seed=0, **body)
    listed = {part["token"]: part["logprob"] for part in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
    expected = [
        np.logaddexp.reduce([listed[t] for t in (f" {w}", w, f" {w.title()}", w.title()) if t in listed])
        for w in ("bad", "good")
    ]
    assert outputs[0, :2] == pytest.approx(expected, abs=1e-6)
    model.close()


def test_spellings_outside_of_the_list_leave_scores_known_that_are(llama):
    """With 20 log-probabilities: those that count as known are those of a list of 1000, nearly."""
    message = {"role": "user", "content": "Is this review positive or negative? {text} Answer with one word."}
    texts = ["Fine, but too long.", "I loved every minute of it!", "Not bad at all.", "Fine", "dull"]
    observed = []
    for top in (20, 1000):
        model = Api("smollm2", [message], LABELS, llama.url, top=top)
        observed.append(model.observe(np.concatenate([model.collect(model.submit([text])) for text in texts]), 1))
        model.close()
    short, long = observed
    assert long.known.all()
    assert 2 <= short.known.sum() < 5, "of some texts a spelling may have as much as the label itself"
    assert np.abs(short.scores - long.scores)[short.known].max() < 0.05
    assert np.abs(short.scores - long.scores)[~short.known].max() > 0.2


FAULTS = {3: "limit", 4: "500", 6: "reset", 8: "truncated", 10: "slow", 13: "reset", 14: "500", 17: "truncated", 20: "limit"}


def test_faults_on_the_way_change_nothing(llama, undisturbed):
    with Proxy(llama.url, FAULTS.get) as proxy:
        model = api(proxy)
        e = Explainer(model, queries=QUERIES, check=CHECK)(TEXT)
        model.close()
        assert comparable(e) == comparable(undisturbed)
        assert proxy.count > max(FAULTS), "all faults were met"
        asked_twice = {body for body, n in Counter(proxy.answered).items() if n > 1 and PROBE not in body}
        assert not asked_twice


CLIENT = f"""
import sys
from slalom import Explainer
from slalom.models import Api
model = Api("smollm2", {TEMPLATE!r}, {LABELS!r}, sys.argv[1], top=100, concurrency=2)
Explainer(model, queries={QUERIES}, check={CHECK}, cache=sys.argv[2])({TEXT!r})
"""


def test_kill_9_of_client_and_server_loses_at_most_what_is_in_flight(llama, undisturbed, tmp_path):
    cache = tmp_path / "answers"
    with Proxy(llama.url) as proxy:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        client = subprocess.Popen([sys.executable, "-c", CLIENT, proxy.url, str(cache)], env=environment)
        until(lambda: len(proxy.answered) >= 9, process=client)
        client.send_signal(signal.SIGKILL)  # the client dies in the middle
        client.wait()
        until(lambda: proxy.open == 0)
        before = len(proxy.answered)

        fault = iter([None] * 6 + ["die"])

        def kill_the_server(_):
            if next(fault, None) == "die":
                llama.kill()  # the server dies in the middle
                llama.start()

        proxy.fault = kill_the_server
        model = api(proxy, attempts=20)
        e = Explainer(model, queries=QUERIES, check=CHECK, cache=cache)(TEXT)
        model.close()
        assert comparable(e) == comparable(undisturbed)
        counts = Counter(body for body in proxy.answered if PROBE not in body)
        twice = [body for body, n in counts.items() if n > 1]
        assert len(twice) <= 4, "two in flight when the client died, and two that it had not written yet"
        assert all(body in proxy.answered[:before] for body in twice)
        assert before > 6
