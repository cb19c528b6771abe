"""Helpers that know nothing of arrays or devices: argument checks, files, tables, SVG."""
