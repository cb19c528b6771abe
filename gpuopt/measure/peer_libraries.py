"""The same work by the libraries that people use, measured in the same run as ours.

A library is imported when it is first used. A peer's times are by the host's clock, around calls
from Python and one wait at the end, as its user sees them. Data and calls are on the GPU that is
measured. A library's current GPU stays as it was; JAX alone leaves CUDA on the GPU that it used.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from gpuopt.families.reduce_axis import UFUNCS
from gpuopt.measure.race import Contender, Timing, host_seconds

COLD_BYTES = 256 << 20  # all copies of the data together, for cold runs
COPIES_MOST = 4096  # which is less where the data is small: a copy is an object of Python's
CACHES = 2  # least size of all copies over the last-level cache's for cold runs

# An operand as a part of a contiguous array, or in another order; `view_of` reads others.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "": lambda a: a,
    "reversed": lambda a: a[::-1],
    "Fortran order": lambda a: a.T,
}


@cache
def view_of(text: str) -> Callable[[Any], Any]:
    """Return a view by its text: a name of `VIEWS`, or "[:, 2:9:3]", ".transpose(1, 0)" or both."""
    if text in VIEWS:
        return VIEWS[text]
    found = re.fullmatch(r"(?:\[(.+)\])?(?:\.transpose\((.+)\))?", text)
    if not found or not text:
        raise ValueError(f"no view: {text!r}")
    index, order = found.groups()
    parts = [part.strip().split(":") for part in index.split(",")] if index else []
    slices = tuple(slice(*(int(n) if n else None for n in part)) for part in parts)
    axes = tuple(map(int, order.split(","))) if order else None

    def view(a: Any) -> Any:
        a = a[slices] if slices else a
        if axes is None:
            return a
        return a.permute(axes) if hasattr(a, "permute") else a.transpose(axes)

    return view


class LeftOutError(Exception):
    """Why a library cannot take part, or a work is not measured: what the table says of it."""


@dataclass(frozen=True)
class Task:
    """An operation on some arrays, for every library.

    Attributes
    ----------
    family : str
        "reduce", "transpose", "stencil1d", "add", "saxpy" or "matmul".
    op : str
        The reduction's: a ufunc's as `gpuopt.reduce` calls it, or "argmax".
    dtype : str
        The result's.
    axis : int, tuple of int or None
        A reduction's or a stencil's; None: of all items, along the last.
    axes : tuple of int or None
        Axes of a transpose; None: a matrix's.
    radius, weighted, mode, origin : int, bool, str, int
        The stencil's.
    even : bool
        The stencil's window lacks its last input: it has 2 * radius.
    views : tuple of str
        How the operands are viewed, as `view_of` reads it; those left out are whole.
    number : bool
        The second operand of "add" is a number.
    as_number : bool
        A reduction's result is wanted as a number in Python.
    from_host : bool
        The array is NumPy's and stays so: the call brings it to the GPU. Its result is a number.
    """

    family: str
    op: str = "sum"
    dtype: str = "float32"
    axis: int | tuple[int, ...] | None = None
    axes: tuple[int, ...] | None = None
    radius: int = 3
    weighted: bool = False
    mode: str = "constant"
    origin: int = 0
    even: bool = False
    views: tuple[str, ...] = ()
    number: bool = False
    as_number: bool = False
    from_host: bool = False

    def viewed(self, given: Iterable[Any]) -> list[Any]:
        """Return a call's arguments with the operands' views; numbers stay."""
        views = iter(self.views)
        return [
            each if isinstance(each, int | float) else view_of(next(views, ""))(each)
            for each in given
        ]

    @property
    def weights(self) -> np.ndarray | None:
        """A stencil's weights, from -1 to 1; None: all are 1."""
        return np.cos(np.arange(float(self.width))) if self.weighted else None

    @property
    def width(self) -> int:
        """The inputs of a stencil's window."""
        return 2 * self.radius + 1 - self.even


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
    # Makes the GPU that is measured the library's current one.
    _current: Callable[[], AbstractContextManager[Any]] = nullcontext
    # Cold calls so far: each takes the copy that was used longest ago.
    _turn: int = field(default=0, init=False)

    @property
    def copies(self) -> int:
        """How many copies of the data cold runs go through."""
        return len(self._calls)

    def run(self) -> np.ndarray:
        """Return the result of one call."""
        with self._current():
            return self._fetch(self._calls[0]())

    def contender(self, error_of: Callable[[np.ndarray], str], cold: bool) -> Contender:
        """Return the library for a race; its exceptions, and wrong results, end its race alone."""

        def verify() -> None:
            error = error_of(self.run())
            if error:
                raise LeftOutError(f"gave {error}"[:160])

        timing = Timing() if cold else None
        return Contender(self.time, verify, cold=timing, excuse=why, name=self.name)

    def time(self, runs: int, cold: bool) -> float:
        """Return seconds per call, for a number back to back; cold: on other data each time."""
        turn = self._turn if cold else 0
        calls = self._calls if cold else self._calls[:1]
        with self._current():  # once: it takes as long as some calls
            calls[turn % len(calls)]()
            self._wait()
            seconds = host_seconds(calls, runs, self._wait, turn + 1)
        self._turn += (1 + runs) * cold
        return seconds


