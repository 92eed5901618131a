"""The papers' tables and figures, one module each; `python -m experiments --help` lists them."""
