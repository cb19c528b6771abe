"""Kernels of the user's own: PTX modules, their parameters and buffers."""
