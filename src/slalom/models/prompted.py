"""`Prompted`: a causal language model with a template as a classifier.

    prompt     Review: A fine film.\\nSentiment:
    output     log p(" positive" | prompt), log p(" negative" | prompt)
    score      their difference, the log odds of the labels

The whole prompt is tokenised at once, as the model would read it. The template's tokens are in every query: they are the
background of the explanation, and only tokens of the text are removed. A token that covers characters of both (" A", ".\\n")
belongs to the text where the template's characters in it are spaces only, else to the template.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError
from slalom.models.base import PADDING, Report
from slalom.models.head import Head
from slalom.models.huggingface.causal import LocalLanguageModel
from slalom.models.huggingface.continuations import Continuations
from slalom.models.huggingface.fingerprint import identity_of
from slalom.models.huggingface.module import TorchModel, Transfer, to_host
from slalom.models.huggingface.reading import TokenReading
from slalom.models.prompts import LOW_SHARE, LabelSet, Message, Template, label_set
from slalom.text import Record

_PROBE = "a good film, but not a great one"
_MARKER = "TEXTGOESHERE"
_PASSES = 4  # a batch of the engine has the tokens of as many passes, those of the template not counted


class _Place(NamedTuple):
    """Where a text is in a prompt, and how many of its characters were left out before that place."""

    start: int
    end: int
    skipped: int = 0


@final
class Prompted(TorchModel):
    """A causal language model that classifies by what it would write after a prompt.

    The outputs are log p(label | prompt), one column per label. Where one label begins with another ("good", "good enough"),
    the answer is read as the longest that fits, so that the labels are exclusive.

    Args:
        model: A causal language model of transformers, or a wrapper around one. It stays on its device, in its dtype.
        tokenizer: Its tokenizer.
        template: A string with {text} where the text goes, or chat messages ``[{"role": "user", "content": "... {text}"}]``,
            which the tokenizer's chat template formats. Where the last message is the assistant's, the model continues it.
        labels: Names of the labels, which the model would write, or a mapping from names to one or several continuations.
        spellings: Whether to add each label without its lead and with a capital letter; probabilities of spellings are added.
        lead: What comes before a label in the continuation. Default: a space after a string or words of the assistant that
            end without one, nothing after white space and where the answer begins a turn.
        name: What to call the model. Default: the name of its class.
        max_length: Tokens per prompt at most. Default: the tokenizer's `model_max_length`. The model's own limit always holds.
        chat_options: Further arguments for the tokenizer's `apply_chat_template`, such as ``{"enable_thinking": False}``.

    Attributes:
        lm: The language model, which counts the tokens that it computes (`lm.computed`).
        asked: Tokens of all prompts that were asked so far.

    Example:
        >>> from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel
        >>> from slalom.models import EMBEDDED
        >>> tokenizer = AutoTokenizer.from_pretrained(EMBEDDED)
        >>> network = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=1))
        >>> prompted = Prompted(network, tokenizer, "Review: {text}\\nSentiment:", ["negative", "positive"])
        >>> reading = prompted.read("A fine film.", "cut", None)
        >>> reading.names, tokenizer.decode(reading.after[0])
        (('A', 'fine', 'film', '.'), 'sentiment :')
    """

    loader = "AutoModelForCausalLM"
    batch_overhead = 65_536  # batches are cut into calls here

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        template: str | Sequence[Message] | Template,
        labels: Iterable[str] | Mapping[str, str | Iterable[str]] | LabelSet,
        *,
        spellings: bool = False,
        lead: str | None = None,
        name: str | None = None,
        max_length: int | None = None,
        chat_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.lm = LocalLanguageModel(model, tokenizer, chat_options)
        if max_length is not None:
            max_length = whole_number("max_length", max_length, 1)
        super().__init__(model, tokenizer, name, max_length)
        self.template = Template(template)
        self.labels = label_set(labels, self.template.lead if lead is None else lead, spellings)
        self.asked = self._template_tokens = 0
        self.fields = self.template.fields
        self.reads_records = bool(self.fields)
        self.continuations = Continuations(self.labels, self._paths())
        self.head = Head("classes", self.labels.names)
        reading = self.read(self.template.example(_PROBE), "cut", None)
        (group,) = reading.groups(np.ones((1, len(reading.names)), dtype=bool))
        with self.session():
            self.collect(self.submit(group.build()[0]))  # fails here where the model cannot answer
        self._template_tokens = reading.before.shape[1]
        self.asked = self.lm.computed = 0

    # Reading

    @cached_property
    def _begins_with_bos(self) -> bool:
        """Whether a bos token is put before a prompt; that of a chat has one where its chat template wants it."""
        token = self.tokenizer.bos_token_id
        if token is None or self.template.is_chat:
            return False
        if token in self.tokenizer("a")["input_ids"][:1] or getattr(self.tokenizer, "add_bos_token", False):
            return True
        chat = getattr(self.tokenizer, "chat_template", None)
        return "bos_token" in str(chat if isinstance(chat, str) else chat or "")

    def _prompt(self, text: str) -> tuple[str, list[_Place]]:
        """Return a prompt, and the places of the text, or of the fields of a record in their order."""
        values = self.template.values(text)
        marks = {name: f"{_MARKER}{i}X" for i, name in enumerate(values)}
        fixed = re.split(rf"({'|'.join(marks.values())})", self._rendered(marks))
        order = [list(marks.values()).index(mark) for mark in fixed[1::2]]
        if sorted(order) != list(range(len(marks))):
            raise InputError("the tokenizer's chat template must contain every message once; give a string as the template")
        string, given = self._rendered(values), list(values.values())
        places, at = [_Place(0, 0)] * len(given), len(fixed[0])
        for number, after in zip(order, fixed[2::2], strict=True):
            value = given[number]
            middle = next((way for way in (value, value.strip()) if string.startswith(way + after, at)), None)
            if middle is None or not string.startswith(fixed[0]):
                raise InputError(
                    f"the tokenizer's chat template changes the text {value[:40]!r}; give the template as a string instead"
                )
            places[number] = _Place(at, at + len(middle), value.index(middle))
            at += len(middle) + len(after)
        names = list(values)
        ordered = (
            [places[names.index(name)] for name in text.names] if isinstance(text, Record) and text.form != "tuple" else places
        )
        return string, ordered

    def _rendered(self, values: Mapping[str, str]) -> str:
        filled: Any = self.template.fill(values if self.template.fields else values["text"])
        return filled if isinstance(filled, str) else self.lm.chat(filled)

    def whole_fields(self, record: Record) -> frozenset[str]:
        self.template.values(record)
        return super().whole_fields(record)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> TokenReading:
        string, places = self._prompt(text)
        encoding, covered = self._encode(string, add_special_tokens=False)
        ids = list(encoding["input_ids"])
        if self._begins_with_bos and ids[:1] != [self.tokenizer.bos_token_id]:
            ids, covered = [self.tokenizer.bos_token_id, *ids], [(0, 0), *covered]
        runs, within = list[tuple[int, int]](), list[NDArray[np.int64]]()
        starts = [field.start for field in text.fields] if isinstance(text, Record) else [0]
        for place, start in zip(places, starts, strict=True):
            chosen = [i for i, span in enumerate(covered) if _is_text(string, place, *span)]
            first = chosen[0] if chosen else sum(b <= place.start for _, b in covered)
            end = chosen[-1] + 1 if chosen else first
            spots = np.array(covered, dtype=np.int64).reshape(-1, 2)[first:end]
            runs.append((first, end))
            within.append(np.clip(spots - place.start, 0, place.end - place.start) + place.skipped + start)
        full = "which the template and the labels fill"
        table = np.array([ids], dtype=np.int32)
        return self._fitted(text, table, runs, np.concatenate(within), long, self.continuations.longest, full)

    def _paths(self) -> dict[str, tuple[int, ...]]:
        """Return the tokens of every continuation, as they follow the end of the prompt."""
        paths, unknown = {}, self.tokenizer.unk_token_id
        for spelling in (spelling for spellings in self.labels.continuations for spelling in spellings):
            for anchor in (self._prompt(self.template.example("a"))[0], "\n", ":", ""):
                ids, both = self._ids(anchor), self._ids(anchor + spelling)
                if both[: len(ids)] == ids and len(both) > len(ids):  # no token covers the border
                    paths[spelling] = tuple(both[len(ids) :])
                    break
            if not paths.get(spelling) or (unknown is not None and unknown in paths[spelling]):
                raise InputError(f"the tokenizer has no tokens for the label {spelling!r}; name another one")
        return paths

    def _ids(self, string: str) -> list[int]:
        return list(self._encode(string, add_special_tokens=False)[0]["input_ids"])

    def identity(self) -> str:
        about = (self.template.content, self.lm.chat_options, self._begins_with_bos, self.continuations.paths)
        owners = self.continuations.owners.tolist()
        return f"{identity_of(self.model)} {sha256(repr((about, owners)).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

    def report(self, outputs: Floats) -> Report:
        shares = np.exp(outputs).sum(axis=1)
        mean, whole = float(shares.mean()), float(shares[0])
        note = (
            f"The labels get {mean:.0%} of the probability on average ({whole:.0%} for the whole text): mostly the model"
            " would write something else, and the score compares answers that it rarely gives; add examples with their"
            " labels to the template, or spellings of the labels."
        )
        figures = {"label share": mean, "label share of the whole text": whole}
        return Report(figures, () if mean >= LOW_SHARE else (note,))

    # Computing

    def batch_rows(self, length: int) -> int:
        return _PASSES * super().batch_rows(length - self._template_tokens)

    def submit(self, inputs: NDArray[np.int32]) -> Transfer:
        ids = inputs[:, 0]
        with self._failures(f"prompts of {ids.shape[1]} tokens, ids up to {int(ids.max())}"):
            return to_host(self._outputs(ids, (ids != PADDING).sum(axis=1)))

    def _outputs(self, ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> torch.Tensor:
        self.asked += int(lengths.sum())
        prompts = [row[:n] for row, n in zip(ids.tolist(), lengths.tolist(), strict=True) for _ in self.continuations.paths]
        paths = self.continuations.paths * len(ids)
        logs = self.lm.token_log_probs(prompts, paths, self.batch_tokens)
        return self.continuations.log_probabilities(logs.view(len(ids), -1))


def _is_text(string: str, place: _Place, a: int, b: int) -> bool:
    """Return whether a token that covers characters a to b of a prompt belongs to the text in a place."""
    if a >= b:
        return place.start < a < place.end
    if min(b, place.end) <= max(a, place.start):
        return False
    return not (string[a : max(a, place.start)] + string[min(b, place.end) : b]).strip(" ")
