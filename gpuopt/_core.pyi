from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

__version__: str

class DeviceMemoryError(MemoryError):
    bytes_asked: int
    bytes_free: int

class DeviceError(RuntimeError): ...
class DeviceLost(DeviceError): ...

class SimError(RuntimeError):  # the attributes are None where it was no check that failed
    kind: str | None
    kernel: str | None
    file: str | None  # None: no line table, source_line is the PTX's
    source_line: int | None
    block: tuple[int, int, int] | None
    thread: tuple[int, int, int] | None
    address: int | None

class UnfitError(ValueError): ...

class PTXError(ValueError):
    line: int  # 0: not known
    column: int

def reduce(
    array: ArrayLike,
    op: str,
    variant: int | str | None,
    dtype: DTypeLike | None,
    out: np.ndarray | None,
    initial: Any,
    block: int | None,
    device: str | None,
    /,
) -> Any: ...
def call_kind(
    head: tuple[str, str, str, str], variant: Any, block: Any, device: str | None, /
) -> str: ...
def call(
    problem: tuple[Any, ...], variant: int | str | None, block: int | None, device: str | None, /
) -> Literal[False] | None: ...  # False: an input has gaps, and it would have to be copied
def reduce_resident(
    device: str,
    streams: tuple[int, ...],
    address: int,
    n: int,
    items: np.dtype,
    op: str,
    variant: int | str | None,
    result: np.dtype,
    initial: Any,
    block: int | None,
    to: int,
    /,
) -> Any: ...
def call_resident(
    device: str,
    streams: tuple[int, ...],
    problem: tuple[Any, ...],
    variant: int | str | None,
    block: int | None,
    /,
) -> None: ...
def owner(kind: str, address: int, /) -> int: ...
def is_current(kind: str, address: int, /) -> bool: ...
def put(device: str, streams: tuple[int, ...], address: int, array: np.ndarray, /) -> None: ...
def order(device: str, streams: tuple[int, ...], /) -> None: ...
def wait(device: str, stream: int, /) -> None: ...
def dlpack_export(
    owner: Any,
    address: int,
    shape: tuple[int, ...],
    code: int,
    bits: int,
    device_type: int,
    device_id: int,
    versioned: bool,
    read_only: bool,
    /,
) -> Any: ...
def dlpack_take(
    capsule: Any, /
) -> tuple[Any, int, tuple[int, ...], tuple[int, ...] | None, int, int, int, int, int, int]: ...
def exchange(type: type, /) -> Any | None: ...  # a capsule
def borrow(
    exchange: Any, value: Any, library: Any, dtypes: dict[int, np.dtype], /
) -> View | None: ...
def probes() -> list[tuple[str, str, str]]: ...
def rungs(family: str, /) -> list[dict[str, Any]]: ...
def tunings(family: str, /) -> list[dict[str, Any]]: ...
def float_state(before: bytes | None, /) -> bytes | None: ...
def float32_bits(value: float, /) -> int: ...
def demangle(name: str, /) -> str: ...
def host_threads() -> int: ...
def device_count(kind: str, /) -> int: ...
def device_info(name: str, /) -> dict[str, Any]: ...
def counter_table(kind: str, /) -> list[tuple[str, str, str]]: ...
def recorders(change: int, /) -> None: ...
def tracing(
    launches_before: int, block: tuple[int, int, int], warp: int, most_events: int, /
) -> Any: ...  # a capsule

recording: ContextVar[Any]

def sim_progress() -> tuple[int, int]: ...
def close_idle() -> tuple[int, int]: ...
def presets() -> list[dict[str, Any]]: ...
def config() -> dict[str, Any]: ...
def kernels() -> dict[str, str]: ...
def kernel_ptx(symbol: str, target: int, /) -> str: ...
def ptx_entries(ptx: bytes, /) -> dict[str, list[tuple[str, int]]]: ...
def sources() -> str: ...

