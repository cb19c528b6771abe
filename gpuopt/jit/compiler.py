"""CUDA C++ from a text or a file to a `Module`."""

from __future__ import annotations

import base64
import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpuopt import _core
from gpuopt.jit import cache
from gpuopt.jit.errors import CompileError
from gpuopt.jit.find import find
from gpuopt.jit.request import OLDEST, SECONDS, SOURCE_MOST, Made, Request, Text
from gpuopt.ptx.module import Module
from gpuopt.util.checks import finite
from gpuopt.util.names import suggests

FORMAT = 4  # of a result on disk
REMEMBERED = 64  # results of this process
HEADERS = (".h", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".cu", "")
FILES_MOST = 10_000  # below the folders of `include`

_made: OrderedDict[str, Made] = OrderedDict()


def _read(source: Any) -> Text:
    """Return the text of a source argument."""
    if isinstance(source, Text):
        return source
    if isinstance(source, str) and (re.search(r"[\n{};]", source) or not source.strip()):
        return Text("kernel.cu", source)
    if isinstance(source, bytes):
        return Text("kernel.cu", source.decode("utf-8", "replace"))
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.stat().st_size > SOURCE_MOST:
            raise CompileError(
                f"{path.name}: the source has {path.stat().st_size:,} bytes; the limit is "
                f"{SOURCE_MOST:,}"
            )
        return Text(path.name, path.read_text(encoding="utf-8", errors="replace"))
    raise TypeError(
        f"source: must be CUDA C++ as a string, or a file's path, not {type(source).__name__}"
    )


def _strings(given: Any, name: str) -> tuple[str, ...]:
    """Return an argument that is one string or several."""
    if given is not None and not isinstance(given, str | os.PathLike | Iterable):
        raise TypeError(f"{name}: must be a string or several, not {given!r:.60}")
    listed = (given,) if isinstance(given, str | os.PathLike) else tuple(given or ())
    for each in listed:
        if not isinstance(each, str | os.PathLike):
            raise TypeError(f"{name}: must be strings, not {each!r:.60}")
        if "\0" in str(each):
            raise ValueError(f"{name}: {str(each)!r:.60} holds a NUL character")
    return tuple(str(each) for each in listed if each != "")


