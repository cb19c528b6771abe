"""The devices there are, and the rungs that the extension registers."""
