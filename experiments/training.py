"""Small classifiers from labelled texts; the classifier that ships with slalom comes from here.

    python -m experiments train reviews.jsonl --out FOLDER [--seed 0] [--recipe small | attention | bundled]

With a teacher the loss is T^2 KL(teacher || student) at temperature T, plus `hard` times the cross-entropy of whole texts;
without one it is the cross-entropy.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from experiments.learnt_tokenizers import learnt_tokenizer, learnt_words, new_tokenizer, save_tokenizer
from slalom.errors import InputError, ModelError
from slalom.evaluate.labelled import Labelled, read_labelled
from slalom.models.huggingface.one_layer import AttentionClassifier, AttentionConfig
from slalom.models.huggingface.saved import load_classifier, positions, quietly
from slalom.theory.blank import labelling, new_classifier

__all__ = ["ATTENTION", "Labelled", "Recipe", "Trained", "encoded", "loaded_classifier", "logits", "read_labelled", "train"]
_SHORTEST = 4  # words of the shortest passage


@dataclass(frozen=True)
class Recipe:
    """The hyper-parameters of a training run.

    arch "attention" is one layer (slalom.theory.attention): `inner` is then the size of a head and `vocabulary` counts words.
    init: saved encoder or classifier to start from. crops: share of texts cut to a random passage, judged by the teacher;
    views: different croppings, used in turn. best: keep the epoch that is best on the held-out share `validation`.
    """

    arch: str = "bert"
    layers: int = 2
    hidden: int = 256
    heads: int = 4
    inner: int | None = None  # default: four times `hidden`
    vocabulary: int = 8000
    dropout: float = 0.1
    final: bool = True
    init: str | None = None
    max_length: int = 512
    teacher: str | None = None
    temperature: float = 2.0
    hard: float = 0.5
    crops: float = 0.5
    views: int = 8
    epochs: int = 5
    batch: int = 32
    learning_rate: float = 5e-4
    warmup: float = 0.06
    constant: bool = False
    clip: float = 1.0
    weight_decay: float = 0.01
    validation: float = 0.05
    best: bool = False
    half: bool = False
    seed: int = 0


# Lopardo, Precioso & Garreau 2024: 20,000 texts for training and 5,000 for choosing the epoch, with all words known.
ATTENTION = Recipe(
    "attention", hidden=128, heads=6, inner=64, vocabulary=200_000, max_length=256, epochs=10, batch=16, learning_rate=1e-4,
    warmup=0.0, constant=True, clip=float("inf"), validation=0.2, best=True,
)  # fmt: skip
TEACHER = Recipe(epochs=3, learning_rate=5e-5)
BUNDLED = Recipe(inner=512, epochs=40, views=20, batch=64, crops=0.9, dropout=0.2, half=True)


class Trained(NamedTuple):
    """A trained classifier: its folder, accuracies on held-out texts by epoch and on test texts, and seconds of training."""

    path: Path
    parameters: int
    validation: tuple[float, ...]
    test: float | None
    test_new: float | None  # on test texts that are not in the training data
    seconds: float


def train(
    data: Labelled,
    out: str | Path,
    recipe: Recipe | None = None,
    *,
    test: Labelled | None = None,
    device: str | None = None,
    progress: bool = True,
) -> Trained:
    """Train a classifier and save it in a folder with its tokenizer; an epoch's random choices depend on the seed alone."""
    recipe, out, began = recipe or Recipe(), Path(out), perf_counter()
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    held = np.zeros(len(data), dtype=bool)
    held[np.random.default_rng(recipe.seed).permutation(len(data))[: round(recipe.validation * len(data))]] = True
    judged, data = data[held], data[~held]
    if len(set(data.labels.tolist())) < len(data.names) or len(data.names) < 2:
        raise InputError(f"training needs texts of two or more classes, each with a text; {data.source} lacks them")
    if test is not None and test.names != data.names:
        raise InputError(f"the test texts must have the labels {', '.join(data.names)}; got {', '.join(test.names)}")
    torch.manual_seed(recipe.seed)
    model, tokenizer = _start(recipe, data)
    model.to(place).train()
    length = min(recipe.max_length, positions(model) or recipe.max_length)
    views = _Views(data, recipe, tokenizer, length, place)
    judged_ids = encoded(tokenizer, judged.texts, length)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * -(-len(data) // recipe.batch)
    slope = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _schedule((step + 1) / steps, recipe))
    accuracies, best = [], {}
    with tqdm(total=steps, unit="step", disable=not progress, desc="training") as bar:
        for epoch in range(recipe.epochs):
            view = views[epoch]
            lengths = np.array([0 if recipe.arch == "attention" else len(ids) for ids in view.ids])  # it pads to one length
            for rows in shuffled(lengths, recipe.batch, np.random.default_rng([recipe.seed, 1, epoch])):
                loss = _loss(model, view, rows, data.labels, recipe, place)
                if not torch.isfinite(loss):
                    raise ModelError(f"training has diverged in epoch {epoch + 1}; lower the learning rate")
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
                optimiser.step()
                slope.step()
                bar.update()
            right = logits(model, judged_ids, exact=recipe.arch == "attention").argmax(axis=1) == judged.labels
            accuracies.append(float(right.mean()) if len(judged) else float("nan"))
            bar.set_postfix_str(f"epoch {epoch + 1}: accuracy {accuracies[-1]:.4f} on held-out texts")
            if recipe.best and accuracies[-1] > max(accuracies[:-1], default=-1.0):
                best = {name: part.detach().clone() for name, part in model.state_dict().items()}
    model.load_state_dict(best or model.state_dict())
    seconds = perf_counter() - began
    _save(model, tokenizer, out, recipe)
    whole = new = None
    if test is not None:
        right = logits(model, encoded(tokenizer, test.texts, length), exact=True).argmax(axis=1) == test.labels
        seen = {*data.texts, *judged.texts}
        whole, new = float(right.mean()), float(right[[text not in seen for text in test.texts]].mean())
    found = Trained(out, sum(p.numel() for p in model.parameters()), tuple(accuracies), whole, new, round(seconds, 1))
    (out / "README.md").write_text(
        f"# A text classifier\n\nTrained on `{data.source}` ({', '.join(data.names)}) with {recipe}.\n\n{found}\n"
    )
    return found