def _state(folders: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the headers below a caller's folders, as a part of the cache's key."""
    found = []
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix in HEADERS and path.is_file():
                about = path.stat()
                found.append((str(path), about.st_size, about.st_mtime_ns))
                if len(found) > FILES_MOST:
                    raise ValueError(
                        f"include: more than {FILES_MOST:,} files are below {folder!r}; name the "
                        f"folder of the headers"
                    )
    return found


def build(request: Request, seconds: float) -> Made:
    """Return a request's results: remembered, kept on disk, or compiled now."""
    compiler = find()
    state = (request, compiler, _state(request.include), FORMAT, _core.__version__)
    key = cache.key(*state)
    if key in _made:
        _made.move_to_end(key)
        return _made[key]
    kept = cache.load(key)
    if kept:
        made = Made(
            kept["ptx"].encode(), base64.b64decode(kept["image"]), kept["symbols"], kept["log"]
        )
    else:
        from gpuopt.jit import making  # with what runs processes: a third of a cached call's time

        made = making.compiled(request, compiler, seconds)
        image = base64.b64encode(made.image).decode()
        told = made._asdict() | {"ptx": made.ptx.decode("latin-1"), "image": image}
        cache.save(key, told)
    _made[key] = made
    while len(_made) > REMEMBERED:
        _made.popitem(last=False)
    return made


def _arch(arch: Any, device: str) -> tuple[str, bool]:
    """Return the architecture to compile for, and whether the caller chose it."""
    simulated = device.startswith("sim")
    if arch is None:
        number = max(OLDEST, _core.device_info(device)["compute_capability"])
        return (f"compute_{number}" if simulated else f"sm_{number}"), False
    text = str(arch)
    found = re.fullmatch(r"(?:sm_|compute_)?(\d{2,3}[af]?)", text)
    if not found:
        raise ValueError(f"arch: {text!r:.40} is none; use 'sm_90', 'compute_75' or 80")
    if simulated:  # it runs PTX
        return f"compute_{found[1]}", True
    return (text if "_" in text else f"sm_{text}"), True


@suggests
def compile(
    source: str | bytes | os.PathLike[str],
    *,
    options: str | Iterable[str] = (),
    arch: str | int | None = None,
    names: str | Iterable[str] | None = None,
    include: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    device: str | None = None,
    time_limit: float = SECONDS,
) -> Module:
    """Compile CUDA C++ and load its kernels, for a GPU or a simulated GPU.

    NVRTC compiles (``pip install 'gpuopt[jit]'``): it needs no GPU, no driver and no toolkit.
    Without it nvcc does, if there is one. The result is kept on disk (`gpuopt.clear_cache`).

    Parameters
    ----------
    source : str, bytes or path
        The source, or the path of a file that holds it. A str with a line break, a brace or a
        semicolon is source. It holds device code only, no ``main()``.
    options : str or iterable of str
        More options of the compiler, as ``"--use_fast_math"``, ``"-DTILE=32"`` or
        ``"--maxrregcount=32"``, which caps a simulated GPU's estimate of the registers, too. It has
        ``--std=c++17`` and ``-lineinfo`` already.
    arch : str or int, optional
        "sm_90", "compute_80", 75: default: the device's. For a GPU machine code is made, for a
        simulated GPU PTX.
    names : str or iterable of str, optional
        Instances of templates, as ``"scale<float>"``; each is then a kernel of that name.
    include : path or iterable of paths
        Folders of your own headers. Without it a source may include the headers of CUDA (such as
        ``cooperative_groups.h``, ``cuda_fp16.h``, ``mma.h``, ``cuda/std/atomic``, ``cuda/barrier``,
        ``cub/block/block_reduce.cuh``) and the usual ones of C and C++ (``stdint.h``,
        ``type_traits``), as far as device code uses them.
    device : str, optional
        As in `load_ptx`: "sim", "sim:t4", "cuda", ...
    time_limit : float
        Seconds after which the compiler is ended.

    Returns
    -------
    Module
        ``module["kernel"](grid, block, *args, shared=0)`` launches; see `Kernel`. `Module.source`
        is the text, `Module.log` the compiler's warnings.

    Raises
    ------
    CompileError
        The source does not compile, includes a file that it may not read, or is over a limit (4 MiB
        of text, 4 GiB of the compiler's memory, `time_limit`). The text is the compiler's.
    ImportError
        There is no compiler; the text has the command that installs one.
    TypeError, ValueError
        An argument.
    OSError
        The file cannot be read.

    Notes
    -----
    The source is treated as untrusted. Its tokens are scanned for directives that open files, and
    the compiler runs in a process of its own whose memory, time and access to files are limited.
    Kernels of a source that you do not trust are best run on a simulated GPU only.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> module = gpuopt.compile('''
    ... __global__ void scale(int n, float factor, const float *x, float *y) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) y[i] = factor * x[i];
    ... }''', device="sim")
    >>> x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    >>> module["scale"](4, 256, 1000, 2.5, x, y)
    >>> bool((y == 2.5 * x).all())
    True
    """
    text = _read(source)
    options, wanted = _strings(options, "options"), _strings(names, "names")
    folders = tuple(str(Path(each).resolve()) for each in _strings(include, "include"))
    for each in folders:
        if not Path(each).is_dir():
            raise FileNotFoundError(f"include: there is no folder {each!r}")
    seconds = finite(time_limit, "time_limit")
    if seconds <= 0:
        raise ValueError(f"time_limit: must be above 0 seconds, not {time_limit}")
    device = _core.Module(None, device).device
    architecture, exact = _arch(arch, device)
    text = Text(text.name, text.text, options, wanted, folders)
    made = build(Request(text, options, architecture, exact, wanted, folders), seconds)
    return Module(made.ptx, device, made.image or None, made.symbols, text, made.log)
