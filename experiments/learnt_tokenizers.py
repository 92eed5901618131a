"""Tokenizers learnt from texts."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_MARK = "▁"  # marks the beginning of a word
_WORD = r"[\p{L}\p{M}\p{N}]+(?:['\x{2019}][\p{L}\p{M}\p{N}]+)*|[^\s\p{L}\p{M}\p{N}]"


def learnt_tokenizer(texts: Iterable[str], arch: str, vocabulary: int) -> str:
    """Learn a lower-casing WordPiece tokenizer that reads HTML line breaks as blanks; return it as JSON.

    Encoders get [CLS] and [SEP]; decoders no special tokens, as they classify by their last token.
    """
    breaks = normalizers.Replace(Regex(r"<br\s*/?>"), " ")
    normalizer = normalizers.Sequence([breaks, normalizers.BertNormalizer(lowercase=True)])
    pieces = {name: i for i, name in enumerate(_learnt_pieces(texts, normalizer, vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(_SPECIAL))
    if arch != "gpt2":
        ends = [(name, pieces[name]) for name in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return str(tokenizer.to_str())


def learnt_words(texts: Iterable[str], vocabulary: int) -> str:
    """Learn a lower-casing tokenizer of whole words and marks; return it as JSON. [UNK] is 0; [CLS] is 1 and starts a text.

    Words are numbered by frequency, then alphabetically; those beyond the vocabulary are [UNK].
    """
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"<br\s*/?>"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    counts = Counter[str]()
    for text in texts:
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text)))
    known = sorted(counts, key=lambda word: (-counts[word], word))[: vocabulary - 2]
    tokenizer.model = models.WordLevel({word: i for i, word in enumerate(["[UNK]", "[CLS]", *known])}, unk_token="[UNK]")
    tokenizer.add_special_tokens(["[UNK]", "[CLS]"])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    return str(tokenizer.to_str())


def _learnt_pieces(texts: Iterable[str], normalizer: Any, vocabulary: int) -> list[str]:
    """Return the special tokens, every character, and the pieces of byte-pair encoding, up to the size of the vocabulary.

    Words are learnt with a mark before them, which tells first pieces from others; the trainer of WordPiece itself breaks ties
    at random.
    """
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizer
    marked = pre_tokenizers.Metaspace(replacement=_MARK, prepend_scheme="always", split=False)
    learner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), marked])
    learner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=2 * vocabulary, show_progress=False, min_frequency=2, limit_alphabet=max(vocabulary // 8, 30)
        ),
    )
    learnt = [name for name, _ in sorted(learner.get_vocab().items(), key=lambda item: item[1])]
    letters = [name for name in learnt if len(name) == 1 and name != _MARK]
    pieces = dict.fromkeys([*_SPECIAL, *letters, *(f"##{letter}" for letter in letters)])
    pieces |= dict.fromkeys(name[1:] if name.startswith(_MARK) else f"##{name}" for name in learnt if len(name) > 1)
    return list(pieces)[:vocabulary]


def new_tokenizer(learnt: str, max_length: int) -> Any:
    """Return a learnt tokenizer as one of transformers; one of whole words pads with [UNK]."""
    tokenizer = Tokenizer.from_str(learnt)
    if tokenizer.token_to_id("[PAD]") is None:
        special = {"pad_token": "[UNK]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    else:
        special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        **special,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
    )


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer without the truncation of training, so that older releases of transformers load it too."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