def encoded(tokenizer: Any, texts: Sequence[str], max_length: int) -> list[torch.Tensor]:
    """Return texts as token ids, truncated to a length. A decoder's text may have no token; it gets a padding token."""
    if not len(texts):
        return []
    ids = tokenizer(list(texts), truncation=True, max_length=max_length, return_attention_mask=False)["input_ids"]
    return [torch.tensor(one or [tokenizer.pad_token_id]) for one in ids]


def ask(model: Any, ids: Sequence[torch.Tensor], exact: bool = False) -> torch.Tensor:
    """Return the logits of token ids, padded; bfloat16 on a GPU unless exact."""
    padded = pad_sequence(list(ids), batch_first=True, padding_value=-1).to(model.device)
    present = padded >= 0
    with torch.autocast(model.device.type, torch.bfloat16, enabled=not exact and model.device.type == "cuda"):
        filled = padded.where(present, torch.tensor(getattr(model.config, "pad_token_id", None) or 0, device=model.device))
        answer: torch.Tensor = model(input_ids=filled, attention_mask=present.long()).logits
    return answer.float()


@torch.inference_mode()
def logits(model: Any, ids: Sequence[torch.Tensor], exact: bool = False) -> NDArray[np.float64]:
    """Return the logits of each text (m, n_classes)."""
    was_training = model.training
    model.eval()
    answers = np.empty((len(ids), model.config.num_labels))
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for rows in (order[i : i + 64] for i in range(0, len(order), 64)):
        answers[rows] = ask(model, [ids[i] for i in rows], exact).cpu().numpy()
    model.train(was_training)
    if not np.isfinite(answers).all():
        raise ModelError("the model answers with NaN or infinity; check its weights, or lower the learning rate")
    return answers


def shuffled(lengths: NDArray[np.int64], batch: int, rng: np.random.Generator, pool: int = 50) -> list[NDArray[np.int64]]:
    """Return all rows in random batches of texts of similar length: sorted within pools of so many batches."""
    order = rng.permutation(len(lengths))
    pools = (order[i : i + pool * batch] for i in range(0, len(order), pool * batch))
    ordered = np.concatenate([rows[np.argsort(lengths[rows], kind="stable")] for rows in pools])
    batches = [ordered[i : i + batch] for i in range(0, len(ordered), batch)]
    return [batches[i] for i in rng.permutation(len(batches))]


