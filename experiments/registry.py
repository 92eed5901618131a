"""The experiments by name, in the order of the page with their results. A name of the paper that shares a run is an alias."""

EXPERIMENTS = {
    "proposition52": "a SLALOM is recovered exactly from 2 |V| - 1 queries (Proposition 5.2)",
    "table4": "accuracy of the classifiers of the real-data experiments (Table 4)",
}
ALIASES: dict[str, str] = {}
