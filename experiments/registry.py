"""The experiments by name, in the order of the page with their results. A name of the paper that shares a run is an alias."""

EXPERIMENTS = {
    "proposition52": "a SLALOM is recovered exactly from 2 |V| - 1 queries (Proposition 5.2)",
    "figure3": "transformers taught a linear model answer repeated words with a constant (Figure 3)",
    "table6": "surrogates of transformers that were taught a linear model (Table 6, figures 4ab, 9, 10)",
    "table7": "a SLALOM is found again in transformers that were taught it (tables 7 and 8, figure 4cd)",
    "figure7": "Shapley values do not recover a linear model from transformers (Figure 7)",
}
ALIASES: dict[str, str] = {
    "figure4ab": "table6",
    "figure9": "table6",
    "figure10": "table6",
    "table8": "table7",
    "figure4cd": "table7",
}
