"""The public functions, and how each call becomes a problem for the extension."""
