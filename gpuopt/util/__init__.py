"""Helpers without knowledge of arrays or devices: argument checks, files, tables, SVG."""
