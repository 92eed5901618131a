"""Training a classifier. A run can be interrupted at any step and resumed with the same result.

Random choices depend on the seed and the epoch, or on torch's generator, whose state is in the checkpoint. Ctrl-C finishes the
current step, writes the checkpoint and raises Stopped; the same call resumes.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from tqdm.auto import tqdm

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.models.huggingface.saved import positions, quietly
from slalom.networks.one_layer import AttentionClassifier
from slalom.training.batches import Encoded, autocast, encoded, logits, shuffled
from slalom.training.card import card
from slalom.training.data import Labelled
from slalom.training.networks import learnt_tokenizer, loaded_classifier, new_classifier, new_tokenizer, save_tokenizer
from slalom.training.recipe import Recipe
from slalom.training.teacher import Teacher, passage
from slalom.training.trained import Trained

_CHECKPOINT = "checkpoint.pt"


class Stopped(SlalomError, KeyboardInterrupt):
    """Training was interrupted; the checkpoint is written, and the same call resumes."""


@dataclass
class _State:
    """Progress of a run."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    validation: list[float] = field(default_factory=list)


def train(
    data: Labelled,
    out: str | Path,
    recipe: Recipe | None = None,
    *,
    test: Labelled | None = None,
    device: str | None = None,
    fresh: bool = False,
    progress: bool = True,
    command: str = "",
) -> Trained:
    """Train a classifier and save it in a folder, with its tokenizer and a model card. An interrupted run is resumed.

    Args:
        data: The training texts.
        out: Folder for the model.
        recipe: Hyper-parameters. Default: ``Recipe()``.
        test: Texts to test the trained model on.
        device: Device, such as "cpu" or "cuda:1". Default: a GPU if there is one.
        fresh: Start over, and replace what is in the folder.
        progress: Whether to show a progress bar.
        command: Command line to quote in the model card.

    Returns:
        The folder, the accuracies and the training time.

    Raises:
        InputError: If the data has one class only, or the folder holds something else.
        ModelError: If the training diverges.
        Stopped: If it is interrupted by Ctrl-C; the same call resumes.
    """
    recipe, out = recipe or Recipe(), Path(out)
    chosen_device = _device(device)
    if len(data.names) < 2:
        raise InputError(f"training needs texts of at least two classes; {data.source} has only {data.names[0]!r}")
    test = None if test is None else test.named(data.names)
    _check_folder(out, fresh)
    run = _Run(data, out, recipe, chosen_device, fresh, progress)
    _check_writing(out)
    with _stoppable() as stopping:
        run.go(stopping)
    return run.finish(test, command)


