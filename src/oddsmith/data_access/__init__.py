"""Data that is not an array in memory: read, summarised, streamed through a fit or a prediction, written."""
