"""How long one explanation takes: slalom beside lime, shap and captum, each used as its documentation shows.

    python benchmarks/speed.py [--texts 2] [--samples 1000] [--device cpu] [--least 60] [--most 80]

imdb-bert-2 on IMDB test reviews (benchmarks/reviews.py says where they are looked for), as many samples for all.

lime    LimeTextExplainer().explain_instance(text, classify), words deleted
shap    KernelExplainer(f, nothing).shap_values(everything), tokens deleted
captum  KernelShap(forward).attribute(ids, baselines=[PAD]), tokens replaced by padding, one input at a time as is its default

lime and shap hand over all texts at once; they are padded and go through the model 32 at a time. Medians over the texts; the
last columns are how many times longer than slalom's.
"""

import argparse
import sys
import time
import warnings

import numpy as np
import shap
import torch
from captum.attr import KernelShap
from lime.lime_text import LimeTextExplainer

import slalom

from reviews import classifier, reviews

BATCH = 32


class Peers:
    """The model as its users call it."""

    def __init__(self, model, tokenizer, samples):
        self.model, self.tokenizer, self.samples = model, tokenizer, samples

    @torch.inference_mode()
    def logits(self, encoded):
        found = []
        for start in range(0, len(encoded), BATCH):
            batch = self.tokenizer.pad({"input_ids": encoded[start : start + BATCH]}, return_tensors="pt")
            found.append(self.model(**batch.to(self.model.device)).logits.float().cpu())
        return torch.cat(found)

    def lime(self, text):
        def classify(texts):
            encoded = self.tokenizer(list(texts), truncation=True, max_length=512)["input_ids"]
            return self.logits(encoded).softmax(-1).numpy()

        LimeTextExplainer(random_state=0).explain_instance(text, classify, num_samples=self.samples)

    def shap(self, text):
        ids = np.array(self.tokenizer(text, truncation=True, max_length=512)["input_ids"])
        before, body, after = ids[:1], ids[1:-1], ids[-1:]

        def score(keep):
            encoded = [np.concatenate([before, body[row > 0.5], after]).tolist() for row in keep]
            found = self.logits(encoded)
            return (found[:, 1] - found[:, 0]).numpy()

        explainer = shap.KernelExplainer(score, np.zeros((1, len(body))))
        explainer.shap_values(np.ones((1, len(body))), nsamples=self.samples, silent=True)

    def captum(self, text):
        ids = self.tokenizer(text, truncation=True, max_length=512, return_tensors="pt")["input_ids"].to(self.model.device)
        padding = torch.full_like(ids, self.tokenizer.pad_token_id)
        padding[:, 0], padding[:, -1] = ids[:, 0], ids[:, -1]

        @torch.inference_mode()
        def forward(inputs):
            found = self.model(inputs.long()).logits
            return found[:, 1] - found[:, 0]

        KernelShap(forward).attribute(ids, baselines=padding, n_samples=self.samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--least", type=int, default=60)
    parser.add_argument("--most", type=int, default=80)
    options = parser.parse_args()
    model, tokenizer = classifier(options.device)
    peers = Peers(model, tokenizer, options.samples)

    def ours(method):
        return lambda text: slalom.Explainer(model, tokenizer, progress=False)(text, method=method, queries=options.samples)

    methods = {f"slalom {name}": ours(name) for name in ("eff", "joint", "local", "fidel")}
    methods |= {"lime": peers.lime, "shap KernelExplainer": peers.shap, "captum KernelShap": peers.captum}
    texts = reviews(tokenizer, options.texts, options.least, options.most)
    warnings.simplefilter("ignore")
    peers.samples, kept = 50, peers.samples
    for explain in methods.values():
        explain("a good film with a bad end")  # the first call compiles
    peers.samples = kept
    seconds = {name: [] for name in methods}
    for number, text in enumerate(texts, start=1):
        for name, explain in methods.items():
            start = time.perf_counter()
            explain(text)
            seconds[name].append(time.perf_counter() - start)
            print(f"text {number} of {len(texts)}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    median = {name: float(np.median(found)) for name, found in seconds.items()}
    mine = [name for name in methods if name.startswith("slalom")]
    print(f"\n| {options.samples} samples, {options.device} | seconds | " + " | ".join(f"x {name}" for name in mine) + " |")
    print("|---|---|" + "---|" * len(mine))
    for name, found in median.items():
        print(f"| {name} | {found:.2f} | " + " | ".join(f"{found / median[one]:.2f}" for one in mine) + " |")


if __name__ == "__main__":
    main()
