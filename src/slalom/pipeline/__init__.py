"""How texts become explanations:

    read -> plan -> ask -> explain -> test
             ^                         |
             +--------- extend --------+      in rounds, where the budget is "auto" or the method chooses queries by the answers

read      the text as the model reads it, and its units
plan      the queries of the method, and the held-out queries that test it
ask       all queries of all texts at once, through the engine
explain   the method turns the scores into a surrogate
test      the surrogate predicts the held-out scores
extend    more queries of the method; the held-out ones stay the same

All texts that go on ask together, so that batches stay full.
"""

from slalom.pipeline.certifying import certify
from slalom.pipeline.options import LEAST_QUERIES, Options
from slalom.pipeline.pipeline import Pipeline
from slalom.pipeline.refining import refine
from slalom.pipeline.run import Step

__all__ = ["LEAST_QUERIES", "Options", "Pipeline", "Step", "certify", "refine"]
