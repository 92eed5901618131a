"""Small random causal language models of real architectures, made on the spot, with tokenizers of their kinds."""

import functools

import torch
import transformers as hf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tests.models.tiny import CORPUS, decided

PROMPTS = ["Review: a good film.\nSentiment: positive", "Review: the plot was thin.\nSentiment: negative"] * 3
CHAT = (
    "{{ bos_token }}{% for message in messages %}<start>{{ message['role'] }}\n{{ message['content'] | trim }}<end>\n"
    "{% endfor %}{% if add_generation_prompt %}<start>assistant\n{% endif %}"
)


@functools.cache
def tokenizer(kind):
    """Return a tokenizer that splits like GPT-2's or Llama 2's, adds no bos token ("gpt2", "chat") or one ("llama").

    "merging" has tokens across words and lines, and "chat" a chat template.
    """
    if kind == "llama":
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=200, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
        )
    else:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind != "merging")
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    made.train_from_iterator(CORPUS + PROMPTS, trainer)
    if kind == "llama":
        pieces = [("<s>", made.token_to_id("<s>"))]
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=pieces)
        return hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    if kind in ("gpt2", "merging"):
        return hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    made.add_special_tokens([AddedToken(name, special=True) for name in ("<bos>", "<start>", "<end>")])
    words = hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<bos>", eos_token="<end>")
    words.chat_template = CHAT
    return words


def language_model(name, size, **more):
    """Return a causal language model of an architecture with random weights."""
    torch.manual_seed(0)
    body = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": size}
    grouped = body | {"num_key_value_heads": 2, "max_position_embeddings": 256}
    made = {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**grouped | more)),
        "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**grouped | more)),
        "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(head_dim=8, **grouped | more)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(head_dim=8, **grouped | more)),
        "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**grouped | {"sliding_window": None} | more)),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=256, vocab_size=size, **more)
        ),
        "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=size, **more)),
        "mamba": lambda: hf.MambaForCausalLM(
            hf.MambaConfig(vocab_size=size, hidden_size=32, num_hidden_layers=2, state_size=8, **more)
        ),
    }[name]()
    return decided(made).eval()


LANGUAGE_MODELS = ("llama", "qwen2", "gemma", "gemma2", "mistral", "gpt2", "bloom")
