"""What a model says of each word, learnt once from many texts: a prior for their explanations, and a picture of the model."""

from slalom.lexicon.lexicon import Lexicon

__all__ = ["Lexicon"]
