"""The public functions, which describe each call as a problem for the extension."""
