"""How well and how fast texts are explained: ours beside the reference package, on 24 IMDB reviews and imdb-bert-2.

Run: python benchmarks/explain.py quality [--device cuda]     errors at every budget, ranks, seconds beside the reference
                                                              (Ctrl-C prints what there is)
     python benchmarks/explain.py speed   [--device cuda]     seconds against the reference and the bare forward pass
     python benchmarks/explain.py batch   [--device cuda]     many texts in one call against one by one
     python benchmarks/explain.py memory                      what 1500 queries of a long text add to the process

near: mean squared error of the predicted change of the log odds for 1..10 removed tokens, 100 removals each.
far: 1 - R2 on 1000 random subsets of all sizes. Both on queries of their own, the same for every method.
Ranks are those of the values and of Naive Bayes scores (alpha 40, from the training reviews).
The reference is slalom-explanations 0.1.2 in the same process (extra `benchmark`); its inner routine is called for fidel.
"""

import argparse
import contextlib
import io
import resource
import statistics
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

import slalom
from slalom.core import Slalom
from slalom.models import Queries
from slalom.text.samplers import removed

from reviews import classifier, reviews, rows


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def timed(device, run, *given):
    wait(device)
    start = time.perf_counter()
    result = run(*given)
    wait(device)
    return time.perf_counter() - start, result


class Ridge:
    """Ridge regression of the change of the score on the units removed, strength by generalised cross-validation."""

    def __init__(self, keep, scores):
        gone, self.full = 1.0 - keep, scores[0]  # row 0 is the whole text
        change = scores - self.full
        left, size, right = np.linalg.svd(gone, full_matrices=False)
        target = left.T @ change
        best = np.inf
        for strength in np.logspace(-4, 4, 60) * (size**2).mean():
            shrunk = size**2 / (size**2 + strength)
            rest = change @ change - target @ target + (((1 - shrunk) * target) ** 2).sum()
            score = rest / (len(change) - shrunk.sum()) ** 2
            if score < best:
                best, self.effects = score, right.T @ (size / (size**2 + strength) * target)

    def __call__(self, keep):
        return self.full + (1.0 - keep) @ self.effects


class Judge:
    """Held-out queries of one review."""

    def __init__(self, explainer, text, seed):
        self.reading = explainer.model.read(text, "cut", None)
        n, rng = len(self.reading.names), np.random.default_rng(seed)
        self.near = np.concatenate([removed(n, np.full(100, k), rng) for k in range(1, min(10, n - 1) + 1)])
        self.far = removed(n, rng.integers(1, n, 1000), rng)
        self.full = np.ones((1, n), dtype=bool)
        answers = explainer.engine([Queries(self.reading, np.concatenate([self.full, self.near, self.far]))])[0].outputs
        scores = answers[:, 1] - answers[:, 0]
        self.change, self.scores = scores[1 : 1 + len(self.near)] - scores[0], scores[1 + len(self.near) :]

    def __call__(self, predict):
        near = predict(self.near.astype(float)) - predict(self.full.astype(float))
        far = predict(self.far.astype(float))
        return float(((near - self.change) ** 2).mean()), float(((far - self.scores) ** 2).mean() / self.scores.var())


def reference(model, tokenizer, text, method, samples, device, epochs=60):
    """Return the values and importances of the reference package, one a token."""
    from slalom_explanations import slalom_helpers  # noqa: PLC0415
    from slalom_explanations.slalom_explainer import SLALOMLocalExplanantions  # noqa: PLC0415

    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if method == "eff":
            made = SLALOMLocalExplanantions(
                model, tokenizer, n_samples=samples, device=device, modes=["value", "imp"], sgd_epochs=epochs
            )
            values, importances = made.get_signed_importance_for_tokens(ids)
            return np.asarray(values, dtype=float), np.asarray(importances, dtype=float)
        kinds, own = torch.tensor(ids).unique(return_inverse=True)
        with torch.no_grad():
            logits = model(torch.tensor([[101, *ids, 102]], device=device))["logits"].cpu()
        start = slalom_helpers.MyLittleSLALOM(kinds, device, v_init=logits[:, 1] - logits[:, 0]).to(device)
        values, importances, _ = slalom_helpers.fit_iter_rand(
            start, model, kinds, torch.tensor(ids), offline_ds_size=samples, mode="deletion"
        )
    return values.detach().cpu().numpy().astype(float)[own], importances.detach().cpu().numpy().astype(float)[own]


