"""Answers of servers become numbers: against a small language model whose probabilities are all known."""

import itertools
import math

import numpy as np
import pytest

from slalom.errors import InputError, ModelError
from slalom.models import Api
from slalom.models.api.answers import (
    Keys,
    Outcome,
    Row,
    choices,
    content,
    from_log_probabilities,
    from_samples,
    missing,
    named_label,
    positions,
)
from slalom.models.api.probe import noise_of

# A language model over strings: the distribution of the next token after each beginning.
LANGUAGE = {
    "": {" yes": 0.30, " no": 0.25, " very": 0.20, " ": 0.15, " maybe": 0.06, " un": 0.04},
    " very": {" yes": 0.6, " no": 0.3, " so": 0.1},
    " ": {"yes": 0.2, "no": 0.5, "so": 0.3},
}


def generated(path, top, shape="chat", outside=()):
    """The answer of a server that lists the most probable tokens along a path."""
    items, before = [], ""
    for token in path:
        table = LANGUAGE[before]
        listed = sorted(table, key=table.get, reverse=True)[:top]
        items.append((token, math.log(table[token]), {t: -9999.0 if t in outside else math.log(table[t]) for t in listed}))
        before += token
    text = "".join(path)
    if shape == "completions":
        tokens, own, tops = zip(*items, strict=True)
        return {"text": text, "logprobs": {"tokens": list(tokens), "token_logprobs": list(own), "top_logprobs": list(tops)}}
    entries = [
        {"token": t, "logprob": p, "top_logprobs": [{"token": name, "logprob": q} for name, q in tops.items()]}
        for t, p, tops in items
    ]
    return {"message": {"content": text}, "logprobs": {"content": entries}}


YES_NO = Keys({" yes": 0, " no": 1}, 2)


def test_both_shapes_of_log_probabilities_give_the_probabilities_of_the_labels():
    for shape in ("chat", "completions"):
        row = from_log_probabilities(generated([" yes"], 6, shape), YES_NO)
        assert row.low == pytest.approx([0.30, 0.25])
        assert np.exp(row.log_p) == pytest.approx([0.30, 0.25])
        assert (row.low == row.high).all()
        assert not row.censored
        assert row.share == pytest.approx(0.55)


def test_a_blank_before_the_label_is_read_through_where_it_is_followed():
    row = from_log_probabilities(generated([" ", "no"], 6), YES_NO)
    assert row.low == pytest.approx([0.30 + 0.15 * 0.2, 0.25 + 0.15 * 0.5])
    assert (row.low == row.high).all()
    assert not row.censored
    # where the answer ends after the blank, its mass may belong to each label
    row = from_log_probabilities(generated([" "], 6), YES_NO)
    assert row.low == pytest.approx([0.30, 0.25])
    assert row.high == pytest.approx([0.45, 0.40])


def test_bounds_contain_the_truth_whatever_is_listed():
    ordered = sorted(LANGUAGE[""], key=LANGUAGE[""].get)
    for top, labels in itertools.product(range(1, 7), itertools.combinations([" yes", " no", " maybe", " un"], 2)):
        row = from_log_probabilities(generated([" yes"], top), Keys({labels[0]: 0, labels[1]: 1}, 2))
        truth = np.array([LANGUAGE[""][label] for label in labels])
        if row.outcome is Outcome.NO_LABEL:
            assert not set(labels) & set(ordered[-top:])
            continue
        assert (row.low <= truth + 1e-12).all(), (top, labels)
        assert (truth <= row.high + 1e-12).all(), (top, labels)
        listed = [LANGUAGE[""][token] for token in ordered[-top:]]
        assert row.high[row.low == 0.0] == pytest.approx(min(listed[0], 1.0 - sum(listed)))


