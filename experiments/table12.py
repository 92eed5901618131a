"""Table 12: a network on TF-IDF, which is no transformer: insertion and deletion of SHAP, LIME and SLALOM-eff."""

import warnings
from typing import Any

import joblib
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from experiments.harness import Cell, Claim, Lab, Result, Table, lots, mean
from experiments.real import CALLED, SHAP, explanations
from experiments.reviews import reviews
from slalom import Explainer
from slalom.errors import MissingExtra
from slalom.evaluate import perturbation

PAPER = {"kernel-shap": (0.0120, 0.8022), "lime": (0.0053, 0.9481), "eff": (0.0039, 0.9601)}
_ROWS = {**dict.fromkeys((*SHAP, "lime"), "removal"), "eff": "linear", "joint": "removal", "random": "removal"}
_LOT = 5


def run(lab: Lab) -> Result:
    """Fit the network, explain words, delete and insert them."""
    network = lab.part("network", lambda: fitted(lab))
    samples, number = lab.number("samples", 5000, 150), len(reviews(lab, "imdb").explained)
    plan = {f"{samples}-{lot}": {"first": first, "samples": samples} for lot, first in lots(number, _LOT).items()}
    parts = list(lab.parts(measured, plan, what="lot").values())
    rows: list[tuple[Cell, ...]] = []
    found: dict[str, tuple[float, float]] = {}
    for name in _ROWS:
        pairs = [pair for part in parts for pair in part.get(name, [])]
        if pairs:
            both = [mean(one) for one in zip(*pairs, strict=True)]
            found[name] = both[0][0], both[1][0]
            inserted, deleted = PAPER.get(name, (None, None))
            rows.append((CALLED[name], both[0], inserted, both[1], deleted))
    columns = ("method", "insertion (lower)", "paper", "deletion (higher)", "paper")
    peers = [name for name in lab.of(("lime", *SHAP), ("random",)) if name in found]
    listed = ", ".join(f"{CALLED[name]} {i:.4f} / {d:.4f}" for name, (i, d) in found.items())
    others = " and ".join(lab.of(("LIME", "SHAP"), ("chance",)))
    claims = (
        Claim(
            f"Linear SLALOM-eff inserts better than {others}.",
            bool(peers) and all(found["eff"][0] <= found[name][0] for name in peers),
            listed,
            "All keep more than the whole text has, and differ by about a hundredth; it is no order.",
        ),
        Claim(
            f"Linear SLALOM-eff deletes better than {others}.",
            bool(peers) and all(found["eff"][1] >= found[name][1] for name in peers),
            listed,
        ),
    )
    absent = [CALLED[name] for name in _ROWS if name not in found]
    remarks = [f"{number} texts, {samples} samples, words as units; accuracy of the network {network['accuracy']:.2f}."]
    remarks += [f"Left out, not installed: {', '.join(absent)}."] if absent else []
    return Result((Table("AOPC for a TF-IDF network", columns, tuple(rows)),), claims, tuple(remarks))


def fitted(lab: Lab) -> dict[str, Any]:
    """Fit the network (two hidden layers and an output) and save it."""
    of = reviews(lab, "imdb")
    network = make_pipeline(
        TfidfVectorizer(max_features=5000, sublinear_tf=True),
        MLPClassifier(lab.of((128, 64), (16, 16)), early_stopping=not lab.quick, n_iter_no_change=3, random_state=lab.seed),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it has not converged; the accuracy is what counts
        network.fit(of.train.texts, of.train.labels)
    joblib.dump(network, lab.place("network").with_suffix(".joblib"))
    return {"accuracy": float(network.score(of.test.texts, of.test.labels))}


def measured(lab: Lab, first: int, samples: int) -> dict[str, list[tuple[float, float]]]:
    """Return insertion and deletion of some texts by method; a method whose package is missing is left out."""
    network = joblib.load(lab.place("network").with_suffix(".joblib"))
    ask = Explainer(network, unit="word", seed=lab.seed, check=0, progress=False)
    lot = list(reviews(lab, "imdb").explained[first : first + _LOT])
    found: dict[str, list[tuple[float, float]]] = {}
    for name, score in _ROWS.items():
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*they are clipped", UserWarning)  # of the queries of the curves
                curves = perturbation(explanations(ask, lot, name, samples), ask, score=score, step=lab.of(5, 2))
        except MissingExtra:
            continue
        found[name] = [(one.insertion, one.deletion) for one in curves if one is not None]
    return found


def draw(result: Result, figure: Any) -> None:
    """Draw both measures as bars."""
    for ax, i in zip(figure.subplots(1, 2), (1, 3), strict=True):
        rows = result.tables[0].rows
        for place, row in enumerate(rows):
            ax.barh(place, row[i][0], xerr=row[i][1], color="C0", height=0.7)
            if row[i + 1] is not None:
                ax.plot([row[i + 1]] * 2, [place - 0.45, place + 0.45], color="black", linewidth=2)
        ax.set_yticks(range(len(rows)), [str(row[0]) for row in rows])
        ax.invert_yaxis()
        ax.set_xlabel(f"{result.tables[0].columns[i]} (stroke: paper)")
        ax.spines[["top", "right"]].set_visible(False)
