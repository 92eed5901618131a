"""The classifier and the reviews of the explanation benchmarks: imdb-bert-2 and 24 IMDB test reviews chosen by seed.

They are looked for in the folder named by SLALOM_SHARED, else in the folder `shared` beside the repository.
"""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

SHARED = Path(os.environ.get("SLALOM_SHARED", Path(__file__).parents[2] / "shared"))


def classifier(device="cpu"):
    """Return the classifier and its tokenizer."""
    path = SHARED / "models" / "imdb-bert-2"
    if not path.exists():
        raise SystemExit(
            f"these benchmarks need the classifier {path}; set SLALOM_SHARED to the folder that has models/ and data/"
        )
    model = AutoModelForSequenceClassification.from_pretrained(path, dtype=torch.float32, trust_remote_code=False)
    return model.to(device).eval(), tokenizer()


def tokenizer():
    """Return the tokenizer of the classifier."""
    return AutoTokenizer.from_pretrained(SHARED / "models" / "imdb-bert-2", trust_remote_code=False)


def rows(name):
    """Return the texts of a data file."""
    with gzip.open(SHARED / "data" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def reviews(tokenizer, number=24, least=30, most=508, seed=0):
    """Return test reviews of `least` to `most` tokens that are not also in the training set."""
    seen = {row["text"] for row in rows("imdb_train")}
    texts = [row["text"] for row in rows("imdb_test") if row["text"] not in seen]
    chosen = []
    for i in np.random.default_rng(seed).permutation(len(texts)):
        if least <= len(tokenizer(texts[i], add_special_tokens=False, verbose=False)["input_ids"]) <= most:
            chosen.append(texts[i])
        if len(chosen) == number:
            break
    return chosen


def sentences(number=40, seed=0):
    """Return SST-2 sentences of 8 words and more."""
    texts = [row["text"] for row in rows("sst2_dev") if len(row["text"].split()) >= 8]
    return [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:number]]


def add_text_options(parser):
    """Add the options that choose the texts to the parser of a benchmark."""
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--sentences", action="store_true", help="SST-2 sentences of 8 words and more instead of reviews")
    parser.add_argument("--least", type=int, default=30, help="tokens of the shortest review")
    parser.add_argument("--most", type=int, default=508, help="tokens of the longest review")


def chosen_texts(options):
    """Return the texts that such options choose."""
    return sentences(options.texts) if options.sentences else reviews(tokenizer(), options.texts, options.least, options.most)
