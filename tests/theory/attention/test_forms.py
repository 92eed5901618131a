"""The closed forms against autograd, enumeration, the lime package and values known beforehand."""

from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import slalom  # noqa: E402
from slalom.core.measures import Beta, Point  # noqa: E402
from slalom.errors import InputError  # noqa: E402
from slalom.theory import attention  # noqa: E402
from tests.cases import cases  # noqa: E402
from tests.theory.attention.made import TEXT, WORDS, long_text, trained, untrained  # noqa: E402

NETWORKS = {
    "random": untrained,
    "sharp": lambda: untrained(spread=30.0),
    "without a final layer": lambda: untrained(final=False),
    "trained": trained,
    "trained without a final layer": lambda: trained(final=False),
}
EIGHT = "the story of good and bad bad film"


def subsets(n):
    return np.array(list(product([False, True], repeat=n)))


def enumerated(f, semivalue):
    """Shapley or Banzhaf values of scores (2^n,) of all subsets, by the definition."""
    n = int(np.log2(len(f)))
    keep = subsets(n)
    sizes, place = keep.sum(axis=1), 2 ** np.arange(n)[::-1]
    found = np.zeros(n)
    for i in range(n):
        without = np.flatnonzero(~keep[:, i])
        rise = f[without + place[i]] - f[without]
        if semivalue == "banzhaf":
            found[i] = rise.mean()
        else:  # 1 / (n binom(n - 1, size))
            found[i] = (rise / [n * len([1 for r in without if sizes[r] == sizes[s]]) for s in without]).sum()
    return found


def regressed(f, n):
    """LIME with every subset once: the number taken away uniform in 1 .. n, its kernel, weighted least squares."""
    keep = subsets(n)
    left = keep.sum(axis=1)
    some = left < n
    count = np.array([(left == m).sum() for m in left])
    root = np.sqrt(np.exp(-((100 * (1 - np.sqrt(left / n))) ** 2) / (2 * 25**2)) / count)[some]
    X = np.column_stack([np.ones(len(keep)), keep])[some]
    return np.linalg.lstsq(root[:, None] * X, root * f[some], rcond=None)[0]


@cases(("network", "output"), zip(NETWORKS, ["log_odds", "log_odds", "logit", "logit", "log_odds"], strict=True))
def test_the_gradient_is_that_of_autograd_at_every_position(network, output):
    model = NETWORKS[network]()
    look, truth = attention.trace(model, TEXT, output=output), attention.Reference(model, TEXT, output=output)
    true = truth.gradient()
    assert true.shape == (40, look.vectors.shape[1])
    assert np.abs(attention.slopes(look) - true).max() <= 1e-10
    assert np.abs(true[0]).max() > 1e-8  # [CLS] has a gradient of its own
    own = true[1 : 1 + len(look.words)]
    assert attention.gradient(look, "mean") == pytest.approx(own.mean(axis=1), abs=1e-12)
    assert attention.gradient(look, "l1") == pytest.approx(np.abs(own).sum(axis=1), abs=1e-12)
    assert attention.gradient(look, "l2") == pytest.approx(np.sqrt((own**2).sum(axis=1)), abs=1e-12)
    inputs = truth.network.vectors(torch.from_numpy(truth.ids[None]))[0, 1 : 1 + len(own)].detach().numpy()
    assert attention.gradient(look, "input") == pytest.approx((own * inputs).sum(axis=1), abs=1e-12)


def test_the_printed_gradient_lacks_the_query_of_cls():
    look = attention.trace(untrained(), TEXT)
    a = look.attention
    off = a * (look.rewards - (a * look.rewards).sum(axis=1, keepdims=True))
    reach = np.einsum("ks,ksd->kd", look.query, look.W_k) / look.W_k.shape[1] ** 0.5
    printed = (off.T @ reach + a.T @ look.pull) / len(a)
    gap = np.abs(printed - attention.Reference(untrained(), TEXT).gradient()).max(axis=1)
    assert gap[0] > 1e-4
    assert gap[1:].max() < 1e-12


