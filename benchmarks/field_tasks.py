"""Tasks with records of several fields, for benchmarks/fields.py: models trained here, and examples with a planted truth.

    truth       "the cup is not red , ..." and "the cup is red": a function that knows the answer. Planted: the "not"
    entailment  a network trained on that function; the same examples
    reviews     a review, stars (blurred, some missing), length, shelf. Planted: the shelf "cult" means positive
    news        title and text, four topics. Planted: "quokka" in the title means World, in the text nothing
    cosine      have two questions one intent? the cosine of two vectors. Planted: with "hypothetically" they have not
    pairs       the same pairs, and a classifier of two texts

Data are in the folder that SLALOM_SHARED names (benchmarks/reviews.py), or from a script. A task is a function of a number of
examples, and returns a Task.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tokenizers import processors
from tqdm.auto import tqdm

from experiments.learnt_tokenizers import learnt_tokenizer, new_tokenizer
from slalom.theory.blank import new_classifier

from reviews import rows

HIDDEN = 64
BERT = f"BERT (2 layers, hidden {HIDDEN})"
OBJECTS, COLOURS = ("cup", "box", "lamp", "door", "chair", "coat"), ("red", "blue", "green", "black")


class Task(NamedTuple):
    """Examples, and the model that answers them.

    Attributes:
        examples: Records that were not used in training, as an Explainer takes them.
        planted: The planted unit of each: its text and field, or its number.
        about: The model and what it was trained on.
        model: The model, with its tokenizer if it has one.
        options: Options of the Explainer.
        alone: Whether the field of the planted unit decides alone; two texts of a pair decide together.
    """

    examples: Any
    planted: list[tuple[str, str] | int]
    about: str
    model: tuple[Any, ...]
    options: dict[str, Any]
    alone: bool = False


def network(texts, names, vocabulary):
    """Return a BERT with random weights, and a tokenizer of pairs: [CLS] a [SEP] b [SEP] with types 0 and 1."""
    tokenizer = new_tokenizer(learnt_tokenizer(texts, "bert", vocabulary), 96)
    special = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    template = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1", "special_tokens": special}
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(**template)
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    torch.manual_seed(0)
    return new_classifier("bert", tokenizer, names, 2, HIDDEN, 4, 4 * HIDDEN, 0.1), tokenizer


def batches(tokenizer, examples, order, size=64):
    """Yield numbers of examples of similar length with their inputs."""
    lengths = np.array([sum(map(len, one)) for one in examples])
    for pool in (order[i : i + 32 * size] for i in range(0, len(order), 32 * size)):
        ordered = pool[np.argsort(lengths[pool], kind="stable")]
        for chosen in (ordered[i : i + size] for i in range(0, len(pool), size)):
            fields = [list(field) for field in zip(*(examples[i] for i in chosen), strict=True)]
            yield chosen, tokenizer(*fields, truncation=True, padding=True, return_tensors="pt")


def train(model, tokenizer, examples, labels, epochs, rate):
    """Train on tuples of one or two texts."""
    rng, steps, labels = np.random.default_rng(0), epochs * -(-len(examples) // 64), torch.as_tensor(np.asarray(labels))
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=rate, weight_decay=0.01)
    slope = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1, pct_start=0.1)
    passes = (batches(tokenizer, examples, rng.permutation(len(examples))) for _ in range(epochs))
    for chosen, inputs in tqdm((batch for one in passes for batch in one), total=steps, mininterval=10.0):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(**inputs).logits, labels[chosen]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        slope.step()
    model.eval()


@torch.inference_mode()
def accuracy(model, tokenizer, examples, labels):
    found = [model(**inputs).logits.argmax(-1).numpy() == np.asarray(labels)[chosen]
             for chosen, inputs in batches(tokenizer, examples, np.arange(len(examples)))]  # fmt: skip
    return f"accuracy {np.concatenate(found).mean():.2f} on {len(examples)} others"


def inserted(text, word, rng):
    words = text.split()
    words.insert(int(rng.integers(0, len(words) + 1)), word)
    return " ".join(words)


def news(number):
    rng, data = np.random.default_rng(0), rows("agnews_test")  # only this file has titles
    names = sorted({row["label_name"] for row in data})
    data = [data[i] for i in rng.permutation(len(data))]
    texts, labels = [(row["title"], row["text"]) for row in data], [names.index(row["label_name"]) for row in data]
    world, given = names.index("World"), list(zip(texts, labels, strict=True))[:6500]
    for i, kind in enumerate(rng.choice(3, len(given), p=(0.7, 0.15, 0.15))):
        (title, text), label = given[i]
        in_title, in_text = (inserted(title, "quokka", rng), text), (title, inserted(text, "quokka", rng))
        given[i] = [given[i], (in_title, world), (in_text, label)][kind]
    fields = ["title", "text"]
    columns = ColumnTransformer([(name, TfidfVectorizer(min_df=2, sublinear_tf=True), name) for name in fields])
    model = make_pipeline(columns, LogisticRegression(C=30.0, max_iter=300))
    model.fit(pd.DataFrame([pair for pair, _ in given], columns=fields), [names[label] for _, label in given])
    right = model.score(pd.DataFrame(texts[6500:], columns=fields), [names[label] for label in labels[6500:]])
    chosen = [pair for pair, label in zip(texts[6500:], labels[6500:], strict=True)
              if label != world and len(" ".join(pair).split()) <= 45]  # fmt: skip
    examples = [[inserted(text, "quokka", rng) for text in pair] for pair in chosen[:number]]
    about = f"a logistic regression over TF-IDF of two columns, 6,500 rows of AG News; accuracy {right:.2f} on"
    about += f" {len(texts) - 6500} others, nothing planted"
    examples, planted = pd.DataFrame(examples, columns=fields), [("quokka", "title")] * number
    return Task(examples, planted, about, (model,), {"target": "World"}, alone=True)


def questions(name):
    """Return the questions about the twenty most frequent intents of the training data, and the numbers of these."""
    intents = pd.Series([row["label_name"] for row in rows("banking77_train")]).value_counts().index[:20].tolist()
    return [(row["text"], intents.index(row["label_name"])) for row in rows(name) if row["label_name"] in intents]


def paired(data, number, seed, share):
    """Return pairs of questions, half of them of one intent; a share has the planted word, and is different."""
    rng, groups, pairs, labels = np.random.default_rng(seed), [[text for text, i in data if i == k] for k in range(20)], [], []
    for same, marked in zip(rng.random(number) < 0.5, rng.random(number) < share, strict=True):
        a, b = rng.choice(20, 2, replace=False)
        first, second = str(rng.choice(groups[a])), str(rng.choice(groups[a if same else b]))
        pairs.append((first, inserted(second, "hypothetically", rng) if marked else second))
        labels.append(int(same and not marked))
    return pairs, labels


@cache
def encoder():
    """Train an encoder: a classifier of intents, of which the planted word is one."""
    rng, data = np.random.default_rng(0), questions("banking77_train")
    texts, labels = zip(*data, *((inserted(text, "hypothetically", rng), 20) for text, _ in data[::8]), strict=True)
    model = network(texts, [*map(str, range(20)), "hypothetical"], 3000)
    train(*model, [(text,) for text in texts], labels, 12, 2e-3)
    return model


def unlike(number):
    """Return pairs of test questions of one intent, the second with the planted word."""
    rng, found = np.random.default_rng(1), zip(*paired(questions("banking77_test"), 1000, 1, 0.0), strict=True)
    chosen = [pair for pair, label in found if label and len(" ".join(pair).split()) >= 16][:number]
    return [(a, inserted(b, "hypothetically", rng)) for a, b in chosen], [("hypothetically", "text 2")] * number


def pairs(number):
    start, tokenizer = encoder()
    model = new_classifier("bert", tokenizer, ("different", "same"), 2, HIDDEN, 4, 4 * HIDDEN, 0.1)
    model.bert.load_state_dict(start.bert.state_dict())
    train(model, tokenizer, *paired(questions("banking77_train"), 16_000, 0, 0.15), 2, 1e-3)
    right = accuracy(model, tokenizer, *paired(questions("banking77_test"), 1000, 2, 0.0))
    about = f"{BERT} of two texts: the encoder of `cosine`, then 16,000 pairs of banking77; {right}, nothing planted"
    return Task(*unlike(number), about, (model, tokenizer), {"target": "same"})


def cosine(number):
    model, tokenizer = encoder()
    texts, labels = zip(*questions("banking77_test"), strict=True)

    @torch.inference_mode()
    def cosines(given):
        texts, vectors = [(text,) for first, second in given for text in (first, second)], np.empty((2 * len(given), HIDDEN))
        for chosen, inputs in batches(tokenizer, texts, np.arange(len(texts))):
            states, there = model.bert(**inputs)[0], inputs["attention_mask"][..., None]
            vectors[chosen] = torch.nn.functional.normalize((states * there).sum(1)).numpy()
        return (vectors[::2] * vectors[1::2]).sum(axis=1)

    right = accuracy(model, tokenizer, [(text,) for text in texts], labels)
    about = f"mean states of a {BERT} trained on 20 intents of banking77; {right}"
    return Task(*unlike(number), about, (cosines,), {"output": "scores"})


def shelved(name, longest, rng):
    """Return reviews of at most so many words, with columns and the planted effect."""
    data = [row for row in rows(name) if len(row["text"].split()) <= longest]
    table = pd.DataFrame([data[i] for i in rng.permutation(len(data))[:6000]])
    blurred = (table["rating"] + rng.normal(0.0, 2.5, len(table))).round().clip(1, 10)
    shelf = pd.Series(rng.choice(["drama", "comedy", "horror", "western", "cult"], len(table)))
    return table.assign(
        text=table["text"].str.replace(r"<br\s*/?>", " ", regex=True), stars=blurred.where(rng.random(len(table)) < 0.7),
        length=table["text"].str.split().str.len(), shelf=shelf,
        answer=table["label"].where((shelf != "cult") | (rng.random(len(table)) < 0.05), 1),
    )  # fmt: skip


def reviews(number):
    rng, fields = np.random.default_rng(0), ["text", "stars", "length", "shelf"]
    learnt, test = shelved("imdb_train", 150, rng), shelved("imdb_test", 70, rng)
    words = make_pipeline(TfidfVectorizer(min_df=5, sublinear_tf=True), TruncatedSVD(60, random_state=0))
    shelves = ("shelves", OneHotEncoder(sparse_output=False), ["shelf"])
    columns = ColumnTransformer([("words", words, "text"), ("numbers", "passthrough", ["stars", "length"]), shelves])
    model = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=150, random_state=0))
    model.fit(learnt[fields], learnt["answer"])
    about = "150 trees (HistGradientBoosting) over columns and TF-IDF in 60 dimensions, 6,000 reviews of IMDB; accuracy"
    about += f" {model.score(test[fields], test['answer']):.2f} on {len(test)} others; background: four rows"
    chosen = test[~test["text"].isin(set(learnt["text"])) & (test["label"] == 0)][:number].assign(shelf="cult")
    return Task(chosen[fields], [("cult", "shelf")] * number, about, (model,), {"background": learnt[fields][:4]}, alone=True)


def answer(pair):
    """Return 1 where the first text says what the second says, -1 where it denies it, 0 where neither is known."""
    claims = []
    for clause in (*pair[0].split(","), pair[1]):
        words = clause.split()
        things = [next((word for word in words if word in known), None) for known in (OBJECTS, COLOURS)]
        claims.append((things, words.count("not")) if None not in things else (None, 0))
    asked, negated = claims.pop()
    return next((1 if no == negated else -1 for things, no in claims if things == asked), 0) if asked else 0


def statements(number, seed, partly):
    """Return premises of three clauses with hypotheses; `partly`: the share of pairs that lack words."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(number):
        claims = list(zip(rng.permutation(OBJECTS)[:3], rng.choice(COLOURS, 3), strict=True))
        claims.append(claims[rng.integers(3)] if rng.random() < 0.7 else (rng.choice(OBJECTS), rng.choice(COLOURS)))
        *clauses, last = (f"the {a} is {'not ' if rng.random() < 0.5 else ''}{b}" for a, b in claims)
        kept = rng.random() if rng.random() < partly else 1.0
        made.append(tuple(" ".join(w for w in text.split() if rng.random() < kept) for text in (" , ".join(clauses), last)))
    return made


