"""Methods that look inside a torch model: gradients, attention, relevance. Light to import: torch comes in when one is used."""