def naive_bayes(tokenizer, alpha=40.0):
    """Return the log ratio of every token id from the labelled training reviews."""
    counts = [Counter(), Counter()]
    texts = rows("imdb_train")
    for start in range(0, len(texts), 1000):
        some = texts[start : start + 1000]
        ids = tokenizer([row["text"] for row in some], add_special_tokens=False, verbose=False)["input_ids"]
        for row, own in zip(some, ids, strict=True):
            counts[row["label"]].update(own)
    totals = [sum(c.values()) + alpha * len(tokenizer) for c in counts]
    return lambda i: np.log((counts[1][i] + alpha) / totals[1]) - np.log((counts[0][i] + alpha) / totals[0])


def quality(options):
    device = options.device
    model, tokenizer = classifier(device)
    texts = reviews(tokenizer, options.texts)
    explainer = slalom.Explainer(model, tokenizer, check=0, progress=False)
    bayes = naive_bayes(tokenizer)
    errors, ranks, seconds = {}, {}, {}

    def judged(name, budget, predict):
        errors.setdefault((name, budget), []).append(judge(predict))

    slalom.Explainer(model, tokenizer)(texts[0], queries=100)  # the first pass is slow
    done = 0
    try:
        for number, text in enumerate(texts):
            judge = Judge(explainer, text, [number, 7])
            truth = [bayes(i) for i in judge.reading.types]
            if device == "cuda":
                half = slalom.Explainer(model, tokenizer, check=0, precision="bfloat16", progress=False)
                judged("joint, bfloat16", 1000, half(text, queries=1000).predict)
            budgets = options.budgets or (200, 500, 1000, 1500)
            for method in ("joint", "local"):
                for budget in budgets:
                    judged(method, budget, explainer(text, method=method, queries=budget).predict)
                    if method == "local":
                        sampler, n = slalom.list_methods()["local"].sampler, len(truth)
                        drawn = sampler.draw(np.arange(n), budget, np.random.default_rng(0), True).keep
                        answers = explainer.engine([Queries(judge.reading, drawn)])[0].outputs
                        judged("ridge on the same", budget, Ridge(drawn.astype(float), answers[:, 1] - answers[:, 0]))
            for method in ("fidel", "eff"):
                fresh = slalom.Explainer(model, tokenizer, method=method, queries=options.queries, progress=False)
                ours, explained = timed(device, fresh, text)
                judged(method, options.queries, explained.predict)
                ranks.setdefault(method, []).append(spearmanr(explained.values, truth).statistic)
                if options.reference:
                    torch.manual_seed(number)
                    theirs, found = timed(device, reference, model, tokenizer, text, method, options.queries, device)
                    judged(f"reference {method}", options.queries, Slalom(*found))
                    ranks.setdefault(f"reference {method}", []).append(spearmanr(found[0], truth).statistic)
                    seconds.setdefault(method, []).append((ours, theirs))
            print(f"\r{number + 1} of {len(texts)} reviews", end="", flush=True)
            done = number + 1
    except KeyboardInterrupt:
        print(f"\ninterrupted: these are the first {done} reviews", end="")
    for table in (errors, ranks, seconds):  # whole reviews only
        for key in table:
            table[key] = table[key][:done]
    if done:
        tables(options, errors, ranks, seconds)


def tables(options, errors, ranks, seconds):
    print(f"\n{'method':<24}{'queries':>8}{'near':>9}{'se':>8}{'far':>10}")
    for (method, budget), found in errors.items():
        near, far = np.array(found).T
        print(f"{method:<24}{budget:>8}{near.mean():>9.4f}{_error(near):>8.4f}{far.mean():>10.3f}")
    if options.reference:
        peer = np.mean([near for near, _ in errors["reference fidel", options.queries]])
        for key in (("local", 1500), ("local", 500), ("joint", 1000)):
            if key in errors:
                ratio = np.mean([near for near, _ in errors[key]]) / peer
                print(f"{key[0]} at {key[1]}: near {ratio:.3f} x the reference's fidel at {options.queries}")
    print("\nrank correlation of the values with Naive Bayes")
    for name, values in ranks.items():
        print(f"{name:<24}{np.mean(values):>9.4f}{_error(values):>8.4f}")
    for method, found in seconds.items():
        ours, theirs = np.array(found).T
        ratio, each = theirs.sum() / ours.sum(), statistics.median(theirs / ours)
        print(f"{method}: {ours.sum():.2f} s, reference {theirs.sum():.2f} s, {ratio:.1f} x faster (median {each:.1f})")


