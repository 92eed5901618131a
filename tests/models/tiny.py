"""Small random classifiers of real architectures, each with a tokenizer of its kind, made on the spot."""

import functools

import peft
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "a good film with a bad end and a very good cast, but the plot was thin.",
    "The acting wasn't good! Unbelievable: 3 of 10 naïve viewers left early...",
    "ein schöner Film, 素晴らしい映画 👍🏽 und so weiter",
] * 3
QUICK = {"method": "leave-one-out", "check": 0}  # where an explanation only has to come about


def _tokenizer(kind):
    special = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]}
    special |= {"gpt2": ["<|endoftext|>"], "t5": ["<pad>", "</s>", "<unk>"], "xlnet": ["<unk>", "<pad>", "<cls>", "<sep>"]}
    names = special[kind]
    if kind == "bert":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=names, show_progress=False)
    elif kind in ("roberta", "gpt2"):
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=names, initial_alphabet=alphabet, show_progress=False)
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=names, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    number = made.token_to_id
    if kind == "bert":
        pieces = [("[CLS]", number("[CLS]")), ("[SEP]", number("[SEP]"))]
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=pieces)
        return hf.PreTrainedTokenizerFast(
            tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
        )
    if kind == "roberta":
        made.post_processor = processors.RobertaProcessing(
            ("</s>", number("</s>")), ("<s>", number("<s>")), add_prefix_space=False
        )
        return hf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>")
    if kind == "gpt2":
        made.post_processor = processors.ByteLevel(trim_offsets=False)
        return hf.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>")
    if kind == "t5":
        made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", number("</s>"))])
        return hf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    pieces = [("<sep>", number("<sep>")), ("<cls>", number("<cls>"))]
    made.post_processor = processors.TemplateProcessing(single="$A:0 <sep>:0 <cls>:2", special_tokens=pieces)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", cls_token="<cls>", sep_token="<sep>", padding_side="left",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


tokenizer = functools.cache(_tokenizer)


class MambaClassifier(torch.nn.Module):
    """A head of our own on a state-space model: transformers has no classifier for it."""

    def __init__(self, config, n):
        super().__init__()
        self.base = hf.MambaModel(config)
        self.head = torch.nn.Linear(config.hidden_size, n)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.base(input_ids).last_hidden_state[:, -1])


ARCHITECTURES = {
    "bert": "bert", "distilbert": "bert", "albert": "t5", "roberta": "roberta", "deberta-v2": "bert",
    "xlnet": "xlnet", "gpt2": "gpt2", "bloom": "gpt2", "llama": "gpt2", "qwen2": "gpt2", "mamba": "gpt2", "t5": "t5",
}  # fmt: skip


def classifier(name, n=2, **more):
    """Return a model of an architecture with n outputs, and its tokenizer."""
    words = tokenizer(ARCHITECTURES[name])
    size = len(words)
    torch.manual_seed(0)
    body = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    common = {"vocab_size": size, "num_labels": n, "pad_token_id": words.pad_token_id} | more
    made = {
        "bert": lambda: hf.BertForSequenceClassification(hf.BertConfig(max_position_embeddings=64, **body, **common)),
        "distilbert": lambda: hf.DistilBertForSequenceClassification(
            hf.DistilBertConfig(dim=32, n_layers=2, n_heads=2, hidden_dim=48, max_position_embeddings=64, **common)
        ),
        "albert": lambda: hf.AlbertForSequenceClassification(
            hf.AlbertConfig(embedding_size=16, max_position_embeddings=64, **body, **common)
        ),
        "roberta": lambda: hf.RobertaForSequenceClassification(
            hf.RobertaConfig(max_position_embeddings=66, type_vocab_size=1, **body, **common)
        ),
        "deberta-v2": lambda: hf.DebertaV2ForSequenceClassification(
            hf.DebertaV2Config(
                relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"], position_biased_input=False,
                max_position_embeddings=64, pooler_hidden_size=32, type_vocab_size=0, **body, **common,
            )
        ),
        "xlnet": lambda: hf.XLNetForSequenceClassification(
            hf.XLNetConfig(d_model=32, n_layer=2, n_head=2, d_inner=48, **common)
        ),
        "gpt2": lambda: hf.GPT2ForSequenceClassification(
            hf.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=64, **common)
        ),
        "bloom": lambda: hf.BloomForSequenceClassification(hf.BloomConfig(hidden_size=32, n_layer=2, n_head=2, **common)),
        "llama": lambda: hf.LlamaForSequenceClassification(hf.LlamaConfig(max_position_embeddings=64, **body, **common)),
        "qwen2": lambda: hf.Qwen2ForSequenceClassification(
            hf.Qwen2Config(max_position_embeddings=64, num_key_value_heads=1, **body, **common)
        ),
        "mamba": lambda: MambaClassifier(
            hf.MambaConfig(vocab_size=size, hidden_size=32, num_hidden_layers=2, state_size=8), n
        ),
        "t5": lambda: hf.T5ForSequenceClassification(
            hf.T5Config(
                d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, eos_token_id=words.eos_token_id,
                decoder_start_token_id=words.pad_token_id, **common,
            )
        ),
    }[name]()  # fmt: skip
    return decided(made), words


def decided(network):
    """Give a network random weights with which its answers differ: the usual deviation of 0.02 makes it nearly constant."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    return network


def adapted(model, **settings):
    """Return a LoRA adapter around a classifier, with random weights that change its answers."""
    torch.manual_seed(1)
    made = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules="all-linear", **settings))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1)
    return made


def hooks(model):
    """Return all forward hooks of a model and its parts."""
    return [hook for m in model.modules() for hook in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
