"""CUDA C++ from a text or a file to a `Module`."""

from __future__ import annotations

import base64
import contextlib
import marshal
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuopt import _core
from gpuopt.jit import cache, names as naming, scan
from gpuopt.jit.errors import CompileError
from gpuopt.jit.find import Compiler, find
from gpuopt.jit.stubs import STUBS
from gpuopt.ptx.module import Module
from gpuopt.util.checks import finite
from gpuopt.util.names import suggests

FORMAT = 2  # of a result on disk
MEMORY = 4 << 30  # bytes of address space of the compiler's process
SECONDS = 60.0
GRACE = 1.0  # more seconds, for a compiler that ends by itself at its limit
INSTALL_SECONDS = 120.0
OLDEST = 75  # the least compute capability that NVRTC 13 compiles for
REMEMBERED = 64  # results of this process
WORKER = Path(__file__).with_name("worker.py")
HEADERS = (".h", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".cu", "")
FILES_MOST = 10_000  # below the folders of `include`

_FIRST = re.compile(r"^[^\n]*?\((\d+)\): (?:catastrophic )?error\b[^:\n]*: ([^\n]*)$", re.M)
_PATH = re.compile(r"(?<![\w.<])/(?:[\w.+-]+/)+")
_HINTS = (
    (
        "A function without execution space annotations",
        "mark device code with __device__ or __global__, and leave main() and other host code out",
    ),
    (
        "host variables are not allowed",
        "mark a global variable with __device__ or __constant__; for a constant use constexpr",
    ),
    ("could not open source file", "pass include=FOLDER for headers of your own"),
    (
        "must be a constant",
        "dynamic shared memory is 'extern __shared__ float tile[];', its size is the launch's "
        "shared=",
    ),
)


class Text(NamedTuple):
    """A source as it was given: its file's name, its text, and how it was compiled."""

    name: str
    text: str
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


