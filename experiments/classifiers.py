"""The classifiers of the real-data experiments: trained once, saved as parts, shared by all tables.

    IMDB   2 layers of BERT, DistilBERT and GPT-2          Yelp   6 layers, and a BLOOM (8) and a Mamba (4)

In a quick run the BERT is the one that ships with slalom, and the others are tiny.
"""

from typing import Any

import numpy as np
import torch

from experiments.harness import Lab
from experiments.reviews import reviews
from experiments.starts import begin, encoder
from experiments.training import Recipe, encoded, loaded_classifier, logits, train
from slalom import Explainer
from slalom.models import EMBEDDED

ARCHS = ("bert", "distilbert", "gpt2")
TITLES = {"bert": "BERT", "distilbert": "DistilBERT", "gpt2": "GPT-2", "bloom": "BLOOM", "mamba": "Mamba"}
LAYERS = {"imdb": 2, "yelp": 6}
_DEEP = {"bloom": 8, "mamba": 4}
_EPOCHS = {"bert": 3, "distilbert": 3, "gpt2": 4, "bloom": 3, "mamba": 2}
_GROUP = "classifiers"


def classifiers(lab: Lab, wanted: list[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what is known of the classifiers for (data, architecture), trained where they are not there yet."""
    keys = {_key(lab, data, arch): {"data": data, "arch": arch} for data, arch in wanted}
    found = lab.parts(trained, keys, _GROUP, "model")
    return {(data, arch): found[_key(lab, data, arch)] for data, arch in wanted}


def trained(lab: Lab, data: str, arch: str) -> dict[str, Any]:
    """Train and save one classifier; return its accuracy, sizes and seconds."""
    exactly_enough(lab)
    if lab.quick and arch == "bert":
        return _embedded(lab, data)
    of, out = reviews(lab, data), lab.place(_key(lab, data, arch), _GROUP)
    layers = lab.of(_DEEP.get(arch) or LAYERS[data], 1)
    length = lab.number("length", 128 if arch == "mamba" else 256, 96)
    small = lab.of({}, {"hidden": 32, "heads": 2, "vocabulary": 300})
    begun = out.with_name(out.name + "-begin")
    given = None if lab.quick else encoder()
    start = begin(begun, arch, layers, of.train.texts, of.train.names, max_length=length, given=given, seed=lab.seed, **small)
    pretrained = given is not None and arch in ("bert", "distilbert")
    recipe = Recipe(
        init=start,
        max_length=length,
        epochs=lab.number("epochs", _EPOCHS[arch] if given or arch == "mamba" else 5, 2 if arch in ("bloom", "mamba") else 4),
        batch=lab.of(64, 32),
        learning_rate=lab.of(1e-4 if pretrained else 3e-4, 3e-3),
        validation=0.02,
        seed=lab.seed,
    )
    made = train(of.train, out, recipe, test=of.test, device=lab.device, progress=False)
    return {
        "accuracy": made.test,
        "layers": layers,
        "parameters": made.parameters,
        "texts": len(of.train),
        "tested": len(of.test),
        "epochs": recipe.epochs,
        "seconds": made.seconds,
        "encoder": given is not None,
    }


def explainer(lab: Lab, data: str, arch: str) -> Explainer:
    """Return the explainer of a classifier that is trained."""
    exactly_enough(lab)
    path = None if lab.quick and arch == "bert" else str(lab.place(_key(lab, data, arch), _GROUP))
    return Explainer(path, device=lab.device, seed=lab.seed, check=0, progress=False)


def about(found: dict[tuple[str, str], dict[str, Any]], lab: Lab) -> tuple[str, ...]:
    """Return what differs from the paper's classifiers, in words."""
    if lab.quick:
        return ("A quick run: the BERT is the classifier that ships with slalom, the others are tiny; few texts and samples.",)
    start = "from the first layers (GPT-2, BLOOM, Mamba: the token embeddings) of a MiniLM encoder"
    begun = start if all(one["encoder"] for one in found.values()) else "from random weights"
    right = ", ".join(f"{TITLES[arch]} on {data} {one['accuracy']:.2f}" for (data, arch), one in found.items())
    return (f"Classifiers of width 384 instead of 768, trained {begun}; right on test texts: {right}.",)


def exactly_enough(lab: Lab) -> None:
    """Let a GPU multiply in TF32: ten times as fast as float32, and its error is far below what is measured here."""
    if lab.device.startswith("cuda"):
        torch.set_float32_matmul_precision("high")


def _key(lab: Lab, data: str, arch: str) -> str:
    return f"own-{arch}" if lab.quick else f"{data}-{arch}-{lab.number('train', 20_000, 0)}"


def _embedded(lab: Lab, data: str) -> dict[str, Any]:
    """Judge the classifier that ships with slalom."""
    test = reviews(lab, data).test
    model, tokenizer = loaded_classifier(str(EMBEDDED))
    said = logits(model, encoded(tokenizer, test.texts, 512), exact=True)
    right = float(np.mean(said.argmax(axis=1) == test.labels))
    size = sum(parameter.numel() for parameter in model.parameters())
    layers = model.config.num_hidden_layers
    return {"accuracy": right, "layers": layers, "parameters": size, "tested": len(test)}
