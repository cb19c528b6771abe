"""The same work by the libraries that people use, measured in the same run as the rungs.

Each library is imported only when it is asked for. A peer's times are by the host's clock, around
calls from Python that are waited for once at the end: what its user waits for.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

COLD_BYTES = 256 << 20  # all copies together, at least, for cold runs
COPIES_MOST = 64


@dataclass
class Peer:
    """A library's call on data that is where the library wants it.

    Attributes
    ----------
    name, version : str
    """

    name: str
    version: str
    _calls: list[Callable[[], Any]]  # one for each copy of the data
    _fetch: Callable[[Any], np.ndarray]
    _wait: Callable[[], None]

    def run(self) -> np.ndarray:
        """Return the result of one call."""
        return self._fetch(self._calls[0]())

    def time(self, runs: int, cold: bool) -> float:
        """Return seconds a call, of so many back to back; cold: on other data each time."""
        calls = self._calls if cold else self._calls[:1]
        calls[0]()
        self._wait()
        begin = time.perf_counter()
        for run in range(runs):
            last = calls[(run + 1) % len(calls)]()
        self._wait()
        del last
        return (time.perf_counter() - begin) / runs


def _like_numpy(xp: Any, family: str, op: str, dtype: str) -> Callable[..., Any]:
    """Return a family's call in NumPy's terms, which CuPy shares."""
    names = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}
    names |= {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    if family == "reduce":
        if op in ("sum", "prod", "min", "max"):
            wide = {"dtype": dtype} if op in ("sum", "prod") else {}
            return lambda x: getattr(xp, op)(x, **wide)
        return getattr(xp, names[op]).reduce
    return {
        "transpose": lambda a: xp.ascontiguousarray(a.T),
        "stencil1d": lambda a: xp.convolve(a, xp.ones(7, a.dtype), "same"),
        "add": lambda x, y: x + y,
        "saxpy": lambda a, x, y: x.dtype.type(a) * x + y,
        "matmul": lambda a, b: a @ b,
    }[family]


def _torch_call(torch: Any, family: str, op: str, dtype: str) -> Callable[..., Any]:
    if family == "reduce":
        kind = getattr(torch, dtype)
        return {
            "sum": lambda x: torch.sum(x, dtype=kind),
            "prod": lambda x: torch.prod(x, dtype=kind),
            "min": torch.min,
            "max": torch.max,
        }[op]
    return {
        "transpose": lambda a: a.T.contiguous(),
        "stencil1d": lambda a: torch.nn.functional.conv1d(
            a[None, None], torch.ones(1, 1, 7, dtype=a.dtype, device=a.device), padding=3
        )[0, 0],
        "add": lambda x, y: x + y,
        "saxpy": lambda a, x, y: torch.add(y, x, alpha=a),
        "matmul": torch.matmul,
    }[family]


def _copies(arguments: tuple[Any, ...]) -> int:
    size = sum(each.nbytes for each in arguments if isinstance(each, np.ndarray))
    return max(1, min(COPIES_MOST, COLD_BYTES // max(1, size)))


def _bound(
    call: Callable[..., Any], move: Callable[[np.ndarray], Any], arguments: tuple[Any, ...]
) -> list[Callable[[], Any]]:
    def one() -> Callable[[], Any]:
        moved = [move(each) if isinstance(each, np.ndarray) else each for each in arguments]
        return lambda: call(*moved)

    return [one() for _ in range(_copies(arguments))]


def _numpy(family: str, op: str, dtype: str, arguments: tuple[Any, ...], gpu: bool) -> Peer:
    del gpu
    calls = _bound(_like_numpy(np, family, op, dtype), np.copy, arguments)
    return Peer("NumPy", np.__version__, calls, np.asarray, lambda: None)


def _cupy(family: str, op: str, dtype: str, arguments: tuple[Any, ...], gpu: bool) -> Peer:
    if not gpu:
        raise LookupError("runs on GPUs only")
    cupy = importlib.import_module("cupy")
    calls = _bound(_like_numpy(cupy, family, op, dtype), cupy.asarray, arguments)
    return Peer("CuPy", cupy.__version__, calls, cupy.asnumpy, cupy.cuda.Device().synchronize)


def _torch(family: str, op: str, dtype: str, arguments: tuple[Any, ...], gpu: bool) -> Peer:
    torch = importlib.import_module("torch")
    if gpu and not torch.cuda.is_available():
        raise LookupError("sees no GPU")
    if family == "reduce" and op not in ("sum", "prod", "min", "max"):
        raise LookupError(f"has no {op} of all items")
    torch.backends.cuda.matmul.allow_tf32 = False
    where = "cuda" if gpu else "cpu"
    call = _torch_call(torch, family, op, dtype)
    calls = _bound(call, lambda each: torch.tensor(each, device=where), arguments)
    wait = torch.cuda.synchronize if gpu else lambda: None
    return Peer("PyTorch", torch.__version__, calls, lambda got: got.cpu().numpy(), wait)


def _jax(family: str, op: str, dtype: str, arguments: tuple[Any, ...], gpu: bool) -> Peer:
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    if gpu != (jax.default_backend() == "gpu"):
        raise LookupError(f"runs on its {jax.default_backend()} backend here")
    if np.dtype(dtype).itemsize == 8 and not jax.config.jax_enable_x64:
        raise LookupError("has no 64-bit types unless JAX_ENABLE_X64 is set")
    if family == "reduce" and op in ("and", "or", "xor"):
        raise LookupError(f"has no {op} of all items")
    plain = _like_numpy(jnp, family, op, dtype)
    if family == "transpose":  # under jit JAX may leave a transposed layout as it is
        plain = lambda a: jnp.swapaxes(a, 0, 1).copy()  # noqa: E731
    if family == "saxpy":
        plain = lambda a, x, y: a * x + y  # noqa: E731
    jitted, last = jax.jit(plain), [None]

    def call(*moved: Any) -> Any:
        last[0] = jitted(*moved)
        return last[0]

    calls = _bound(call, jnp.asarray, arguments)
    return Peer("JAX", jax.__version__, calls, np.asarray, lambda: jax.block_until_ready(last[0]))


_MAKERS = {"NumPy": _numpy, "CuPy": _cupy, "PyTorch": _torch, "JAX": _jax}


def find(
    family: str, op: str, dtype: str, arguments: tuple[Any, ...], gpu: bool
) -> tuple[list[Peer], list[tuple[str, str]]]:
    """Return the peers that are installed and can do this work, and why the others cannot.

    Parameters
    ----------
    family, op, dtype : str
        As for `gpuopt.ladder`.
    arguments : tuple
        Of the family's call; arrays and numbers.
    gpu : bool
        Run those that can on a GPU.

    Returns
    -------
    peers : list of Peer
    refused : list of (str, str)
        Name and reason.
    """
    peers: list[Peer] = []
    refused: list[tuple[str, str]] = []
    for name, make in _MAKERS.items():
        try:
            peers.append(make(family, op, dtype, arguments, gpu))
        except ImportError:
            refused.append((name, "not installed"))
        except LookupError as error:
            refused.append((name, str(error.args[0])))
        except Exception as error:  # a library that fails is left out, whatever it raises
            refused.append((name, f"{type(error).__name__}: {error}".splitlines()[0][:100]))
    return peers, refused