def _reduced_like_numpy(xp: Any, task: Task) -> Callable[..., Any]:
    op = task.op
    if op in ("and", "or", "xor"):
        return getattr(xp, UFUNCS[op].__name__).reduce
    more: dict[str, Any] = {"dtype": task.dtype} if op in ("sum", "prod") else {}
    if task.axis is not None:
        more["axis"] = task.axis
    return lambda x: getattr(xp, op)(x, **more)


def _like_numpy(xp: Any, task: Task) -> Callable[..., Any]:
    """Return a task's call in NumPy's terms, which CuPy and JAX share."""
    if task.family == "reduce":
        call = _reduced_like_numpy(xp, task)
        return (lambda x: float(call(x))) if task.as_number else call
    if task.family == "stencil1d" and (task.weighted or task.axis is not None):
        raise LeftOutError("has no stencil along an axis")
    return {
        "transpose": lambda a: xp.ascontiguousarray(xp.transpose(a, task.axes)),
        "stencil1d": lambda a: xp.convolve(a, xp.ones(task.width, a.dtype), "same"),
        "add": lambda x, y: x + y,
        "saxpy": lambda a, x, y: a * x + y,
        "matmul": lambda a, b: a @ b,
    }[task.family]


def _torch_reduction(torch: Any, task: Task) -> Callable[..., Any]:
    along = {} if task.axis is None else {"dim": task.axis}
    if task.op in ("sum", "prod"):
        kind = getattr(torch, task.dtype)
        return lambda x: getattr(torch, task.op)(x, dtype=kind, **along)
    if task.op in ("min", "max") and along:
        function = {"min": torch.amin, "max": torch.amax}[task.op]
    else:
        function = getattr(torch, task.op)
    return lambda x: function(x, **along)


def _torch_stencil(torch: Any, task: Task) -> Callable[..., Any]:
    if task.mode != "constant":
        raise LeftOutError(f"convolves with zeros beyond the ends, not {task.mode!r}")
    if task.even or task.origin:
        raise LeftOutError("pads both sides alike")
    kernel = torch.tensor(_weights(np, task, np.float64))[None, None]
    moved: list[Any] = []

    def call(a: Any) -> Any:
        if task.axis is not None and task.axis != a.ndim - 1:
            raise LeftOutError("convolves along the last axis")
        if not moved:
            moved.append(kernel.to(a.device, a.dtype))
        rows = a.reshape(-1, 1, a.shape[-1])
        return torch.nn.functional.conv1d(rows, moved[0], padding=task.radius).reshape(a.shape)

    return call


def _torch_call(torch: Any, task: Task) -> Callable[..., Any]:
    if task.family == "reduce":
        call = _torch_reduction(torch, task)
        return (lambda x: call(x).item()) if task.as_number else call
    if task.family == "stencil1d":
        return _torch_stencil(torch, task)
    axes = task.axes or (1, 0)
    return {
        "transpose": lambda a: a.permute(axes).contiguous(),
        "add": lambda x, y: x + y,
        "saxpy": lambda a, x, y: torch.add(y, x, alpha=a),
        "matmul": torch.matmul,
    }[task.family]