def test_a_generated_token_outside_the_list_lowers_no_bound_and_minus_9999_means_outside():
    row = from_log_probabilities(generated([" maybe"], 1), YES_NO)
    assert row.low == pytest.approx([0.30, 0.0])
    assert row.high[1] == pytest.approx(0.30), "at most the least listed one, not the generated one (0.06)"
    row = from_log_probabilities(generated([" yes"], 6, outside=[" no"]), YES_NO)
    assert row.low == pytest.approx([0.30, 0.0])
    assert row.high[1] == pytest.approx(0.04), "as unlikely as the least likely listed token"


def test_what_is_no_log_probability_and_probabilities_above_one_are_refused():
    for number in (float("nan"), float("inf"), -float("inf"), 0.5, "low", None, True):
        entry = {"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "b", "logprob": number}]}
        with pytest.raises(ModelError):
            positions({"logprobs": {"content": [entry]}})
    top = [{"token": t, "logprob": -0.1} for t in "abc"]
    with pytest.raises(ModelError, match=r"add up to 2\.71"):
        positions({"logprobs": {"content": [{"token": "a", "logprob": -0.1, "top_logprobs": top}]}})


def test_what_is_no_answer_is_kept_apart():
    for choice, outcome in [
        ({"message": {"content": None, "refusal": "I cannot."}}, Outcome.REFUSED),
        ({"message": {"content": "po"}, "finish_reason": "content_filter"}, Outcome.FILTERED),
        ({"message": {"content": ""}}, Outcome.EMPTY),
        ({"text": "  "}, Outcome.EMPTY),
        ({"message": {"content": "positive"}}, Outcome.MALFORMED),  # log-probabilities were asked for
        ({"text": " so", "logprobs": {"tokens": [" so"], "top_logprobs": [{" so": -0.1, " un": -3.0}]}}, Outcome.NO_LABEL),
    ]:
        row = from_log_probabilities(choice, YES_NO)
        assert row.outcome is outcome
        assert (row.low == 0.0).all()
        assert (row.high == 1.0).all()
    for answer in ({}, {"choices": []}, {"choices": None}, {"choices": ["a"]}):
        with pytest.raises(ModelError):
            choices(answer)


def test_samples_are_counted_and_smoothed():
    texts = [" Positive.", "<think>negative?</think>\npositive", "**Negative**", "I cannot say", "positively"]
    row = from_samples([content({"text": text}) for text in texts], [[" positive"], [" negative"]])
    assert row.counts.tolist() == [2, 1]
    assert np.exp(row.log_p) == pytest.approx([3 / 5, 2 / 5])
    assert row.share == pytest.approx(3 / 5)
    assert from_samples([("", Outcome.REFUSED)] * 3, [["a"], ["b"]]).outcome is Outcome.REFUSED
    assert from_samples([("x", Outcome.ANSWERED)], [["a"], ["b"]]).outcome is Outcome.NO_LABEL
    assert named_label("no", [["yes"], ["no"]]) == 1


def test_noise_is_the_variance_of_the_log_odds_where_all_labels_are_listed():
    p = np.array([[0.6, 0.3], [0.5, 0.4], [0.7, 0.2]])
    keys = Keys({"a": 0, "A": 0, "b": 1, "B": 1}, 2)
    tops = [{"a": math.log(x), "b": math.log(y), "c": math.log(0.01)} for x, y in p]
    rows = [from_log_probabilities({"text": "a", "logprobs": {"tokens": ["a"], "top_logprobs": [top]}}, keys) for top in tops]
    assert noise_of(rows) == pytest.approx(np.log(p[:, 0] / p[:, 1]).var(ddof=1))
    assert noise_of(rows[:1]) == 0.0
    assert noise_of([missing(Outcome.EMPTY, 2), rows[0]]) == 0.0


# --- the model, without a server -------------------------------------------------------------------------------------------


def api(labels=("no", "yes"), **options):
    return Api("m", "{text} ->", list(labels), "http://127.0.0.1:1/v1", **options)


def outputs(model, *rows, noise=0.0):
    return np.stack([row.packed(how, noise, None) for row, how in rows])


def log_row(labels, top):
    return from_log_probabilities(generated([" yes"], top), Keys({f" {name}": i for i, name in enumerate(labels)}, len(labels)))


def test_scores_are_log_odds_and_their_bounds_contain_the_truth():
    for labels, top in itertools.product([("no", "yes"), ("maybe", "yes"), ("no", "yes", "un")], (3, 6)):
        model = api(labels)
        answers = outputs(model, *[(log_row(labels, n), 1) for n in (6, top)])
        truth = np.array([LANGUAGE[""][f" {name}"] for name in labels])
        for target in range(len(labels)):
            observed = model.observe(answers, target)
            expected = math.log(truth[target] / (truth.sum() - truth[target]))
            assert observed.scores[0] == pytest.approx(expected)
            if observed.lower is None:
                assert observed.scores[1] == pytest.approx(expected)
                continue
            assert observed.lower[0] == observed.upper[0] == observed.scores[0], "what is known has equal bounds"
            assert observed.lower[1] <= expected <= observed.upper[1]
            assert observed.lower[1] < observed.upper[1]
        everything, expected = model.observe(answers, "all"), np.log(truth) - np.log(truth).mean()
        assert everything.scores[0] == pytest.approx(expected)
        if everything.lower is not None:
            assert everything.lower.shape == everything.scores.shape
            assert (everything.lower[0] == everything.scores[0]).all()
            assert (everything.lower[1] <= expected + 1e-12).all()
            assert (expected <= everything.upper[1] + 1e-12).all()


def test_the_variance_of_samples_is_that_of_the_smoothed_log_odds():
    """Averaged over all counts of 16 samples, it is the variance that enumeration gives, within a quarter."""
    for p in (0.2, 0.5, 0.7):
        model, k = api(), 16
        rows = [
            from_samples([("no", Outcome.ANSWERED)] * (k - n) + [("yes", Outcome.ANSWERED)] * n, [["no"], ["yes"]])
            for n in range(k + 1)
        ]
        observed = model.observe(outputs(model, *[(row, 2) for row in rows]), 1)
        n = np.arange(k + 1)
        assert observed.scores == pytest.approx(np.log((n + 1) / (k - n + 1)))
        weights = np.array([math.comb(k, i) * p**i * (1 - p) ** (k - i) for i in n])
        mean = weights @ observed.scores
        assert weights @ observed.variance == pytest.approx(weights @ (observed.scores - mean) ** 2, rel=0.25)
        assert observed.hits.tolist() == n.tolist()
        assert (observed.draws == k).all()


def test_samples_of_several_labels_are_counted_for_and_against_the_target():
    model = api(("no", "yes", "un"))
    said = [(text, Outcome.ANSWERED) for text in ("no", "yes", "yes", "un", "yes", "perhaps")]
    row = from_samples(said, [["no"], ["yes"], ["un"]])
    lost = from_samples([("perhaps", Outcome.ANSWERED)] * 6, [["no"], ["yes"], ["un"]])
    answers = outputs(model, *[(row, 2)] * 4, (lost, 2))
    observed = model.observe(answers, 1)
    assert observed.hits.tolist() == [3.0] * 4 + [0.0]
    assert observed.draws.tolist() == [5.0] * 4 + [0.0], "an answer without a label is no draw"
    assert observed.known.tolist() == [True] * 4 + [False]
    assert model.observe(answers, "all").hits is None


def test_missing_answers_have_no_bounds_and_the_mean_of_the_others():
    model = api()
    good, bad = log_row(("no", "yes"), 6), from_log_probabilities({"text": ""}, YES_NO)
    answers = outputs(model, *[(good, 1)] * 4, (bad, 1))
    observed = model.observe(answers, 1)
    assert observed.scores[4] == pytest.approx(observed.scores[:4].mean())
    assert (observed.lower[4], observed.upper[4]) == (-np.inf, np.inf)
    report = model.report(answers)
    assert report.figures == {"label share": pytest.approx(0.55), "censored": 0.0, "empty": 0.2}
    assert any("1 of 5 queries have no answer" in note for note in report.notes)
    with pytest.raises(ModelError, match=r"no answer to 2 of 6 queries \(empty: 2\), more than max_missing=0\.2"):
        model.observe(np.concatenate([answers, answers[-1:]]), 1)


def test_one_query_without_an_answer_is_an_error():
    with pytest.raises(ModelError, match=r"no answer to 1 of 1 queries \(empty: 1\); the model says nothing"):
        api().observe(outputs(api(), (from_log_probabilities({"text": ""}, YES_NO), 1)), 1)


def test_noise_is_reported_and_is_the_variance_of_every_score():
    model = api()
    row = log_row(("no", "yes"), 6)
    answers = outputs(model, (row, 1), (row, 1), noise=0.04)
    assert model.observe(answers, 1).variance.tolist() == [0.04, 0.04]
    assert model.report(answers).figures["noise"] == pytest.approx(0.2)
    assert model.observe(outputs(model, (row, 1)), 1).variance is None


def test_noise_is_that_of_the_scores_of_all_labels():
    for labels in [("no", "yes"), ("no", "yes", "un", "maybe")]:
        rng, n, model = np.random.default_rng(0), len(labels), api(labels)
        logs = math.log(0.9 / n) + 0.05 * rng.normal(size=(4000, n))
        rows = [Row(np.exp(log_p), np.exp(log_p), np.zeros(n), 0.9) for log_p in logs]
        observed = model.observe(outputs(model, (rows[0], 1), noise=noise_of(rows)), "all")
        centred = logs - logs.mean(axis=1, keepdims=True)
        assert observed.variance[0] == pytest.approx(centred.var(axis=0).mean(), rel=0.02 if n == 2 else 0.05)


def test_censored_queries_are_counted():
    model = api(("maybe", "yes"))
    answers = outputs(model, *[(log_row(("maybe", "yes"), top), 1) for top in (6, 6, 6, 2)])
    report = model.report(answers)
    assert report.figures["censored"] == 0.25
    assert any(note.startswith("In 1 of 4 queries a label or a spelling of it is not") for note in report.notes)
    assert any("left to test it" in note for note in model.report(answers[3:]).notes)


def test_a_spelling_that_is_not_listed_censors_no_label_that_is():
    """The main spellings have 0.3 and 0.25; the others have at most as much as the least of the listed tokens, together."""
    keys = Keys({" yes": 0, "yes": 0, "Yes": 0, " no": 1, "no": 1}, 2)
    rows = [from_log_probabilities(generated([" yes"], top), keys) for top in (2, 3, 4, 5)]
    assert [row.low.tolist() for row in rows] == [pytest.approx([0.3, 0.25])] * 4
    assert [row.high.tolist() for row in rows] == [
        pytest.approx(high) for high in ([0.75, 0.50], [0.55, 0.45], [0.40, 0.35], [0.34, 0.29])
    ]
    assert [row.censored for row in rows] == [True, False, False, False], "0.45 more could double the first"
    model = api(("yes", "no"))
    observed = model.observe(outputs(model, *[(row, 1) for row in rows]), 0)
    assert observed.known.tolist() == [False, True, True, True]
    assert observed.scores == pytest.approx([math.log(0.30 / 0.25)] * 4)
    report = model.report(outputs(model, *[(row, 1) for row in rows]))
    assert report.figures["censored"] == 0.25
    assert any("could add at most 83% to a label's probability" in note for note in report.notes)


def test_labels_that_cannot_be_told_apart_are_refused():
    for labels in (["1", "10"], ["good", "Good enough"], {"a": " x", "b": "xy"}):
        with pytest.raises(InputError, match="is the beginning of"):
            Api("m", "{text}", labels, "http://127.0.0.1:1/v1")


def test_arguments_of_another_type_are_an_error_of_one_line():
    for options, message in [
        ({"max_missing": None}, "max_missing must be a share"),
        ({"timeout": "1"}, "timeout must be seconds"),
        ({"api_key_env": 1}, "api_key_env must be the name"),
        ({"mode": "stated"}, "mode must be one of auto, logprobs, sample; got 'stated'"),
    ]:
        with pytest.raises(InputError, match=message):
            api(**options)
