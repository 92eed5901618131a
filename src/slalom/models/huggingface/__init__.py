"""Hugging Face classifiers, language models and torch modules. Light to import: each name is in its own module."""
