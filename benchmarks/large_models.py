"""Explanations of large decoders on a GPU: time, and share of the peak of the hardware.

    python benchmarks/large_models.py [--models llama-8b bloom-7b] [--repeats 3] [--tokens 93] [--unpadded]

Classifiers of the shapes of Llama-3-8B and BLOOM-7.1B in bfloat16, randomly initialised: weights do not change the time.
The share is 2 x parameters x tokens of the unique queries / time / 989 TFLOP/s, the dense bfloat16 peak of an H100 or H200.
Everything counts: tokenizing, sampling, forward passes, fit, held-out test. --unpadded computes inputs of one length per batch.
"""

import argparse
import statistics
import time

import torch
import transformers as hf
from transformers import AutoTokenizer

import slalom
from slalom.models import EMBEDDED

PEAK = 989e12
WORDS = "The first half is dull but the second half of this long film is one of the best things I have seen in years"


LLAMA = {
    "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8192,
}  # fmt: skip
BLOOM = {"vocab_size": 250880, "hidden_size": 4096, "n_layer": 30, "n_head": 32}


def _llama():
    return hf.LlamaForSequenceClassification, hf.LlamaConfig(num_labels=2, **LLAMA)


def _bloom():
    return hf.BloomForSequenceClassification, hf.BloomConfig(num_labels=2, **BLOOM)


MODELS = {"llama-8b": _llama, "bloom-7b": _bloom}
RUNS = (("joint", 200), ("joint", 1000), ("eff", 1000))


def text_of(tokenizer, n, special=True):
    """Return a text of n tokens, special ones included or not."""
    words = []
    while len(tokenizer(" ".join(words), add_special_tokens=special).input_ids) < n:
        words.append(WORDS.split()[len(words) % len(WORDS.split())])
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=93)
    parser.add_argument("--unpadded", action="store_true")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED, trust_remote_code=False)
    text = text_of(tokenizer, options.tokens)
    for name in options.models:
        kind, config = MODELS[name]()
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            network = kind(config).eval()
        torch.set_default_dtype(torch.float32)
        parameters = sum(p.numel() for p in network.parameters())
        explainer = slalom.Explainer(network, tokenizer)
        if options.unpadded:
            explainer.model.__dict__["batch_overhead"] = 0
        print(f"{name}: {parameters / 1e9:.2f}e9 parameters, batch overhead {explainer.model.batch_overhead} tokens")
        for method, queries in RUNS:
            seconds, in_engine = [], []
            torch.cuda.reset_peak_memory_stats()
            for _ in range(options.repeats + 1):
                explainer.engine.forget()
                torch.cuda.synchronize()
                began, engine = time.perf_counter(), explainer.engine.cost.seconds
                e = explainer(text, method=method, queries=queries)
                seconds.append(time.perf_counter() - began)
                in_engine.append(explainer.engine.cost.seconds - engine)
            taken, asked = statistics.median(seconds[1:]), statistics.median(in_engine[1:])
            share, alone = (2 * parameters * e.tokens / t / PEAK for t in (taken, asked))
            memory = torch.cuda.max_memory_allocated() / 2**30
            print(
                f"  {method:6} {queries:5} queries: {taken:.3f} s, {share:.1%} of the peak (engine {asked:.3f} s, {alone:.1%}),"
                f" {e.tokens} tokens of {e.queries} inputs, {memory:.1f} GiB; first {seconds[0]:.2f} s",
                flush=True,
            )
        del network, explainer
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
