"""Arrays on a device: numpy or torch for the same code, CUDA graphs, and the shapes that many problems share."""