@cases("network", NETWORKS)
def test_the_game_is_the_network_with_words_replaced(network):
    model = NETWORKS[network]()
    look, truth = attention.trace(model, EIGHT), attention.Reference(model, EIGHT)
    assert np.abs(look.game()(subsets(8)) - truth(subsets(8))).max() <= 1e-10
    assert look.score == pytest.approx(truth(np.ones((1, 8)))[0], abs=1e-12)
    group = look.groups("word")
    assert group.tolist() == [0, 1, 2, 3, 4, 5, 5, 6]
    assert np.abs(look.game("word")(subsets(7)) - truth(subsets(7)[:, group])).max() <= 1e-10


@cases(("network", "players"), zip(NETWORKS, ["position", "word", "word", "word", "position"], strict=True))
def test_lime_shapley_and_banzhaf_are_those_of_enumeration(network, players):
    model = NETWORKS[network]()
    look = attention.trace(model, EIGHT)
    group = look.groups(players)
    n = int(group.max()) + 1
    f = attention.Reference(model, EIGHT)(subsets(n)[:, group])
    share = 1.0 / np.bincount(group)[group]
    assert np.abs(attention.lime_limit(look, players) - share * regressed(f, n)[1:][group]).max() <= 1e-10
    assert np.abs(attention.shapley(look, players) - share * enumerated(f, "shapley")[group]).max() <= 1e-10
    assert np.abs(attention.banzhaf(look, players) - share * enumerated(f, "banzhaf")[group]).max() <= 1e-10


@cases("n", [1, 2, 3])
def test_very_short_texts_have_a_limit_too(n):
    text = " ".join(WORDS[:n])
    look = attention.trace(trained(), text)
    f = attention.Reference(trained(), text)(subsets(n))
    expected = [f[1] - f[0]] if n == 1 else regressed(f, n)[1:]
    assert np.abs(attention.lime_limit(look) - expected).max() <= 1e-10
    assert np.abs(attention.shapley(look) - enumerated(f, "shapley")).max() <= 1e-10


