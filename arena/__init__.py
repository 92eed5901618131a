"""The arena: methods that predict what a model says of parts of a text, on the same stored answers.

    python -m arena run METHOD [...]     fit and test methods; python -m arena run all
    python -m arena table                the table of all methods that have run, also as results/arena.md
    python -m arena ask CASE [...]       ask the models again (their answers are in arena/answers)

arena/README.md says how to add a method.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # models and texts are those of the benchmarks
