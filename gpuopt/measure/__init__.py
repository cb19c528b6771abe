"""Timing, verification and comparison: ladders, rooflines, benchmarks, sweeps, reports."""