def loaded_classifier(path: str, names: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Return a saved classifier and its tokenizer; with names, a classifier of these classes, with a new head if needed."""
    if names is None:
        model, tokenizer = load_classifier(path, "cpu")
    else:
        with quietly():
            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
            model = AutoModelForSequenceClassification.from_pretrained(
                path, trust_remote_code=False, dtype=torch.float32, ignore_mismatched_sizes=True, **labelling(names)
            )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


class _View(NamedTuple):
    """Texts of an epoch: token ids, log-probabilities of the teacher, and which are whole."""

    ids: list[torch.Tensor]
    taught: torch.Tensor | None
    whole: NDArray[np.bool_]


class _Views(dict[int, _View]):
    """The texts of each epoch; with a teacher some of them are random passages, which it judges anew."""

    def __init__(self, data: Labelled, recipe: Recipe, tokenizer: Any, length: int, device: torch.device) -> None:
        super().__init__()
        self.data, self.recipe, self.tokenizer, self.length, self.device = data, recipe, tokenizer, length, device
        self.teacher, self.teacher_tokenizer = loaded_classifier(recipe.teacher) if recipe.teacher else (None, None)
        if self.teacher is not None:
            own = [self.teacher.config.id2label[i] for i in range(self.teacher.config.num_labels)]
            if sorted(own) != sorted(data.names):
                raise InputError(f"the teacher must have the same labels ({', '.join(data.names)}); it has {', '.join(own)}")
            self.order = [own.index(name) for name in data.names]
            self.teacher.to(device)

    def __getitem__(self, epoch: int) -> _View:
        number = epoch % self.recipe.views if self.teacher is not None and self.recipe.crops else 0
        if number not in self:
            texts, whole, taught = list(self.data.texts), np.ones(len(self.data), dtype=bool), None
            if self.teacher is not None:
                rng = np.random.default_rng([self.recipe.seed, 2, number])
                for i in np.flatnonzero(rng.random(len(texts)) < self.recipe.crops):
                    texts[i], whole[i] = passage(texts[i], rng)
                limit = min(self.recipe.max_length, positions(self.teacher) or self.recipe.max_length)
                answers = logits(self.teacher, encoded(self.teacher_tokenizer, texts, limit))[:, self.order]
                taught = torch.from_numpy(answers.astype(np.float32)).div(self.recipe.temperature).log_softmax(-1)
            self[number] = _View(encoded(self.tokenizer, texts, self.length), taught, whole)
        return super().__getitem__(number)


def passage(text: str, rng: np.random.Generator) -> tuple[str, bool]:
    """Return a random passage with a log-uniform number of words, and whether it is the whole text."""
    words = text.split()
    if len(words) <= _SHORTEST:
        return text, True
    length = int(np.exp(rng.uniform(np.log(_SHORTEST), np.log(len(words)))))
    start = int(rng.integers(0, len(words) - length + 1))
    return " ".join(words[start : start + length]), False


def _start(recipe: Recipe, data: Labelled) -> tuple[Any, Any]:
    """Return the classifier to train and its tokenizer."""
    if recipe.init is not None:
        return loaded_classifier(recipe.init, data.names)
    if recipe.arch == "attention":
        tokenizer = new_tokenizer(learnt_words(data.texts, recipe.vocabulary), recipe.max_length)
        sizes = {
            "hidden_size": recipe.hidden,
            "num_attention_heads": recipe.heads,
            "head_size": recipe.inner or recipe.hidden // 2,
        }
        config = AttentionConfig(
            len(tokenizer), max_position_embeddings=recipe.max_length, final=recipe.final, **sizes, **labelling(data.names)
        )
        return AttentionClassifier(config), tokenizer
    tokenizer = new_tokenizer(learnt_tokenizer(data.texts, recipe.arch, recipe.vocabulary), recipe.max_length)
    sizes = (recipe.layers, recipe.hidden, recipe.heads, recipe.inner or 4 * recipe.hidden, recipe.dropout)
    return new_classifier(recipe.arch, tokenizer, data.names, *sizes), tokenizer


def _loss(
    model: Any, view: _View, rows: NDArray[np.int64], labels: NDArray[np.int64], recipe: Recipe, device: torch.device
) -> torch.Tensor:
    answer = ask(model, [view.ids[i] for i in rows], exact=recipe.arch == "attention")
    loss = functional.cross_entropy(answer, torch.from_numpy(labels[rows]).to(device), reduction="none")
    if view.taught is not None:
        own = functional.log_softmax(answer / recipe.temperature, -1)
        apart = functional.kl_div(own, view.taught[rows].to(device), reduction="none", log_target=True).sum(-1)
        loss = recipe.temperature**2 * apart + recipe.hard * torch.from_numpy(view.whole[rows]).to(device) * loss
    return loss.mean()


def _schedule(done: float, recipe: Recipe) -> float:
    """Return the factor of the learning rate: linear warm-up, then linear decay or none."""
    if done < recipe.warmup:
        return done / recipe.warmup
    return 1.0 if recipe.constant else max(0.0, (1.0 - done) / (1.0 - recipe.warmup))


def _save(model: Any, tokenizer: Any, out: Path, recipe: Recipe) -> None:
    model.eval()
    with quietly():
        (model.half() if recipe.half else model).save_pretrained(out)
        model.float().config.dtype = torch.float32  # half precision is for the file only: it is slow on a CPU
        model.config.save_pretrained(out)
    save_tokenizer(tokenizer, out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train by the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments train", description="Train a small classifier on labelled texts."
    )
    parser.add_argument("data", help="a .csv, .tsv, .jsonl or .json file (also .gz) with the columns text and label")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the classifier")
    parser.add_argument("--seed", type=int, default=0, help="of every random choice (default 0)")
    parser.add_argument(
        "--recipe",
        choices=("small", "attention", "bundled"),
        default="small",
        help="small: a BERT of 2 layers (default); attention: one layer; bundled: the classifier that"
        " ships with slalom, after its teacher (FOLDER-teacher), which starts from the encoder in SLALOM_ENCODER",
    )
    given = parser.parse_args(arguments)
    data, recipe = read_labelled(given.data), {"small": Recipe(), "attention": ATTENTION, "bundled": BUNDLED}[given.recipe]
    if given.recipe == "bundled":
        from experiments.starts import encoder  # noqa: PLC0415

        if data.names == ("0", "1"):
            data = replace(data, names=("negative", "positive"))
        taught = train(data, f"{given.out}-teacher", replace(TEACHER, init=encoder(), seed=given.seed))
        recipe = replace(recipe, teacher=str(taught.path))
    print(train(data, given.out, replace(recipe, seed=given.seed)))
    return 0
