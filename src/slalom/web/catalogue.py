"""What a visitor can choose, in plain words: methods, units, budgets, and texts to begin with."""

from importlib.util import find_spec

from slalom.methods import Method, list_methods
from slalom.web.schema import BudgetInfo, MethodInfo, UnitInfo

_TITLES = {
    "joint": ("SLALOM", "Value and importance of every word; predicts what the model says of any part of the text."),
    "local": ("SLALOM, near the text", "The same from small removals only: most precise about single words."),
    "eff": ("SLALOM-eff (paper)", "The paper's fast form, from pairs of words."),
    "fidel": ("SLALOM-fidel (paper)", "The paper's form for removals of up to five words."),
    "ridge": ("Linear, near the text", "One effect per word, by ridge regression on small removals."),
    "ridge-scales": ("Linear, all sizes", "One effect per word, by ridge regression on parts of every size."),
    "leave-one-out": ("Leave one out", "Removes each word by itself and looks at the score."),
    "lime": ("LIME", "The lime package: random removals and a local linear model."),
    "kernel-shap": ("KernelSHAP", "The shap package: Shapley values by sampling."),
    "partition-shap": ("PartitionSHAP", "The shap package: Owen values along a tree of the words."),
    "gradient": ("Gradient", "How sensitive the model is to each token; no sign."),
    "input-x-gradient": ("Input times gradient", "Token vectors times their gradients."),
    "integrated-gradients": ("Integrated gradients", "Gradients along the way from an empty text."),
    "attention": ("Attention", "Mean attention over layers and heads; no sign."),
    "rollout": ("Attention rollout", "Attention followed through the layers; no sign."),
    "attnlrp": ("AttnLRP", "Relevance passed backwards through the layers."),
    "random": ("Random", "Random numbers: what an explanation must beat."),
}
_HIDDEN = ("context-cite",)  # a method for sources, which this page does not have
_PACKAGES = {"lime": "lime", "kernel-shap": "shap", "partition-shap": "shap"}
_EXTRAS = {"baselines": "captum", "hf": "transformers", "sklearn": "sklearn", "torch": "torch"}

UNITS = (
    UnitInfo(name="token", title="Tokens, as the model reads them"),
    UnitInfo(name="word", title="Words"),
    UnitInfo(name="sentence", title="Sentences"),
    UnitInfo(name="type", title="Equal tokens share their scores"),
)
EXAMPLES = (
    "A slow, beautiful and utterly convincing film; only the ending is a disappointment.",
    "I wanted to like it, but the jokes are stale and the plot makes no sense.",
    "Not bad at all! The cast is great, and I never looked at my watch.",
)


def offered(inside: bool) -> list[MethodInfo]:
    """Return the methods whose packages are installed, in plain words."""
    return [_described(name, method) for name, method in list_methods().items() if _available(name, method, inside)]


def budgets(most: int) -> list[BudgetInfo]:
    """Return budgets up to a limit, in plain words."""
    titles = {100: "Quick look: 100 questions", 500: "Careful: 500 questions", 2000: "Thorough: 2,000 questions"}
    sized = [BudgetInfo(queries=number, title=title) for number, title in titles.items() if number <= most]
    return [BudgetInfo(queries=None, title="Standard: five questions per word, 200 to 1,000"), *sized]


def _described(name: str, method: Method) -> MethodInfo:
    title, note = _TITLES.get(name, (name, method.summary))
    return MethodInfo(name=name, title=title, note=note, takes_budget=method.takes_budget, signed=method.signed)


def _available(name: str, method: Method, inside: bool) -> bool:
    if name in _HIDDEN or (not inside and set(method.needs) & {"gradients", "attention"}):
        return False
    package = _PACKAGES.get(name) or _EXTRAS.get(method.extra or "")
    return package is None or find_spec(package) is not None
