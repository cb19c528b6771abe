"""The available devices, and the rungs that the extension registers."""
