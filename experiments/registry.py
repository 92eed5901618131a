"""The experiments by name, in the order of the page with their results. A name of the paper that shares a run is an alias."""

EXPERIMENTS = {
    "proposition41": "a word repeated changes nothing for a transformer, so it is no sum (Proposition 4.1, Corollary 4.3)",
    "proposition51": "a transformer can be any SLALOM exactly (Proposition 5.1)",
    "proposition52": "a SLALOM is recovered exactly from 2 |V| - 1 queries (Proposition 5.2)",
    "figure1": "what BERT says to two passages does not add up, what Naive Bayes says does (Figure 1)",
    "figure9": "two words on which a GAM contradicts itself and SLALOM does not (Figure 9)",
    "table4": "accuracy of the classifiers of the real-data experiments (Table 4)",
    "table9": "rank correlation of the scores with Naive Bayes (Tables 1a and 9)",
    "table10": "AU-ROC of the scores for human attention (Tables 1b and 10)",
    "table11": "area over the perturbation curve (Tables 1c and 11)",
    "figure6": "strict fidelity: error of the predicted change for 1 to 10 removed tokens (Figure 6)",
    "figure5": "value against importance of the tokens of a review (Figures 5 and 12)",
    "figure11": "attribution maps of a review, by method, beside what a person marked (Figure 11)",
    "table12": "insertion and deletion for a TF-IDF network, which is no transformer (Table 12)",
    "table13": "seconds of an explanation by the number of samples (Tables 2 and 13)",
    "table14": "how many samples SLALOM-eff needs (Table 14)",
    "table15": "human attention by explanations of a BLOOM and a Mamba (Table 15)",
}
ALIASES: dict[str, str] = {
    "table1a": "table9",
    "table1b": "table10",
    "table1c": "table11",
    "table2": "table13",
    "figure12": "figure5",
}
