"""The experiments by name, in the order of the page with their results. A name of the paper that shares a run is an alias."""

EXPERIMENTS = {
    "proposition41": "a word repeated changes nothing for a transformer, so it is no sum (Proposition 4.1, Corollary 4.3)",
    "proposition51": "a transformer can be any SLALOM exactly (Proposition 5.1)",
    "proposition52": "a SLALOM is recovered exactly from 2 |V| - 1 queries (Proposition 5.2)",
    "figure1": "what BERT says to two passages does not add up, what Naive Bayes says does (Figure 1)",
    "figure9": "two words on which a GAM contradicts itself and SLALOM does not (Figure 9)",
}
ALIASES: dict[str, str] = {}