def _error(values):
    return np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan


def bare(explainer, text, device):
    """Return seconds of the forward pass alone: the same distinct inputs, in the same batches, already on the device."""
    adapter, given = explainer.model, []
    submit = adapter.submit

    def noted(inputs):
        given.append(inputs.copy())
        return submit(inputs)

    adapter.submit = noted
    explainer(text)
    blocks = [torch.from_numpy(block[:, 0].astype(np.int64)).to(device) for block in given]

    def forward():
        with adapter.session():
            for block in blocks:
                answer = adapter.model(block).logits
            return answer.cpu()

    forward()
    return min(timed(device, forward)[0] for _ in range(3)), sum(block.numel() for block in blocks)


def speed(options):
    device = options.device
    model, tokenizer = classifier(device)

    def fresh(method):
        return slalom.Explainer(
            model, tokenizer, method=method, queries=options.queries, precision=options.precision, progress=False
        )

    names = ("ours s", "reference", "faster", "bare s", "/ bare")
    print(
        f"{'tokens':>7} {'method':<7}" + "".join(f"{name:>{w}}" for name, w in zip(names, (9, 11, 8, 9, 8), strict=True)),
        end="",
    )
    print(f"{'fit':>6}{'tokens/s':>11}")
    totals = {}
    for number, text in enumerate(reviews(tokenizer, options.texts)):
        for method in options.methods:
            if number == 0:
                fresh(method)(text)
            runs = []
            for _ in range(options.repeats):
                explainer = fresh(method)
                seconds, explained = timed(device, explainer, text)
                runs.append((seconds, explainer.engine.cost.seconds))
            ours, asking = min(runs)
            naked, tokens = bare(fresh(method), text, device)
            peer = float("nan")
            if options.reference and method in ("eff", "fidel"):
                peer, _ = timed(device, reference, model, tokenizer, text, method, options.queries, device)
            totals.setdefault(method, []).append((ours, peer, naked))
            print(
                f"{len(explained):>7} {method:<7}{ours:>9.3f}{peer:>11.3f}{peer / ours:>8.1f}{naked:>9.3f}{ours / naked:>8.2f}"
                f"{1 - asking / ours:>6.2f}{tokens / ours:>11.0f}",
                flush=True,
            )
    print("\nsums over all reviews; in brackets the median of the single ratios")
    for method, found in totals.items():
        ours, peer, naked = np.array(found).sum(axis=0)
        faster, over = (statistics.median(x) for x in ([p / a for a, p, _ in found], [a / n for a, _, n in found]))
        print(
            f"{method:<7}{peer / ours:.1f} ({faster:.1f}) x faster than the reference, {ours / naked:.2f} ({over:.2f}) x bare"
        )


def batch(options):
    model, tokenizer = classifier(options.device)
    texts = reviews(tokenizer, 100, 180, 220, seed=1)

    def make():
        return slalom.Explainer(model, tokenizer, queries=200, progress=False)

    make()(texts[:2])
    one = make()
    alone, _ = timed(options.device, lambda: [one(text) for text in texts])
    together, _ = timed(options.device, make(), texts)
    print(f"{len(texts)} texts: one by one {alone:.2f} s, in one call {together:.2f} s, {alone / together:.2f} x faster")


def memory(options):
    model, tokenizer = classifier("cpu")
    text = next(t for t in reviews(tokenizer, 60) if len(tokenizer(t)["input_ids"]) > 440)
    explainer = slalom.Explainer(model, tokenizer)
    explainer(text, queries=50)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**10
    explained = explainer(text, queries=1500, method="local")
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(f"{explained.queries} queries of a text of {len(explained)} tokens add at most {more:.2f} GiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "speed", "batch", "memory"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--budgets", type=int, nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=["eff", "fidel"])
    parser.add_argument("--precision", default=None, choices=[None, "bfloat16"])
    parser.add_argument("--no-reference", dest="reference", action="store_false")
    options = parser.parse_args()
    {"quality": quality, "speed": speed, "batch": batch, "memory": memory}[options.what](options)


if __name__ == "__main__":
    main()
