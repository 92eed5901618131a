"""New classifiers of a chosen architecture and size, with random weights, and a tokenizer of whole words."""

from collections.abc import Sequence
from typing import Any

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from slalom.errors import InputError

_SIZES = {  # names of the number of layers, their size, heads, size of the feed-forward layer, positions
    "bert": ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings"),
    "distilbert": ("n_layers", "dim", "n_heads", "hidden_dim", "max_position_embeddings"),
    "gpt2": ("n_layer", "n_embd", "n_head", "n_inner", "n_positions"),
}
_DROPOUT = {
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "distilbert": ("dropout", "attention_dropout"),
    "gpt2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
}


def new_classifier(
    arch: str, tokenizer: Any, names: Sequence[str], layers: int, hidden: int, heads: int, inner: int, dropout: float = 0.0
) -> Any:
    """Return a classifier with random weights, drawn from torch's generator."""
    if arch not in _SIZES:
        raise InputError(f"the architecture must be one of {', '.join(_SIZES)}; got {arch!r}")
    if hidden % heads:
        raise InputError(f"the hidden size must be a multiple of the heads; got {hidden} and {heads}")
    config = transformers.AutoConfig.for_model(
        arch,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        **dict(zip(_SIZES[arch], (layers, hidden, heads, inner, tokenizer.model_max_length), strict=True)),
        **dict.fromkeys(_DROPOUT[arch], dropout),
        **labelling(names),
        **({} if arch == "distilbert" else {"bos_token_id": None, "eos_token_id": None}),
    )
    return transformers.AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]


def labelling(names: Sequence[str]) -> dict[str, Any]:
    """Return the part of a configuration that names the classes."""
    return {
        "num_labels": len(names),
        "problem_type": "single_label_classification",
        "id2label": dict(enumerate(names)),
        "label2id": {name: i for i, name in enumerate(names)},
    }


def word_tokenizer(words: Sequence[str], max_length: int, start: bool = False) -> Any:
    """Return a tokenizer of whole words between blanks."""
    names = ["[PAD]", "[UNK]", "[CLS]", *words]
    if not words or len(set(names)) < len(names) or any(str(word).split() != [word] for word in words):
        raise InputError("words must be different, without blanks, and none of [PAD], [UNK], [CLS]; there must be at least one")
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if start:
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    return transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
    )
