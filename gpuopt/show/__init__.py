"""Results as text, HTML and plots."""
