"""`slalom serve`: explanations on a live page, and as a REST API."""
