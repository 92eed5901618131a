"""Definitions of networks, without weights: blank classifiers of a chosen size, and one layer of attention. Needs torch."""
