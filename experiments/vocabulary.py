"""The words of the linear data set, with their weights and how often they occur (Table 3)."""

WORDS: tuple[str, ...] = ("the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst")
WEIGHTS: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.6, 1.0, 1.5, -0.6, -1.0, -1.5)
PROBABILITIES: tuple[float, ...] = (1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 15, 1 / 20, 1 / 20, 1 / 15, 1 / 20, 1 / 20)
