"""How often the classifier that ships with slalom is right on the 25,000 test reviews of IMDB, and how large it is.

    PYTHONPATH=. python benchmarks/embedded.py      # minutes on two cores

Reads imdb_train and imdb_test (.jsonl.gz, fields text and label) where benchmarks/reviews.py looks for them.
"""

import json
import sys

import numpy as np
import torch

from experiments.training import encoded, logits, read_labelled
from slalom.models import EMBEDDED
from slalom.models.huggingface.saved import load_classifier

from reviews import SHARED


def main() -> None:
    model, tokenizer = load_classifier(str(EMBEDDED), "cpu")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    test = read_labelled(SHARED / "data" / "imdb_test.jsonl.gz")
    seen = set(read_labelled(SHARED / "data" / "imdb_train.jsonl.gz").texts)
    hits = logits(model.to(device), encoded(tokenizer, test.texts, 512), exact=True).argmax(axis=1) == test.labels
    new = np.array([text not in seen for text in test.texts])
    figures = {
        "accuracy": round(float(hits.mean()), 4),
        "texts": len(hits),
        "accuracy_not_in_train": round(float(hits[new].mean()), 4),
        "texts_not_in_train": int(new.sum()),
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes": sum(part.stat().st_size for part in EMBEDDED.iterdir()),
    }
    json.dump(figures, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
