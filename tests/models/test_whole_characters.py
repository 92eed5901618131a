"""Tokens that are parts of one character are one unit, whatever tokenizer cuts it."""

import numpy as np
import regex
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, trainers

from slalom import Explainer
from tests.cases import cases
from tests.models import tiny

TEXT = "I 💚 it 👩‍👩‍👧 好 cafe\u0301"


def fallback_tokenizer():
    """Return a tokenizer of the kind of sentencepiece that falls back to bytes for characters that it does not know."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(["I it is cafe"], trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False))
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="</s>")


def explainer(kind):
    """Return an Explainer of a small model that reads bytes in its own way."""
    if kind in ("gpt2", "roberta"):
        return Explainer(*tiny.classifier(kind))
    words = fallback_tokenizer() if kind == "byte fallback" else hf.ByT5Tokenizer()
    torch.manual_seed(0)
    config = hf.GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=128, vocab_size=len(words), num_labels=2, pad_token_id=0)
    return Explainer(tiny.decided(hf.GPT2ForSequenceClassification(config)), words)


@cases("kind", ["gpt2", "roberta", "byte fallback", "ByT5"])
def test_no_unit_is_a_part_of_a_character(kind):
    explain = explainer(kind)
    for unit in ("token", "type"):
        reading, units = explain.pipeline.read(TEXT, unit, "cut")
        assert len(reading.names) > len(units), "this tokenizer cuts characters"
        ends = {match.end() for match in regex.finditer(r"\X", TEXT)} | {0}
        assert set(units.spans.ravel().tolist()) <= ends
        assert units.spans[1:, 0].tolist() >= units.spans[:-1, 1].tolist()
        assert all(TEXT[a:b] == name for name, (a, b) in zip(units.names, units.spans.tolist(), strict=True) if b > a)
        assert {"💚", "👩‍👩‍👧", "好"} <= set(units.names)
        assert "\ufffd" not in "".join(units.names)
        assert units.sizes[units.names.index("💚")] > 1
        assert len(explain.tokens(TEXT)) == len(units)
        heart = units.names.index("💚")
        inputs, _ = reading.groups(units.atoms(np.arange(len(units))[None] != heart))[0].build()
        kept = reading.planes[0][units.unit_of_atom != heart]
        assert inputs[0, 0].tolist() == [*reading.before[0], *kept, *reading.after[0]], "all its tokens go together"
        e = explain(TEXT, **tiny.QUICK, unit=unit)
        assert e.units == units.names
        assert e.sizes.tolist() == units.sizes.tolist()
