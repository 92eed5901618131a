"""Everything that shows results: notebook, terminal, figures, page."""