class Made(NamedTuple):
    """A compiler's results."""

    ptx: bytes
    image: bytes  # machine code; empty: none
    symbols: dict[str, str]  # by the names that its author wrote
    log: str


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
        if path.stat().st_size > scan.SOURCE_MOST:
            raise CompileError(
                f"{path.name}: the source has {path.stat().st_size:,} bytes; the limit is "
                f"{scan.SOURCE_MOST:,}"
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


# --- the compiler's process


def _run(job: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Do a job in a process of its own."""
    python = sys.executable or shutil.which("python3") or "python3"
    job = {"memory": MEMORY, "seconds": seconds, **job}
    with (
        tempfile.TemporaryDirectory() as empty,
        subprocess.Popen(
            [python, "-I", "-S", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A sanitizer that is loaded before all others needs more memory than the limit.
            env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
            cwd=empty,  # a compiler looks for headers there, too
            start_new_session=True,  # an interrupt of the terminal ends it from here, below
        ) as process,
    ):
        try:
            output, errors = process.communicate(marshal.dumps(job), timeout=seconds + GRACE)
        except subprocess.TimeoutExpired:
            return {"late": True}
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.communicate()
    if process.returncode < 0:
        late = process.returncode == -24  # SIGXCPU
        return {"late": True} if late else {"memory": True}
    try:
        return marshal.loads(output)
    except (EOFError, ValueError, TypeError):
        told = errors.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        return {"memory": True} if "MemoryError" in told else {"failed": told or "no result"}


def _own_headers(compiler: Compiler) -> tuple[str, ...]:
    """Return the folders of the headers that need no word from the user; write them if missing."""
    where = cache.folder()
    if compiler.kind == "nvcc":
        return compiler.headers
    if where is None:
        raise OSError("there is no folder for CUDA's headers; set GPUOPT_CACHE_DIR to one")
    made = where / f"headers-{cache.key(compiler.identity, STUBS)[:16]}"
    if not made.is_dir():
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=where) as temporary:
            part = Path(temporary, "headers")
            (part / "host").mkdir(parents=True)
            for name, text in STUBS.items():
                (part / "host" / name).write_text(text)
            if compiler.bundles:
                job = {"do": "install", "path": compiler.path, "folder": str(part / "cuda")}
                told = _run(job, INSTALL_SECONDS)
                if not told.get("installed"):
                    raise OSError(f"NVRTC could not write its headers: {told.get('failed', told)}")
            with contextlib.suppress(OSError):  # another process was faster
                part.rename(made)
    own = [made / "cuda", made / "cuda" / "cccl"] if compiler.bundles else []
    return (*map(str, own), *compiler.headers, str(made / "host"))


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


# --- errors


def _without_paths(log: str, folders: Sequence[str]) -> str:
    """Return a compiler's output without the folders of this machine."""
    for folder in sorted(folders, key=len, reverse=True):
        log = log.replace(f"{folder}/", "")
    return _PATH.sub("", log)


def _error(log: str) -> CompileError:
    """Return the error that a compiler's output describes."""
    first = _FIRST.search(log)
    if not first:
        return CompileError(log.strip()[:4000] or "the compiler failed and gave no reason")
    caret = re.compile(r"\n  [^\n]*\n(  *)\^").match(log, first.end())
    begin = log[first.start() :].strip()
    hints = [f"hint: {hint}" for text, hint in _HINTS if text in begin]
    text = begin if len(begin) <= 4000 else f"{begin[:4000]}\n..."
    return CompileError(
        "\n".join([text, *hints[:2]]),
        int(first[1]),
        len(caret[1]) - 1 if caret else 0,
        log,
    )


def _checked(made: dict[str, Any], seconds: float, folders: Sequence[str]) -> dict[str, Any]:
    """Return a job's result; raise its failure."""
    if made.get("late"):
        raise CompileError(
            f"the compiler did not end within {seconds:g} s; time_limit= is its limit, and a "
            f"template that instantiates itself without end is a usual cause"
        )
    if made.get("memory"):
        raise CompileError(
            f"the compiler needed more than {MEMORY >> 30} GiB of memory; a template that "
            f"instantiates itself without end is a usual cause"
        )
    log = _without_paths(made.get("log", ""), folders)
    if "failed" in made and not _FIRST.search(log):
        raise CompileError(f"{_without_paths(made['failed'], folders)}\n{log}".strip()[:4000])
    if made.get("status", 1):
        raise _error(log)
    return made | {"log": log}


# --- compiling


class Request(NamedTuple):
    """Everything that a result depends on, except the compiler."""

    text: Text
    options: tuple[str, ...]
    arch: str
    exact: bool
    names: tuple[str, ...]
    include: tuple[str, ...]


def _source(request: Request, compiler: Compiler) -> bytes:
    text = request.text.text
    if compiler.kind == "nvcc":  # it has no name expressions: their addresses instantiate them
        used = (
            f"\n__attribute__((used)) static const void *gpuopt_{i} = (const void *)&{each};"
            for i, each in enumerate(request.names)
        )
        text += "".join(used)
    return text.encode("utf-8", "replace")


def _compile(request: Request, compiler: Compiler, seconds: float) -> Made:
    """Run the compiler."""
    text = request.text
    found = scan.headers(text.text, text.name)
    own = _own_headers(compiler) if found or compiler.kind == "nvcc" else ()
    folders = (*request.include, *own)
    known = STUBS if compiler.kind == "nvcc" else {}
    scan.check(
        found,
        lambda name: name in known or any(Path(each, name).is_file() for each in folders),
        text.text,
        text.name,
    )
    library = str(Path(compiler.path).parent)
    options = ["--std=c++17", "-lineinfo", *request.options]
    options += [f"-I{each}" for each in (request.include if compiler.kind == "nvcc" else folders)]
    given = [each[2:] for each in request.options if each.startswith("-I")]
    job = {
        "do": compiler.kind,
        "path": compiler.path,
        "name": text.name,
        "source": _source(request, compiler),
        "options": options,
        "arch": request.arch,
        "exact": request.exact,
        "names": request.names,
        "folders": [library, *folders, *given],
    }
    made = _checked(_run(job, seconds), seconds, folders)
    ptx = _with_short_files(made["ptx"], text.name, own)
    symbols = naming.written(_core.ptx_entries(ptx))
    if compiler.kind == "nvrtc":
        symbols |= dict(zip(request.names, made["lowered"], strict=True))
    if not made["image"]:  # the PTX is what runs: give its kernels names that people read
        ptx, symbols = _renamed(_with_cap(ptx, request.options), symbols)
    return Made(ptx, made["image"], symbols, made["log"])


def _with_cap(ptx: bytes, options: Sequence[str]) -> bytes:
    """Return PTX whose kernels have the register cap of ``--maxrregcount``, which is no PTX option.

    As in nvcc, launch bounds or a cap of the kernel's own come first.
    """
    found = re.search(r"(?:^| )--?maxrregcount[= ](\d+)", " ".join(options))
    if not found:
        return ptx

    def capped(kernel: re.Match[bytes]) -> bytes:
        own = re.search(rb"\.(?:maxntid|maxnreg|minnctapersm|reqntid)\b", kernel[2])
        return kernel[0] if own else kernel[1] + b" .maxnreg " + found[1].encode() + kernel[2]

    return re.sub(rb"(\.entry\s+[\w$]+\s*\([^)]*\))([^{;]*\{)", capped, ptx)


def _with_short_files(ptx: bytes, name: str, own: Sequence[str]) -> bytes:
    """Return PTX whose line table has no folders of this machine: they change, and tell nothing."""

    def short(found: re.Match[bytes]) -> bytes:
        path = os.fsdecode(found[2])
        for folder in own:
            if path.startswith(f"{folder}/"):
                return found[1] + os.fsencode(f"/cuda/include/{path[len(folder) + 1 :]}")
        return found[1] + os.fsencode(name if path.endswith(f"/{name}") else path)

    return re.sub(rb'(?m)(^\s*\.file\s+\d+\s+")([^"\n]*)', short, ptx)


def _renamed(ptx: bytes, symbols: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """Rename the kernels of a PTX text to what findings and profiles are to show."""
    new: dict[str, str] = {}
    taken = set(re.findall(rb"(?<![%.\w$])([a-zA-Z_$][\w$]*)\s*[\[(;=]", ptx))
    for name, symbol in symbols.items():
        shown = naming.identifier(name)
        if symbol not in new and shown and not shown[0].isdigit():
            if shown.encode() in taken:
                continue
            taken.add(shown.encode())
            new[symbol] = shown
    pattern = re.compile(rb"(?<![\w$])(_Z[\w$]+)(?![\w$])")
    ptx = pattern.sub(
        lambda found: new.get(found[1].decode("latin-1"), found[1].decode("latin-1")).encode(
            "latin-1"
        ),
        ptx,
    )
    return ptx, {name: new.get(symbol, symbol) for name, symbol in symbols.items()}


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
        made = _compile(request, compiler, seconds)
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
        ``cub/block/block_reduce.cuh``) and the usual ones of C, as far as device code uses them.
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
