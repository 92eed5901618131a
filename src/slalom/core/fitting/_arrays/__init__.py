"""Arrays on a device: numpy or torch for the same code."""
