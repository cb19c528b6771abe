"""The command line: ``python -m gpuopt``."""
