"""Reads the kernels of mistakes.cu and clean.cu, and launches them."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

import gpuopt

FOLDER = Path(__file__).parent


class Case(NamedTuple):
    name: str
    rule: str  # "" for a clean kernel
    launch: str
    options: str
    source: str
    line: int


def read(name):
    found = []
    for part in (FOLDER / name).read_text().split("////")[1:]:
        head, _, source = part.partition("\n")
        fields = [each.strip() for each in head.split("|")]
        if name.startswith("clean"):
            fields.insert(1, "")
        marked = [i for i, text in enumerate(source.split("\n"), 1) if "/*!*/" in text]
        options = fields[3] if len(fields) > 3 else ""
        found.append(Case(*fields[:3], options, source, marked[0] if marked else 0))
    return found


def _values(seed=1):
    rng = np.random.default_rng(seed)
    return {
        "r": lambda n: rng.random(n, np.float32),
        "d": lambda n: rng.random(n),
        "dz": lambda n: np.zeros(n),
        "z": lambda n: np.zeros(n, np.float32),
        "i": lambda n, most: rng.integers(0, most, n, np.int32),
        "zi": lambda n: np.zeros(n, np.int32),
        "one": lambda n: np.ones(n, np.int32),
        "full": lambda n, value: np.full(n, value, np.int32),
        "u8": lambda n: rng.integers(0, 256, n, np.uint8),
        "zu8": lambda n: np.zeros(n, np.uint8),
        "hub": lambda n, at, degree: np.concatenate(
            [[0], np.cumsum(np.where(np.arange(n) == at, degree, 1))]
        ).astype(np.int32),
        "csr_rows": lambda n, each: np.arange(0, each * n + 1, each, dtype=np.int32),
    }


def launch(case, device="sim"):
    """Return the kernel, its arguments, the grid and the block first, and its keywords."""
    call = re.fullmatch(r"([\w<>]+)\((.*)\)", case.launch)
    names = [call[1]] if "<" in call[1] else None
    module = gpuopt.compile(case.source, options=case.options.split(), names=names, device=device)
    values = {"__builtins__": {}, "bound": lambda *given, **named: (given, named)} | _values()
    arguments, keywords = eval(f"bound({call[2]})", values)
    return module[call[1]], arguments, keywords
