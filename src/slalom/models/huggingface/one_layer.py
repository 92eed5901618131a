"""One layer of attention as a whole classifier: small enough for exact explanations.

    e_t = E[x_t] + p_t            x = [CLS] and the words, cut or filled up with [UNK] to max_position_embeddings
    a_t = softmax_t(q . k_t / sqrt(d)),    q = W_q e_CLS,  k_t = W_k e_t,  v_t = W_v e_t        in each head
    f   = mean over heads of  sum_t a_t W v_t                                                  one number per class

The network of Lopardo, Precioso & Garreau 2024: no biases, no feed-forward layer, no residual path, sinusoidal positions p,
each head with its own final layer W. Only [CLS] has a query, so W_k and W_v are applied to one vector per head, not to every
position. Filled positions are attended to, as in the paper; there is no mask. Without the final layer (`final=False`) v_t is
one number per class and W the identity.
"""

from functools import lru_cache
from typing import Any, final

import numpy as np
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from slalom.errors import InputError


@final
class AttentionConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes of an AttentionClassifier; the defaults are the paper's.

    Args:
        hidden_size: Size of the word vectors, an even number: positions are pairs of sine and cosine.
        head_size: Size of q, k and v in each head.
        final: Whether there is a final layer.
        unk_token_id: The id of [UNK], which fills up short texts.
        **options: As for `transformers.PretrainedConfig`.
    """

    model_type = "slalom-attention"

    def __init__(
        self,
        vocab_size: int = 2,
        hidden_size: int = 128,
        num_attention_heads: int = 6,
        head_size: int = 64,
        max_position_embeddings: int = 256,
        final: bool = True,
        unk_token_id: int = 0,
        **options: Any,
    ) -> None:
        if hidden_size % 2:
            raise InputError(f"the hidden size must be even, as positions are pairs of sine and cosine; got {hidden_size}")
        self.vocab_size, self.hidden_size, self.num_attention_heads = vocab_size, hidden_size, num_attention_heads
        self.head_size, self.max_position_embeddings = head_size, max_position_embeddings
        self.final, self.unk_token_id = final, unk_token_id
        super().__init__(**options)


@final
class AttentionClassifier(PreTrainedModel):  # type: ignore[no-untyped-call]
    """One layer of attention as a classifier of transformers, of an `AttentionConfig`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> network = AttentionClassifier(AttentionConfig(vocab_size=5, hidden_size=8, head_size=4, max_position_embeddings=6))
        >>> ids = torch.tensor([[1, 2, 3]])
        >>> bool((network(ids).logits == network(torch.tensor([[1, 2, 3, 0, 0, 0]])).logits).all())  # filled up with [UNK]
        True
    """

    config_class = AttentionConfig
    main_input_name = "input_ids"

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config)
        heads, size, classes = config.num_attention_heads, config.head_size, int(config.num_labels or 2)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.query = nn.Linear(config.hidden_size, heads * size, bias=False)
        self.key = nn.Linear(config.hidden_size, heads * size, bias=False)
        self.value = nn.Linear(config.hidden_size, heads * (size if config.final else classes), bias=False)
        weights = torch.empty(heads, classes, size).uniform_(-(size**-0.5), size**-0.5)
        self.final = nn.Parameter(weights) if config.final else None
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights as torch has drawn them: normal embeddings, uniform matrices, as the paper's code does."""

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def per_head(self, layer: nn.Linear) -> torch.Tensor:
        """Return the matrix of the query, key or value layer per head, (heads, size, hidden)."""
        return layer.weight.view(self.config.num_attention_heads, -1, self.config.hidden_size)

    def vectors(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return e (m, positions, hidden): words (m, length) and positions, cut or filled up."""
        longest = self.config.max_position_embeddings
        words: torch.Tensor = self.embedding(input_ids[:, :longest])
        blank = self.embedding.weight[self.config.unk_token_id].expand(len(words), longest - words.shape[1], -1)
        words = torch.cat([words, blank], dim=1)
        return words + torch.as_tensor(positions(longest, self.config.hidden_size), dtype=words.dtype, device=words.device)

    def of_vectors(self, e: torch.Tensor) -> torch.Tensor:
        """Return f (m, classes) of vectors e (m, positions, hidden), the first of which is that of [CLS]."""
        heads, size = self.config.num_attention_heads, self.config.head_size
        query = self.query(e[:, 0]).view(len(e), heads, size)
        reach = torch.einsum("mhs,hsd->mhd", query, self.per_head(self.key)) / size**0.5
        mixed = torch.softmax(reach @ e.transpose(1, 2), dim=-1) @ e
        values = torch.einsum("mhd,hsd->mhs", mixed, self.per_head(self.value))
        return (values if self.final is None else torch.einsum("mhs,hcs->mhc", values, self.final)).mean(dim=1)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **options: Any
    ) -> SequenceClassifierOutput:
        """Return the logits (m, classes) of token ids (m, length) that start with [CLS]; nothing else is used."""
        answer: Any = self.of_vectors(self.vectors(input_ids))
        return SequenceClassifierOutput(logits=answer)


@lru_cache(maxsize=8)
def positions(length: int, size: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the sinusoidal positions (length, size): sin(t / 10000^(2i/size)) and its cosine, in turn.

    Example:
        >>> positions(2, 2).round(4).tolist()
        [[0.0, 1.0], [0.8415, 0.5403]]
    """
    angles = np.arange(length)[:, None] * 10_000.0 ** (-np.arange(0, size, 2) / size)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, size)


AutoConfig.register(AttentionConfig.model_type, AttentionConfig, exist_ok=True)
AutoModelForSequenceClassification.register(AttentionConfig, AttentionClassifier, exist_ok=True)
