"""Many texts: explain them all, resume, store as Parquet, and summarise what a model does in general."""
