"""The names that arguments accept, for type checkers; tests compare them with the tables."""

from __future__ import annotations

from typing import Literal, TypeAlias

Family: TypeAlias = Literal[
    "reduce",
    "transpose",
    "stencil1d",
    "add",
    "saxpy",
    "matmul",
]
Ufunc: TypeAlias = Literal[
    "sum",
    "prod",
    "min",
    "max",
    "and",
    "or",
    "xor",
]
Op: TypeAlias = Literal[
    "sum",
    "prod",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "mean",
    "any",
    "all",
    "count",
    "argmin",
    "argmax",
]
Mode: TypeAlias = Literal[
    "constant",
    "nearest",
    "reflect",
    "mirror",
    "wrap",
    "valid",
]
DeviceName: TypeAlias = Literal[
    "cuda",
    "cpu",
    "sim",
    "sim:g80",
    "sim:gt200",
    "sim:m2090",
    "sim:k40",
    "sim:v100",
    "sim:t4",
    "sim:a100",
    "sim:a10",
    "sim:l4",
    "sim:h200",
    "sim:b200",
    "sim:rtx5090",
]
ReduceRung: TypeAlias = Literal[
    "interleaved",
    "consecutive",
    "sequential",
    "first-add",
    "last-warp",
    "5-historical",
    "unrolled",
    "cascading",
    "shuffle",
    "vector",
    "shares",
    "single-pass",
    "bulk",
    "dynamic",
    "serial",
    "openmp",
    "simd",
    "shapes",
    "team",
]
TransposeRung: TypeAlias = Literal[
    "copy",
    "1d",
    "2d",
    "tex",
    "shared",
    "padded",
    "multi",
    "vector",
    "serial",
    "openmp",
    "simd",
]
StencilRung: TypeAlias = Literal[
    "global",
    "shared",
    "2-historical",
    "registers",
    "vector",
    "shared-sums",
    "serial",
    "openmp",
    "simd",
]
VectorRung: TypeAlias = Literal[
    "one-thread",
    "blocks",
    "threads",
    "blocks-threads",
    "bounds",
    "grid-stride",
    "vector",
    "serial",
    "openmp",
    "simd",
]
MatmulRung: TypeAlias = Literal[
    "naive",
    "shared",
    "2-targets",
    "4-targets",
    "8-targets",
    "2d-targets",
    "words",
    "async",
    "warp-tiles",
    "tuned",
    "stream-k",
    "serial",
    "openmp",
    "simd",
]
AnyRung: TypeAlias = ReduceRung | TransposeRung | StencilRung | VectorRung | MatmulRung
