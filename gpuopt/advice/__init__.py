"""Advice: from a kernel's findings and counters to its mistakes, their reasons and remedies."""