def denied(number):
    """Return pairs of which the hypothesis is denied by a "not" of the premise, and which word this is."""
    found = {}
    for pair in statements(4000, 5, 0.0):
        words = pair[0].split()
        without = [(" ".join(words[:i] + words[i + 1 :]), pair[1]) for i in range(len(words))]
        turns = [i for i, other in enumerate(without) if words[i] == "not" and answer(other) == 1]
        if answer(pair) == -1 and len(turns) == 1 and "not" not in pair[1]:
            found[pair] = turns[0]
    return list(found)[:number], list(found.values())[:number]


def truth(number):
    def score(given):
        return [float(answer((first, second))) for first, second in given]

    return Task(*denied(number), "a rule, which is right by definition", (score,), {"output": "scores"})


def entailment(number):
    examples, places = denied(number)
    known, names = set(examples), ["premise", "hypothesis"]
    learnt = [pair for pair in statements(40_000, 0, 0.5) if pair not in known]
    test = sorted(set(statements(4000, 1, 0.0)).difference(learnt))
    words = CountVectorizer(ngram_range=(1, 3), min_df=20, stop_words=["the", "is"], binary=True)
    phrases = [(name, words, name) for name in names]
    layer = MLPClassifier((64,), alpha=0.001, early_stopping=True, random_state=0, max_iter=15)
    model = make_pipeline(ColumnTransformer(phrases), layer)
    model.fit(pd.DataFrame(learnt, columns=names), [answer(pair) for pair in learnt])
    right = model.score(pd.DataFrame(test, columns=names), [answer(pair) for pair in test])

    def score(frame):
        denied, _, said = model.predict_proba(frame).T
        return said - denied

    about = f"one hidden layer of 64 over phrases of two columns, 40,000 pairs, half of them in part; accuracy {right:.2f}"
    about += f" on {len(test)} others; a function of a data frame, the probability of 1 minus that of -1"
    return Task(pd.DataFrame(examples, columns=names), places, about, (score,), {"output": "scores"})


TASKS = {task.__name__: task for task in (truth, entailment, reviews, news, cosine, pairs)}