@final
class _Run:
    """One training run: the network, its optimiser, the texts as token ids, and the progress."""

    def __init__(self, data: Labelled, out: Path, recipe: Recipe, device: torch.device, fresh: bool, progress: bool) -> None:
        self.recipe, self.out, self.device, self.progress, self.data = recipe, out, device, progress, data
        self.without_fresh = ", without --fresh" if fresh else ""
        self.key: dict[str, Any] = {"recipe": recipe.to_dict(), "data": data.fingerprint()}
        rng = np.random.default_rng(recipe.seed)
        held = rng.permutation(len(data))[: round(recipe.validation * len(data))]
        mask = np.zeros(len(data), dtype=bool)
        mask[held] = True
        self.texts, self.held = data[~mask], data[mask]
        missing = [name for i, name in enumerate(data.names) if not (self.texts.labels == i).any()]
        if missing:
            raise InputError(
                f"every class needs a text to learn from, and {missing[0]!r} has none outside of the held-out texts;"
                " give more data, a smaller validation share or another seed"
            )
        saved = None if fresh else self._saved()
        self.learnt = ""
        torch.manual_seed(recipe.seed)
        if recipe.init is not None:
            self.model, self.tokenizer = loaded_classifier(recipe.init, data.names)
        else:
            # Learning it again may break ties differently, so a resumed run keeps its tokenizer.
            self.learnt = saved["tokenizer"] if saved else learnt_tokenizer(self.texts.texts, recipe.arch, recipe.vocabulary)
            self.tokenizer = new_tokenizer(self.learnt, recipe.max_length)
            self.model = new_classifier(
                recipe.arch, self.tokenizer, data.names, recipe.layers, recipe.hidden, recipe.heads, recipe.inner,
                recipe.dropout, recipe.final,
            )  # fmt: skip
        # One layer of attention pads every text to one length, so its batches need not have texts of similar length.
        self.one_length = isinstance(self.model, AttentionClassifier)
        self.model.to(device).train()
        self.max_length = min(recipe.max_length, positions(self.model) or recipe.max_length)
        self.teacher = None if recipe.teacher is None else Teacher(recipe.teacher, data.names, recipe.max_length, device)
        self.views: dict[int, tuple[Encoded, Floats | None, NDArray[np.bool_]]] = {}
        self.held_ids = encoded(self.tokenizer, self.held.texts, self.max_length)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        others = [p for p in self.model.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.peak, fused=device.type == "cuda")
        self.steps = recipe.epochs * -(-len(self.texts) // recipe.batch)
        self.state = _State()
        self.best: dict[str, torch.Tensor] | None = None  # weights of the best epoch, with recipe.best
        if saved is not None:
            self._restore(saved)

    def go(self, stopping: Callable[[], bool]) -> None:
        """Train all epochs."""
        state = self.state
        with tqdm(total=self.steps, initial=self._done(), unit="step", disable=not self.progress, desc="training") as bar:
            while state.epoch < self.recipe.epochs:
                began = perf_counter()
                texts, taught, whole = self._view(state.epoch)
                rng = np.random.default_rng([self.recipe.seed, 1, state.epoch])
                alike = np.zeros_like(texts.lengths) if self.one_length else texts.lengths
                batches = shuffled(alike, self.recipe.batch, rng)
                losses: list[torch.Tensor] = []
                for rows in batches[state.step :]:
                    losses.append(self._step(texts, taught, whole, rows))
                    state.step += 1
                    bar.update()
                    if stopping():
                        state.seconds += perf_counter() - began
                        self._check_loss(losses)
                        self._save()
                        raise Stopped(
                            f"stopped in epoch {state.epoch + 1} of {self.recipe.epochs}, at step {self._done()} of"
                            f" {self.steps}; run the same command to continue{self.without_fresh}"
                        )
                loss = self._check_loss(losses)
                held = logits(self.model, self.held_ids, self.device, exact=self.one_length)
                state.validation.append(_accuracy(held, self.held.labels))
                if self.recipe.best and state.validation[-1] > max(state.validation[:-1], default=-1.0):
                    self.best = {name: part.detach().cpu().clone() for name, part in self.model.state_dict().items()}
                state.epoch, state.step = state.epoch + 1, 0
                state.seconds += perf_counter() - began
                shown = "" if not len(self.held) else f", accuracy {state.validation[-1]:.4f} on held-out texts"
                bar.set_postfix_str(f"epoch {state.epoch}: loss {loss:.3f}{shown}")
                self._save()

    def _check_loss(self, losses: list[torch.Tensor]) -> float:
        """Return the mean loss of steps (NaN for none); raise ModelError before anything is saved where it is not finite."""
        if not losses:
            return float("nan")
        mean = float(torch.stack(losses).mean())
        if not np.isfinite(mean):
            raise ModelError(
                f"the loss is {mean} by step {self._done()} of {self.steps}: training has diverged;"
                f" try a learning rate below {self.recipe.peak:g}"
            )
        return mean

    def _done(self) -> int:
        return self.state.epoch * (self.steps // self.recipe.epochs) + self.state.step

    def _step(self, texts: Encoded, taught: Floats | None, whole: NDArray[np.bool_], rows: NDArray[np.int64]) -> torch.Tensor:
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.peak * _schedule(
                (self._done() + 1) / self.steps, self.recipe.warmup, self.recipe.constant
            )
        with autocast(self.device, not self.one_length):
            answer = self.model(**texts.inputs(rows, self.device)).logits.float()
        labels = torch.from_numpy(self.texts.labels[rows]).to(self.device)
        loss = functional.cross_entropy(answer, labels, reduction="none")
        if taught is not None:
            temperature = self.recipe.temperature
            aim = torch.from_numpy(taught[rows].astype(np.float32)).to(self.device)
            divergence = functional.kl_div(
                functional.log_softmax(answer / temperature, -1),
                functional.log_softmax(aim / temperature, -1),
                reduction="none",
                log_target=True,
            )
            labelled = torch.from_numpy(whole[rows].astype(np.float32)).to(self.device)
            loss = temperature**2 * divergence.sum(-1) + self.recipe.hard * labelled * loss
        mean = loss.mean()
        self.optimiser.zero_grad(set_to_none=True)
        mean.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        return mean.detach()

    def _view(self, epoch: int) -> tuple[Encoded, Floats | None, NDArray[np.bool_]]:
        """Return the texts of an epoch: token ids, logits of the teacher, and which are not cropped."""
        crops = self.recipe.crops if self.teacher is not None else 0.0
        number = epoch % self.recipe.views if crops else 0
        if number not in self.views:
            texts, whole = list(self.texts.texts), np.ones(len(self.texts), dtype=bool)
            rng = np.random.default_rng([self.recipe.seed, 2, number])
            for i in np.flatnonzero(rng.random(len(texts)) < crops):
                texts[i], whole[i] = passage(texts[i], rng)
            taught = None if self.teacher is None else self.teacher(texts)
            self.views[number] = encoded(self.tokenizer, texts, self.max_length), taught, whole
        return self.views[number]

    def _save(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        content = {
            "key": self.key,
            "state": self.state.__dict__,
            "tokenizer": self.learnt,
            "model": self.model.state_dict(),
            "best": self.best,
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }
        torch.save(content, self.out / f"{_CHECKPOINT}.new")
        os.replace(self.out / f"{_CHECKPOINT}.new", self.out / _CHECKPOINT)

    def _saved(self) -> dict[str, Any] | None:
        path = self.out / _CHECKPOINT
        if not path.exists():
            return None
        try:
            saved: Any = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds for a broken file
            raise InputError(f"{str(path)!r} is not a checkpoint that can be read; begin anew with --fresh") from error
        if not isinstance(saved, dict) or not {"key", "state", "tokenizer", "model", "optimiser", "random"} <= saved.keys():
            raise InputError(f"{str(path)!r} is not a checkpoint of slalom; choose another folder, or begin anew with --fresh")
        if saved["key"] != self.key:
            mine, theirs = self.key["recipe"], saved["key"]["recipe"]
            other = [name for name in mine if mine[name] != theirs.get(name)] or ["the data"]
            raise InputError(
                f"{str(path)!r} is of another run ({', '.join(other)} differ); give the same options to continue, another"
                " folder, or begin anew with --fresh"
            )
        return saved

    def _restore(self, saved: dict[str, Any]) -> None:
        self.state = _State(**saved["state"])
        self.model.load_state_dict(saved["model"])
        self.best = saved.get("best")
        self.optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["random"])
        if self.device.type == "cuda" and saved["random_cuda"] is not None:
            torch.cuda.set_rng_state(saved["random_cuda"], self.device)

    def finish(self, test: Labelled | None, command: str) -> Trained:
        """Save the model, test it as saved, and write its card."""
        if self.best is not None:
            self.model.load_state_dict(self.best)
        self.model.eval()
        if self.recipe.half:
            self.model.half()
        self.out.mkdir(parents=True, exist_ok=True)
        with quietly():
            self.model.save_pretrained(self.out)
            self.model.float().config.dtype = torch.float32  # half precision is for the file only: it is slow on a CPU
            self.model.config.save_pretrained(self.out)
        save_tokenizer(self.tokenizer, self.out)
        accuracy = accuracy_new = None
        repeated = 0
        if test is not None:
            test_ids = encoded(self.tokenizer, test.texts, self.max_length)
            correct = _correct(logits(self.model, test_ids, self.device, exact=True), test.labels)
            seen = set(self.data.texts)
            new = np.array([text not in seen for text in test.texts])
            accuracy, repeated = float(correct.mean()), int((~new).sum())
            accuracy_new = float(correct[new].mean()) if new.any() else None
        parameters = sum(p.numel() for p in self.model.parameters())
        trained = Trained(
            self.out, parameters, tuple(self.state.validation), accuracy, accuracy_new, repeated, round(self.state.seconds, 1)
        )
        (self.out / "README.md").write_text(
            card(trained, self.recipe, self.data, test, self.model.config.model_type, self.device.type, command),
            encoding="utf-8",
        )
        (self.out / _CHECKPOINT).unlink(missing_ok=True)
        return trained


def _check_folder(out: Path, fresh: bool) -> None:
    """Raise InputError for a folder that holds something else."""
    held = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if "config.json" in held and _CHECKPOINT not in held and not fresh:
        raise InputError(f"{str(out)!r} already holds a model; choose another folder, or begin anew with --fresh (fresh=True)")
    if held and not {"config.json", _CHECKPOINT} & set(held):
        raise InputError(f"{str(out)!r} must be an empty or a new folder; it holds {held[0]!r}")


def _check_writing(out: Path) -> None:
    """Fail before the work where the folder cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{_CHECKPOINT}.new").write_bytes(b"")
        (out / f"{_CHECKPOINT}.new").unlink()
    except OSError as error:
        raise InputError(f"could not write into {str(out)!r}: {error.strerror}; name a folder that can be written") from error


def _schedule(done: float, warmup: float, constant: bool) -> float:
    """Return the factor of the learning rate: linear warm-up, then linear decay or none."""
    if done < warmup:
        return done / warmup
    return 1.0 if constant else max(0.0, (1.0 - done) / (1.0 - warmup))


def _correct(answers: Floats, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not np.isfinite(answers).all():
        raise ModelError("the trained model answers with NaN or infinity; try a smaller learning rate")
    return np.asarray(answers.argmax(axis=1) == labels)


def _accuracy(answers: Floats, labels: NDArray[np.int64]) -> float:
    return float(_correct(answers, labels).mean()) if len(labels) else float("nan")


def _device(name: str | None) -> torch.device:
    device = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used: {one_line(error)}; try 'cpu'") from error


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C into a flag that is checked between steps. A second one interrupts at once."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def handler(number: int, frame: Any) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield requested.is_set
    finally:
        signal.signal(signal.SIGINT, before)
