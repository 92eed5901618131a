"""Estimates, prices and limits: what is said before is what is asked, and nothing is asked beyond a limit."""

import json
import math

import pytest

from slalom import Explainer
from slalom.errors import InputError
from slalom.models import Api, Estimate, Prices, prices_of
from tests.cases import cases
from tests.commands import invoke
from tests.servers import Served

TEXT = "a bad film that had a good start and a sad end for all of us"
PRICES = {"input": 0.15, "output": 0.60}


class Counting:
    """A callable that keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked += texts
        return [text.count("a") + math.sin(sum(place * ord(c) for place, c in enumerate(text))) for text in texts]


def made(**options):
    counting = Counting()
    explainer = Explainer(counting, output="log_odds", progress=False, **options)
    counting.asked.clear()  # two strings to find out what it returns
    return explainer, counting


@cases("options", [{}, {"queries": 60, "check": 10}, {"method": "local"}, {"unit": "type", "method": "eff"}])
def test_the_estimate_is_what_is_asked(options):
    explainer, counting = made(prices=PRICES)
    estimate = explainer.estimate(TEXT, **options)
    assert counting.asked == []
    explainer(TEXT, **options)
    assert len(counting.asked) == len(set(counting.asked))
    assert estimate.queries <= len(counting.asked) <= estimate.queries + estimate.further
    explainer, counting = made(prices=PRICES)
    explainer(TEXT, pairs=False, **options)
    assert estimate.queries <= len(counting.asked) <= estimate.queries + (10 if "queries" in options else 0)
    planned = counting.asked[: estimate.queries]  # the strongest units come last
    assert estimate.tokens == sum(math.ceil(len(text) / 4) for text in planned)
    assert estimate.cost == pytest.approx(estimate.tokens * 0.15 / 1e6)
    assert (estimate.about, estimate.at_least, estimate.cached) == (True, False, 0)


def test_equal_texts_count_once_and_the_cache_is_free(tmp_path):
    explainer, counting = made(prices=PRICES, cache=tmp_path / "answers.sqlite", identity="counting")
    once = explainer.estimate(TEXT)
    assert explainer.estimate([TEXT, TEXT]) == once
    explainer(TEXT, pairs=False)
    for again in (explainer, made(cache=tmp_path / "answers.sqlite", identity="counting", prices=PRICES)[0]):
        assert again.estimate(TEXT)[:6] == (0, 0, 0, 0.0, once.queries, True)
        assert again.estimate([TEXT, "some other words"]).queries == 8 - 1  # the empty text is known
    assert len(counting.asked) == once.queries


def test_what_is_too_expensive_is_refused_before_any_request():
    explainer, counting = made(prices=PRICES, max_cost=0.0001)
    with pytest.raises(
        InputError,
        match=r"this call \(218 queries, about 1,808 tokens: \$0.000271\) would cost",
    ):
        explainer(TEXT)
    assert counting.asked == []
    assert explainer(TEXT, queries=60, check=10).queries == len(set(counting.asked))
    with pytest.raises(InputError, match=r"would cost .* after \$"):  # the limit is of all calls
        explainer("another text of as many words as the one before, so that it costs too much", queries=90)


def test_a_round_that_cannot_be_paid_is_not_begun():
    explainer, counting = made(prices=PRICES, max_cost=0.0003)
    estimate = explainer.estimate(TEXT, queries="auto")
    assert estimate.at_least
    e = explainer(TEXT, queries="auto")
    assert e.stopped.startswith("another round costs more than is left of max_cost, $0.0003 (round ")
    assert explainer.engine.spending.spent <= 0.0003
    assert estimate.queries <= len(counting.asked)


def test_further_queries_of_a_method_are_refused_in_flight():
    planned = made(prices=PRICES, method="leave-one-out", check=10)[0].estimate(TEXT)
    assert planned.at_least
    explainer, counting = made(prices=PRICES, method="leave-one-out", check=10, max_cost=planned.cost * 1.2)
    with pytest.raises(InputError, match="the next request would cost"):
        explainer(TEXT)
    assert explainer.engine.spending.spent <= planned.cost * 1.2
    assert len(counting.asked) == planned.queries


@cases(("method", "all_of_them"), [("joint", True), ("context-cite", True), ("random", True), ("lime", False)])
def test_an_estimate_is_a_lower_limit_where_a_method_asks_as_it_goes(method, all_of_them):
    explainer, counting = made(method=method, queries=40, check=10, pairs=False)
    estimate = explainer.estimate(TEXT)
    explainer(TEXT)
    assert estimate.at_least is not all_of_them
    assert (estimate.queries == len(set(counting.asked))) is all_of_them


def test_max_queries_is_a_hard_limit_of_a_fixed_budget():
    explainer, counting = made(max_queries=100)
    with pytest.raises(InputError, match=r"needs \d+ queries with those that test the explanation, and max_queries is 100"):
        explainer(TEXT)
    assert counting.asked == []
    with pytest.raises(InputError, match=r"the method asks for \d+ queries, and max_queries is 20"):
        explainer(TEXT, method="leave-one-out", max_queries=20, check=10)
    assert len(counting.asked) <= 20
    counting.asked.clear()
    assert explainer(TEXT, queries=60, check=10).queries == len(counting.asked) <= 100


@cases(
    ("options", "message"),
    [
        ({"max_cost": 1.0}, "max_cost needs prices"),
        ({"max_cost": -1.0, "prices": PRICES}, "max_cost must be a number above 0.*got -1.0"),
        ({"prices": {"in": 1}}, "prices must be .*got \"{'in': 1}\""),
        ({"prices": {"input": -1}}, "prices must be .*numbers of at least 0.*got \"{'input': -1}"),
        ({"prices": {"gpt": PRICES}}, "prices must have the model 'Counting'; they have gpt; add it"),
        ({"prices": "no/such.json"}, "prices must be in a JSON file that can be read"),
    ],
)
def test_wrong_prices_are_refused_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        made(**options)
    assert "\n" not in str(caught.value)


def test_prices_come_from_a_table_in_a_file(tmp_path):
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"gpt": PRICES, "other": {"input": 2}}))
    assert prices_of(file, "gpt") == Prices(0.15, 0.60)
    assert prices_of(str(file), "other") == Prices(2.0, 0.0)
    assert Prices(0.15, 0.60).cost(1_000_000, 2_000_000) == pytest.approx(1.35)


def test_dry_run_prints_the_estimate_and_asks_nothing():
    result = invoke(["explain", "a good film", "--dry-run", "--prices", "0.15,0.60"])
    estimate = Explainer(prices=PRICES, progress=False).estimate("a good film")
    assert result.output == f"{estimate}; nothing was asked\n"
    result = invoke(["explain", "a good film", "--dry-run", "--json"])
    assert Estimate(**json.loads(result.output)) == estimate._replace(cost=None)


def test_a_dry_run_of_several_texts_leaves_out_what_the_run_leaves_out(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("a good film", " ", "a bad film")))
    estimate = Explainer(prices=PRICES, progress=False).estimate(["a good film", "a bad film"])
    command = ["explain", "--file", str(rows), "--prices", "0.15,0.60"]
    assert invoke([*command, "--dry-run"]).output == f"{estimate}; nothing was asked\n"
    limited = invoke([*command, "--max-cost", str(2 * estimate.cost), "--json"])
    assert limited.exit_code == 1
    assert "text 2 of 3 failed: a text must have at least one token" in limited.stderr
    assert [json.loads(line)["text"] for line in limited.stdout.splitlines()] == ["a good film", "a bad film"]


def test_a_dry_run_knows_the_classes():
    result = invoke(["explain", "a good film", "--dry-run", "--target", "nope"])
    assert "target 'nope' is not a class" in result.stderr
    with pytest.raises(InputError, match="target 'nope' is not a class"):
        Explainer(progress=False).estimate("a good film", target="nope")


# --- a paid model: requests are counted by the server


def answered(asked, dear=1):
    """A server with completions and log-probabilities that counts tokens as characters."""

    def answer(handler, path, body):
        if not path.endswith("/completions") or "messages" in body:
            return handler.send({"error": {"message": "no chat"}}, 404)
        text = body["prompt"]
        asked.append(text)
        p = 0.8 / (1.0 + math.exp(-text.count("good")))
        top = {" good": math.log(p), " bad": math.log(0.8 - p), " so": math.log(0.2)}
        best = max(top, key=top.get)
        logprobs = {"tokens": [best], "token_logprobs": [top[best]], "top_logprobs": [top]}
        usage = {"prompt_tokens": dear * (len(text) // 4 + 1), "completion_tokens": 1}
        return handler.send({"choices": [{"text": best, "logprobs": logprobs}], "usage": usage})

    return answer


def api(url, **options):
    model = Api("m", "{text} ->", ["bad", "good"], url, attempts=1)
    return Explainer(model, progress=False, prices=PRICES, queries=30, check=5, **options)


def test_a_server_is_not_asked_before_the_estimate_and_not_beyond_the_limit():
    asked = []
    with Served(answered(asked)) as server:
        explainer = api(server.url, max_cost=0.0001)
        with pytest.raises(InputError, match=r"this call .* would cost"):
            explainer(TEXT)
        assert asked == []
        explainer = api(server.url, max_cost=0.01)
        estimate = explainer.estimate(TEXT)
        assert asked == []
        e = explainer(TEXT)
        paid = Prices(**PRICES).cost(sum(len(text) // 4 + 1 for text in asked), len(asked))
        assert explainer.engine.spending.spent == pytest.approx(paid)
        assert e.queries == estimate.queries <= len(asked)  # and the probe
        assert paid <= estimate.cost, "with the probe"


@cases("mode", ["auto", "logprobs", "sample"])
def test_finding_out_what_a_server_can_do_costs_no_more_than_is_said(mode):
    """A server that counts characters; with "auto" it ignores log-probabilities, so that everything is tried."""

    def answer(handler, path, body):
        said = "x" * 4 * body["max_tokens"]
        given = body["prompt"] if "prompt" in body else "".join(message["content"] for message in body["messages"])
        tokens, n = -(-len(given) // 4), body.get("n", 1)
        usage = {"prompt_tokens": tokens, "completion_tokens": n * body["max_tokens"]}
        listed = {} if mode == "auto" else logprobs("messages" in body)
        handler.send({"choices": [{"text": said, "message": {"content": said}, **listed}] * n, "usage": usage})

    def logprobs(chat):
        top = {" good": -0.7, " bad": -0.7, "good": -9.0, "bad": -9.0}
        if chat:
            listed = [{"token": token, "logprob": log_p} for token, log_p in top.items()]
            return {"logprobs": {"content": [{"token": " good", "logprob": -0.7, "top_logprobs": listed}]}}
        return {"logprobs": {"tokens": [" good"], "token_logprobs": [-0.7], "top_logprobs": [top]}}

    with Served(answer) as server:
        model = Api("m", "Is this good or bad? {text} ->", ["bad", "good"], server.url, mode=mode)
        read, written = model.start_tokens
        _ = model.capabilities
        assert 0 < model.usage.prompt_tokens <= read
        assert 0 < model.usage.completion_tokens <= written
        assert model.start_tokens == (0, 0)
        model.close()


def test_the_first_requests_count_against_the_limit():
    asked = []
    with Served(answered(asked)) as server:
        known = api(server.url)
        first = known.estimate(TEXT)
        e = known(TEXT)
        queries = api(server.url).engine.estimate([])
        assert queries.tokens == 0, "where nothing is asked, nothing has to be found out"
        read, written = api(server.url).model.start_tokens
        rest = first.cost - Prices(**PRICES).cost(read, written)
        asked.clear()
        with pytest.raises(InputError, match=r"this call .* would cost"):
            api(server.url, max_cost=rest * 1.01)(TEXT)
        with pytest.raises(InputError, match="finding out what the server can do would cost"):
            api(server.url, max_cost=1e-6).ask(e, [1] * len(e))
        assert asked == []


def test_requests_stop_where_a_server_charges_more_than_was_estimated():
    asked = []
    with Served(answered(asked, dear=60)) as server:
        planned = api(server.url).estimate(TEXT)
        explainer = api(server.url, max_cost=2.0 * planned.cost)
        with pytest.raises(InputError, match="the next request would cost"):
            explainer(TEXT)
        assert 0 < len(asked) < planned.queries / 2
        one = Prices(**PRICES).cost(60 * max(len(text) // 4 + 1 for text in asked), 1)
        assert explainer.engine.spending.spent <= 2.0 * planned.cost + one, "near the limit one is asked at a time"


def test_a_second_explainer_does_not_pay_for_the_first():
    asked = []
    with Served(answered(asked)) as server:
        first = api(server.url)
        first(TEXT)
        before = len(asked)
        second = Explainer(first.model, progress=False, prices=PRICES, seed=1, queries=30)
        assert second.engine.spending.spent == 0.0
        second(TEXT)
        paid = Prices(**PRICES).cost(sum(len(text) // 4 + 1 for text in asked[before:]), len(asked) - before)
        assert second.engine.spending.spent == pytest.approx(paid)


def test_an_explanation_is_shown_where_a_flip_costs_more_than_is_left():
    asked, text = [], " and ".join(["a good day"] * 6)
    with Served(answered(asked, dear=10)) as server:
        model = Api("m", "{text} ->", ["bad", "good"], server.url)
        explainer = Explainer(model, progress=False, prices=PRICES, queries=40)
        explainer(text)
        paid, n = explainer.engine.spending.spent, len(asked)
        command = ["explain", text, "--api", "m", "--base-url", server.url, "--template", "{text} ->", "--labels"]
        limits = ["bad,good", "--queries", "40", "--prices", "0.15,0.60", "--max-cost", str(paid * 1.0001), "--flip"]
        result = invoke([*command, *limits, "--json"])
        assert result.exit_code == 0
        assert len(asked) == 2 * n, "those of the explanation, and no more"
    assert "no flip was looked for: the next request would cost" in result.stderr
    assert "flip" not in json.loads(result.stdout)
