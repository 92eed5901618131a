"""Errors near the text and far from it, at equal total queries: the default method against its peers.

Run: python benchmarks/near_and_far.py [--device cuda] [--texts 24] [--budgets 200 500 1000 1500] [--methods joint ...]
       [--models imdb-bert-2 bundled words phrases FOLDER ...] [--sentences | --least 30 --most 508]

Models: the classifier of `reviews`, the one that ships with slalom, scikit-learn pipelines (TF-IDF of words, or of words and
phrases of two and three, and a logistic regression, trained here on 8000 reviews), and any saved classifier.

near: mean squared error of the change of the score by 1 to 10 removals (1000 rows a text); far: 1 - R2 on 1000 subsets of all
sizes. Cells are means over the texts; in brackets, the method's mean over that of `local` (near) and of `scales` (far): the
formula alone, on subsets of every size. `time` is the time of all texts in one call, relative to that of
`scales` in the same run.
"""

import argparse
from time import perf_counter

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from slalom import Explainer
from slalom.core import Joint
from slalom.evaluate import fidelity
from slalom.methods import SurrogateMethod
from slalom.methods import method as find_method
from slalom.text import Scales

from reviews import add_text_options, chosen_texts, classifier, rows

METHODS = ("joint", "scales", "local", "ridge", "ridge-scales", "lime")
PIPELINES = {"words": 1, "phrases": 3}  # the longest phrases that count
_SCALES = SurrogateMethod("scales", Scales(), Joint())


def pipeline(longest):
    """Return a scikit-learn pipeline of phrases of up to so many words, trained on 8000 reviews."""
    data = rows("imdb_train")
    some = [data[i] for i in np.random.default_rng(0).permutation(len(data))[:8000]]
    words = TfidfVectorizer(ngram_range=(1, longest), min_df=3, sublinear_tf=True)
    return make_pipeline(words, LogisticRegression(C=10.0)).fit([row["text"] for row in some], [row["label"] for row in some])


def named(name, device):
    """Return the arguments of the Explainer for a model: what to explain with its tokenizer, and the device."""
    if name == "imdb-bert-2":
        return classifier(device), None
    if name in PIPELINES:
        return (pipeline(PIPELINES[name]), None), None
    return (None if name == "bundled" else name, None), device


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    add_text_options(parser)
    parser.add_argument("--removal", default="drop", help="drop, mask or blank")
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 500, 1000, 1500])
    parser.add_argument("--models", nargs="+", default=["imdb-bert-2", "bundled"])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    options = parser.parse_args()
    texts = chosen_texts(options)
    for name in options.models:
        model, device = named(name, options.device)
        Explainer(*model, device=device)(texts[:2], queries=300)  # warm up
        print(f"\n{name}\n{'queries':>8} {'method':<14}{'near':>9}{'':>9}{'far':>9}{'':>9}{'time':>7}", flush=True)
        for budget in options.budgets:
            found = {}
            for method in options.methods:
                explainer = Explainer(*model, check=0, device=device, removal=options.removal)  # its cache is empty
                began = perf_counter()
                explained = explainer(texts, method=_SCALES if method == "scales" else find_method(method), queries=budget)
                seconds = perf_counter() - began
                errors = fidelity(explained, explainer, per=100, number=1000)
                found[method] = np.array([(e.near, e.far) for e in errors]), seconds
            for method, (errors, seconds) in found.items():
                near, far = errors.mean(axis=0)
                beside = [found.get(other, (np.full((1, 2), np.nan), np.nan)) for other in ("local", "scales")]
                ratios = near / beside[0][0].mean(axis=0)[0], far / beside[1][0].mean(axis=0)[1], seconds / beside[1][1]
                print(
                    f"{budget:>8} {method:<14}{near:>9.4f}  ({ratios[0]:5.2f}){far:>9.4f}  ({ratios[1]:5.2f}){ratios[2]:>7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