def _bytes_of(arguments: tuple[Any, ...]) -> int:
    return sum(each.nbytes for each in arguments if isinstance(each, np.ndarray))


def copies_for(size: int) -> int:
    """Return how many copies of the data cold runs go through."""
    return max(1, min(COPIES_MOST, COLD_BYTES // max(1, size)))


def copies_of(arguments: tuple[Any, ...]) -> int:
    """Return how many copies of the data cold runs go through."""
    if isinstance(arguments, Arguments) and not arguments.cold:
        return 1
    return copies_for(_bytes_of(arguments))


def can_be_cold(arguments: tuple[Any, ...], cache_bytes: int) -> bool:
    """Tell whether the copies are more than a cache holds: else none of its times is a cold one."""
    return copies_of(arguments) * _bytes_of(arguments) >= CACHES * cache_bytes


class Arguments(tuple[Any, ...]):
    """A call's arguments, and each library's own copies of them, all on the one device measured.

    Where tasks have the same ones in turn, each library moves them once: moving takes longer than
    most calls. Without `cold` runs a library needs one copy.
    """

    copies: dict[str, list[list[Any]]]
    cold: bool

    def __new__(cls, given: Iterable[Any], cold: bool = True) -> Arguments:
        """Make the tuple, with no copies yet."""
        made = super().__new__(cls, given)
        made.copies, made.cold = {}, cold
        return made

    @property
    def held(self) -> int:
        """Bytes of all copies."""
        return sum(map(len, self.copies.values())) * _bytes_of(self)


def moved(
    library: str, move: Callable[[np.ndarray], Any], arguments: tuple[Any, ...]
) -> list[list[Any]]:
    """Return copies of the arguments where a library wants them, those of `Arguments` made once."""
    kept = arguments.copies if isinstance(arguments, Arguments) else {}
    if library not in kept:
        kept[library] = [
            [move(each) if isinstance(each, np.ndarray) else each for each in arguments]
            for _ in range(copies_of(arguments))
        ]
    return kept[library]


def bound(
    library: str,
    call: Callable[..., Any],
    move: Callable[[np.ndarray], Any],
    arguments: tuple[Any, ...],
    from_host: bool = False,
    viewed: Callable[[Iterable[Any]], list[Any]] = list,
) -> list[Callable[[], Any]]:
    """Return the call on copies of the data, each moved to where a library wants it, and viewed.

    `from_host`: the data stays where it is, and each call moves it; its result is a number.
    """
    if from_host:
        here = moved(library, lambda each: each, tuple(arguments))
        return [lambda given=given: float(call(*map(move, given))) for given in here]
    there = map(viewed, moved(library, move, arguments))
    return [lambda given=given: call(*given) for given in there]


def _numpy(task: Task, arguments: tuple[Any, ...], gpu: int | None) -> Peer:
    del gpu
    calls = bound("NumPy", _like_numpy(np, task), np.copy, arguments, viewed=task.viewed)
    return Peer("NumPy", np.__version__, calls, np.asarray, lambda: None)


def _weights(xp: Any, task: Task, dtype: Any) -> Any:
    """Return a stencil's weights where a library wants them."""
    return xp.ones(task.width, dtype) if task.weights is None else xp.asarray(
        task.weights, dtype)  # fmt: skip


def _correlated(ndimage: Any, xp: Any, task: Task) -> Callable[..., Any]:
    """Return the stencil of scipy.ndimage, or of CuPy's."""
    made: list[Any] = []  # the weights, once the array's dtype is known

    def call(a: Any) -> Any:
        if not made:
            made.append(_weights(xp, task, a.dtype))
        axis = -1 if task.axis is None else task.axis
        return ndimage.correlate1d(a, made[0], axis, mode=task.mode, origin=task.origin)

    return call


def _scipy(task: Task, arguments: tuple[Any, ...], gpu: int | None) -> Peer:
    del gpu
    scipy = importlib.import_module("scipy")
    ndimage = importlib.import_module("scipy.ndimage")
    calls = bound("SciPy", _correlated(ndimage, np, task), np.copy, arguments, viewed=task.viewed)
    return Peer("SciPy", scipy.__version__, calls, np.asarray, lambda: None)


def _cupy(task: Task, arguments: tuple[Any, ...], gpu: int | None) -> Peer:
    if gpu is None:
        raise LeftOutError("runs on GPUs only")
    cupy = importlib.import_module("cupy")
    if task.family == "stencil1d":
        call = _correlated(importlib.import_module("cupyx.scipy.ndimage"), cupy, task)
    else:
        call = _like_numpy(cupy, task)
    current = partial(cupy.cuda.Device, gpu)
    with current():
        calls = bound("CuPy", call, cupy.asarray, arguments, task.from_host, task.viewed)
    wait = current().synchronize
    return Peer("CuPy", cupy.__version__, calls, cupy.asnumpy, wait, current)


def _cublas(task: Task, arguments: tuple[Any, ...], gpu: int | None) -> Peer:
    """Transpose by cuBLAS's geam: 1 * a + 0 * a, written in the other order."""
    if gpu is None:
        raise LeftOutError("runs on GPUs only")
    if task.axes is not None or task.views or task.dtype not in ("float32", "float64"):
        raise LeftOutError("transposes matrices of float32 and float64")
    cupy = importlib.import_module("cupy")
    geam = importlib.import_module("cupy.cublas").geam
    current = partial(cupy.cuda.Device, gpu)
    with current():
        calls = bound("cuBLAS", lambda a: geam("N", "N", 1.0, a, 0.0, a).T, cupy.asarray, arguments)
        version = str(cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle()))
    return Peer("cuBLAS", version, calls, cupy.asnumpy, current().synchronize, current)


def _to_torch(torch: Any, where: str) -> Callable[[np.ndarray], Any]:
    def move(array: np.ndarray) -> Any:
        if array.dtype.name != "bfloat16":
            return torch.tensor(array, device=where)
        return torch.tensor(array.view(np.int16), device=where).view(torch.bfloat16)

    return move


def _from_torch(torch: Any) -> Callable[[Any], np.ndarray]:
    def fetch(got: Any) -> np.ndarray:
        if not isinstance(got, torch.Tensor):
            return np.asarray(got)
        return (got.float() if got.dtype == torch.bfloat16 else got).cpu().numpy()

    return fetch


def _torch(task: Task, arguments: tuple[Any, ...], gpu: int | None) -> Peer:
    torch = importlib.import_module("torch")
    if gpu is not None and not torch.cuda.is_available():
        raise LeftOutError("sees no GPU")
    if gpu is not None and gpu >= torch.cuda.device_count():
        raise LeftOutError(f"does not see cuda:{gpu}")
    if task.family == "reduce" and task.op in ("and", "or", "xor"):
        raise LeftOutError(f"has no {task.op} of all items")
    torch.backends.cuda.matmul.allow_tf32 = False
    where, wait, current = "cpu", lambda: None, nullcontext
    if gpu is not None:
        where, wait = f"cuda:{gpu}", partial(torch.cuda.synchronize, gpu)
        current = partial(torch.cuda.device, gpu)
    call, move = _torch_call(torch, task), _to_torch(torch, where)
    if task.from_host:
        move = lambda each: torch.from_numpy(each).to(where)  # noqa: E731
    calls = bound("PyTorch", call, move, arguments, task.from_host, task.viewed)
    return Peer("PyTorch", torch.__version__, calls, _from_torch(torch), wait, current)


def _without_tf32(jax: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call with products of the dtype's own precision: a GPU's default has 10 bits."""

    def exact(*moved: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return call(*moved)

    return exact


def _jax_current(jax: Any, gpu: int | None) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes a GPU the one that JAX computes on; LeftOutError where it sees none such.

    JAX numbers its devices anew where JAX_CUDA_VISIBLE_DEVICES or a cluster gives it some of them:
    the driver's number is each one's `local_hardware_id`.
    """
    if (gpu is not None) != (jax.default_backend() == "gpu"):
        raise LeftOutError(f"runs on its {jax.default_backend()} backend here")
    if gpu is None:
        return nullcontext
    for each in jax.local_devices():
        if each.local_hardware_id == gpu:
            return partial(jax.default_device, each)
    raise LeftOutError(f"does not see cuda:{gpu}")


def _jax(task: Task, arguments: tuple[Any, ...], gpu: int | None) -> Peer:
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    current = _jax_current(jax, gpu)
    widths = [each.itemsize for each in arguments if isinstance(each, np.ndarray)]
    if task.family != "reduce" or task.op in ("sum", "prod"):
        widths.append(np.dtype(task.dtype).itemsize)
    if max(widths) >= 8 and not jax.config.jax_enable_x64:
        raise LeftOutError("has no 64-bit types unless JAX_ENABLE_X64 is set")
    if task.family == "reduce" and task.op in ("and", "or", "xor"):
        raise LeftOutError(f"has no {task.op} of all items")
    plain = _like_numpy(jnp, task)
    if task.family == "reduce":
        plain = _reduced_like_numpy(jnp, task)  # a number is made outside of jit
    if task.family == "transpose":  # under jit JAX may leave a transposed layout as it is
        plain = lambda a: jnp.transpose(a, task.axes).copy()  # noqa: E731
    if task.family == "saxpy":
        plain = lambda a, x, y: a * x + y  # noqa: E731
    # JAX has no views: its slices are part of the work that is compiled.
    viewed = lambda *given: plain(*task.viewed(given))  # noqa: E731
    jitted, last = jax.jit(_without_tf32(jax, viewed if task.views else plain)), [None]

    def call(*moved: Any) -> Any:
        last[0] = jitted(*moved)
        return float(last[0]) if task.as_number else last[0]

    def wait() -> None:
        jax.block_until_ready(last[0])

    with current():
        calls = bound("JAX", call, jnp.asarray, arguments, task.from_host)
    return Peer("JAX", jax.__version__, calls, np.asarray, wait, current)


_MAKERS: dict[str, Callable[[Task, tuple[Any, ...], int | None], Peer]] = {
    "NumPy": _numpy,
    "SciPy": _scipy,
    "CuPy": _cupy,
    "cuBLAS": _cublas,
    "PyTorch": _torch,
    "JAX": _jax,
}
_ONLY = {"SciPy": "stencil1d", "cuBLAS": "transpose"}  # elsewhere others stand for them
NAMES = tuple(_MAKERS)
ON_HOST = ("NumPy", "SciPy")


def names(family: str) -> list[str]:
    """Return the libraries that have something for a family."""
    return [name for name in _MAKERS if _ONLY.get(name, family) == family]


def find(
    task: Task,
    arguments: tuple[Any, ...],
    gpu: int | None,
    wanted: Sequence[str] | None = None,
) -> tuple[list[Peer], list[tuple[str, str]]]:
    """Return the peers that are installed and can do a task, and why the others cannot.

    Parameters
    ----------
    task : Task
    arguments : tuple
        Arguments of the family's call; arrays and numbers.
    gpu : int or None
        The driver's number of the GPU that those run on that can, 1 for "cuda:1"; None: the host.
    wanted : sequence of str, optional
        Their names; default: all that have something for the family.

    Returns
    -------
    peers : list of Peer
    refused : list of (str, str)
        Name and reason.
    """
    peers: list[Peer] = []
    refused: list[tuple[str, str]] = []
    for name in names(task.family) if wanted is None else wanted:
        try:
            peers.append(_MAKERS[name](task, arguments, gpu))
        except Exception as error:  # a library that fails is left out, whatever it raises
            refused.append((name, why(error)))
    return peers, refused


_PACKAGES = ("numpy", "scipy", "cupy", "torch", "jax")


def why(error: Exception) -> str:
    """Return in one short line why a library is left out."""
    if isinstance(error, LeftOutError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _PACKAGES:
        return "not installed"
    return f"{type(error).__name__}: {error}".splitlines()[0][:100]


def release(gpu: int | None) -> None:
    """Give back the memory of a GPU that libraries keep for later; None: they were on the host."""
    cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
    # A library that cannot release its memory does not end the measurement.
    if cupy and gpu is not None:
        with suppress(Exception), cupy.cuda.Device(gpu):  # the pool frees the current GPU's alone
            cupy.get_default_memory_pool().free_all_blocks()
    if torch and gpu is not None:
        with suppress(Exception):
            if torch.cuda.is_initialized():  # entering a device would do that
                with torch.cuda.device(gpu):  # else it takes memory of the current GPU
                    torch.cuda.empty_cache()
