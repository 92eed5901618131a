"""slalom: why did this transformer decide that?"""

__version__ = "0.1.0"