@final
class View:
    def __init__(
        self,
        library: Any,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: np.dtype,
        device: str,
        stream: int,
        holder: Any,
        read_only: bool = False,
        waits: bool = False,
    ) -> None: ...
    @property
    def library(self) -> Any: ...
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def device(self) -> str: ...
    @property
    def stream(self) -> int: ...
    @property
    def holder(self) -> Any: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def waits(self) -> bool: ...
    def replace(self, **changes: Any) -> View: ...

@final
class Prepared:
    def __init__(
        self,
        device: str,
        problem: tuple[Any, ...],
        reaches: tuple[tuple[int, int, int, bool], ...],
    ) -> None: ...
    def queue(self, *views: View) -> bool: ...
    def value(self, view: View, /) -> np.generic | None: ...

@final
class Bench:
    def __init__(
        self,
        family: str | tuple[Any, ...],
        array: ArrayLike = ...,
        op: str = "sum",
        *,
        dtype: DTypeLike | None = None,
        device: str | None = None,
    ) -> None: ...
    @property
    def device(self) -> str: ...
    def run(
        self,
        variant: int | str | None = None,
        block: int | None = None,
        *,
        tuning: dict[str, int] | None = None,
    ) -> Any: ...
    def time(
        self,
        variant: int | str | None = None,
        block: int | None = None,
        *,
        runs: int = 1,
        cold: bool = False,
        tuning: dict[str, int] | None = None,
    ) -> float: ...
    def bytes(self, variant: int | str | None = None, block: int | None = None) -> int: ...
    def rung(self) -> str: ...

@final
class Memory:
    def __init__(self, nbytes: int, device: str | None = None) -> None: ...
    @property
    def device(self) -> str: ...
    @property
    def address(self) -> int: ...
    def copy_in(self, array: np.ndarray, /) -> None: ...
    def copy_out(self, array: np.ndarray, /) -> None: ...

@final
class Module:
    def __init__(self, ptx: bytes | None, device: str | None = None) -> None: ...
    @property
    def device(self) -> str: ...
    def alloc(self, nbytes: int, /) -> int: ...
    def free(self, address: int, /) -> None: ...
    def copy_in(self, address: int, buffer: Any, /) -> None: ...
    def copy_out(self, address: int, buffer: Any, /) -> None: ...
    def kernel(self, name: str, /) -> list[int]: ...
    def resources(self, name: str, /) -> tuple[int, int, int]: ...
    def variable(self, name: str, /) -> tuple[int, int]: ...
    def launch(
        self,
        launch: tuple[
            str,
            tuple[int, int, int],
            tuple[int, int, int],
            int,
            tuple[bytes | None, ...],
            tuple[int, float, float, int],
            tuple[tuple[int, int, int, str, bytes | None, bool], ...],
        ],
        streams: tuple[int, ...],
        kept: Any,
        /,
    ) -> None: ...
    def time(
        self,
        steps: tuple[tuple[int, tuple[Any, ...]], ...],
        runs: int,
        how: int,
        streams: tuple[int, ...],
        kept: Any,
        /,
    ) -> float: ...
    def pin(self, nbytes: int, /) -> int: ...
    def texture(
        self,
        address: int,
        width: int,
        height: int,
        channels: int,
        texel: int,
        linear_filter: bool,
        wrap: bool,
        normalised: bool,
        /,
    ) -> int: ...
    def adopt(self, stream: int, kept: Any = None, /) -> None: ...

def initial(value: Any, dtype: np.dtype, /) -> np.ndarray: ...

class Plan:
    def __init__(self, kind: str, fields: tuple[Any, ...]) -> None: ...
    def run(self, *arrays: np.ndarray) -> Any: ...

class Entry:
    def __init__(
        self,
        kinds: str,
        names: tuple[str, ...],
        planner: Callable[..., Plan | None],
        general: Callable[..., Any],
        viewer: Callable[[Any, str], View | None],
    ) -> None: ...
    def run(self, *arguments: Any) -> Any: ...
    def clear_cache(self) -> None: ...