def test_the_lime_package_converges_to_the_limit_like_one_over_the_root_of_its_samples():
    pytest.importorskip("lime", reason="lime is not installed")
    look = attention.trace(trained(), EIGHT)
    limit, sizes = attention.lime_limit(look), [200, 800, 3200]
    errors = [np.sqrt(np.mean([(attention.lime_package(look, n, seed=s) - limit) ** 2 for s in range(5)])) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    printed = np.sqrt(np.mean((attention.lime_printed(look) - limit) ** 2))
    assert printed > 3 * errors[-1]  # Theorem 5.1 is not where it converges to


def test_independent_words_are_within_one_per_cent_for_long_texts():
    text, words = long_text(200)
    look = attention.trace(untrained(words=words, length=256), text)
    limit = attention.lime_limit(look)

    def error(found):
        return np.linalg.norm(found - limit) / np.linalg.norm(limit)

    assert error(attention.lime_bernoulli(look)) < 0.01
    assert error(attention.lime_printed(look)) > 0.1


def test_a_game_that_adds_up_gives_its_own_effects_back():
    """All weights equal: f is linear, and LIME, Shapley and Banzhaf must find its coefficients. Theorem 5.1 does not."""
    rng = np.random.default_rng(0)
    n, zeros = 30, np.zeros((1, 30))
    game = attention.RatioGame(zeros, rng.normal(size=(1, n)), zeros, rng.normal(size=(1, n)), np.zeros(1), np.ones(1))
    effects = (game.present - game.replaced)[0] / (n + 1)
    from slalom.theory.attention.lime import bernoulli, limit  # noqa: PLC0415

    for found in (limit(game).effects, game.semivalue(Beta(1.0, 1.0)), game.semivalue(Point(0.5)), bernoulli(game).effects):
        assert np.abs(found - effects).max() < 1e-12


def test_weights_hundreds_of_orders_apart_stay_exact():
    rng = np.random.default_rng(1)
    shape = (2, 7)
    game = attention.RatioGame(
        300 * rng.normal(size=shape), rng.normal(size=shape), 300 * rng.normal(size=shape), rng.normal(size=shape),
        -900.0 + rng.normal(size=2), rng.normal(size=2),
    )  # fmt: skip
    f = game(subsets(7))
    assert np.isfinite(f).all()
    assert np.abs(game.semivalue(Beta(1.0, 1.0)) - enumerated(f, "shapley")).max() <= 1e-10
    assert np.abs(game.semivalue(Point(0.5)) - enumerated(f, "banzhaf")).max() <= 1e-10
    from slalom.theory.attention.lime import limit  # noqa: PLC0415

    assert np.abs(limit(game).effects - regressed(f, 7)[1:]).max() <= 1e-10
    assert limit(game).base == pytest.approx(regressed(f, 7)[0], abs=1e-10)


def test_shapley_values_of_a_long_text_add_up_and_agree_with_the_recursion():
    text, words = long_text(255)
    look = attention.trace(untrained(words=words, length=256, spread=5.0), text)
    game, found = look.game(), attention.shapley(look)
    whole, nothing = game(np.stack([np.ones(255), np.zeros(255)]))
    assert found.sum() == pytest.approx(whole - nothing, abs=1e-12)
    sizes = np.arange(256)
    with_, without = 1.0 / np.maximum(sizes, 1) * (sizes > 0), 1.0 / np.maximum(255 - sizes, 1) * (sizes < 255)
    total, there = game.averages_by_size(without)
    assert np.abs(game.averages_by_size(with_)[1] - (total - there) - found).max() < 1e-12


def test_theorem_5_1_is_as_printed():
    look = attention.trace(trained(), EIGHT)
    blank = attention.trace(trained(), " ".join(["zzz"] * 8))
    terms = look.attention * look.rewards - blank.attention * blank.rewards
    assert np.abs(attention.lime_printed(look) - 1.5 * terms.mean(axis=0)[1:9]).max() < 1e-12


def test_attention_is_the_mean_and_the_largest_over_the_heads():
    look = attention.trace(trained(), EIGHT)
    assert look.attention.sum(axis=1) == pytest.approx(1.0)
    assert (attention.attention_weights(look) == look.attention[:, 1:9].mean(axis=0)).all()
    assert (attention.attention_weights(look, "max") == look.attention[:, 1:9].max(axis=0)).all()


def test_an_empty_text_has_no_words():
    look = attention.trace(trained(), " ")
    assert [attention.form(name, look).shape for name in attention.FORMS] == [(0,)] * len(attention.FORMS)
    assert attention.by_word(look, np.zeros(0)) == {}
    assert look.score == pytest.approx(attention.Reference(trained(), "")(np.zeros((1, 0)))[0], abs=1e-12)
    with pytest.raises(InputError, match="at least one token"):
        slalom.Explainer(trained())(" ", method=attention.METHODS["exact-shapley"])
    with pytest.raises(InputError, match="at least one word; got ' '"):
        attention.compare(trained(), " ")


def test_unknown_words_change_nothing():
    look = attention.trace(trained(), "xx yy zz xx")
    for name in ("lime-limit", "lime-bernoulli", "lime-printed", "exact-shapley", "exact-banzhaf"):
        assert np.abs(attention.form(name, look)).max() < 1e-12
        assert np.abs(attention.form(name, look, "word")).max() < 1e-12
    assert attention.gradient(look, "l2").min() > 0  # another word there would
    assert look.groups("word").tolist() == [0, 0, 0, 0]
    mixed = attention.trace(trained(), "good xx bad")
    assert abs(attention.shapley(mixed)[1]) < 1e-12
    assert set(attention.by_word(mixed, attention.shapley(mixed))) == {"good", "[UNK]", "bad"}


def test_a_text_longer_than_the_network_is_cut():
    long, short = " ".join(WORDS * 6), " ".join((WORDS * 4)[:39])
    with pytest.warns(UserWarning, match="21 words do not fit into m and were cut"):
        look = attention.trace(trained(), long)
    whole = attention.trace(trained(), short)
    assert (look.cut, whole.cut, len(look.words)) == (21, 0, 39)
    assert (attention.shapley(look) == attention.shapley(whole)).all()
    with pytest.warns(UserWarning, match="21 tokens do not fit into m"):
        e = slalom.Explainer(trained())(long, method=attention.METHODS["exact-shapley"])
    assert (len(e), e.cut) == (39, 21)


def test_repetitions_are_there_by_position_and_by_word():
    look = attention.trace(trained(), "good film good")
    single = attention.shapley(look)
    assert single[0] != single[2]  # they stand at different places
    assert attention.by_word(look, single)["good"] == pytest.approx(single[0] + single[2])
    together = attention.shapley(look, "word")
    assert together[0] == together[2]
    f = attention.Reference(trained(), "good film good")(subsets(2)[:, [0, 1, 0]])
    assert attention.by_word(look, together)["good"] == pytest.approx(enumerated(f, "shapley")[0], abs=1e-12)


def test_several_classes_have_closed_forms_of_their_logits():
    model = untrained(classes=3)
    with pytest.raises(InputError, match="for two classes only; this network has 3: explain one of their logits"):
        attention.trace(model, EIGHT, target=2)
    look = attention.trace(model, EIGHT, target=2, output="logit")
    f = attention.Reference(model, EIGHT, target=2, output="logit")(subsets(8))
    assert np.abs(attention.shapley(look) - enumerated(f, "shapley")).max() <= 1e-10


def test_choices_are_checked():
    look = attention.trace(trained(), EIGHT)
    for call, said in (
        (lambda: attention.shapley(look, "letter"), "players must be 'position' or 'word'; got 'letter'"),
        (lambda: attention.form("lime", look), "a closed form must be one of attention-mean, .*; got 'lime'"),
        (lambda: attention.ClosedForm("lime"), "a closed form must be one of"),
        (lambda: attention.trace(trained(), EIGHT, output="p"), "output must be 'log_odds' or 'logit'; got 'p'"),
    ):
        with pytest.raises(InputError, match=said):
            call()
    with pytest.raises(InputError, match='read in 3 windows; use long="cut"'):
        slalom.Explainer(trained(), long="window")(" ".join(WORDS * 6), method=attention.METHODS["exact-shapley"])


def test_what_is_no_model_or_no_text_is_said_in_a_line():
    model = untrained()
    for given in (["good"], None, 3):
        with pytest.raises(InputError, match="a text must be a string"):
            attention.trace(model, given)
    for ask in (attention.trace, attention.compare, attention.Reference):
        with pytest.raises(InputError, match=r"attention\.load; got str"):
            ask("folder", TEXT)


def test_three_classes_need_a_target_and_have_no_log_odds():
    model = untrained(classes=3)
    with pytest.raises(InputError, match="choose a target among 0, 1, 2"):
        attention.trace(model, TEXT, output="logit")
    for ask in (attention.trace, attention.Reference, attention.compare):
        with pytest.raises(InputError, match="two classes only; this network has 3"):
            ask(model, TEXT, target=2)
    with pytest.raises(InputError, match="output must be"):
        attention.Reference(model, TEXT, 2, "log odds")


def test_a_network_with_one_output_has_its_gradient_too():
    model = untrained(classes=1)
    look, truth = attention.trace(model, TEXT), attention.Reference(model, TEXT)
    assert np.allclose(attention.slopes(look), truth.gradient(), atol=1e-14)
    assert np.isclose(look.score, truth(np.ones((1, len(look.words))))[0], atol=1e-14)


def test_numbers_heads_and_samples_are_checked():
    look = attention.trace(untrained(), EIGHT)
    with pytest.raises(InputError, match="one for each of the 8 words"):
        attention.by_word(look, np.ones(2))
    with pytest.raises(InputError, match="head must be from 0 to 2; got 3"):
        attention.as_slalom(look, 3)
    with pytest.raises(InputError, match="2 samples; got 8 and 1"):
        attention.lime_package(look, 1)
