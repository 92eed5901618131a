"""Which source made a language model say this."""

from slalom.contexts.explainer import ContextExplainer, context
from slalom.contexts.inputs import language_model_of, sources_of

__all__ = ["ContextExplainer", "context", "language_model_of", "sources_of"]
