"""Runs a compiler of CUDA C++ in a process of its own, and collects its results.

`gpuopt.compile` imports this file when a result is not on disk.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuopt import _core
from gpuopt.jit import cache, names as naming, scan
from gpuopt.jit.errors import CompileError
from gpuopt.jit.find import INSTALL, Compiler
from gpuopt.jit.request import Made, Request
from gpuopt.jit.stubs import STUBS

MEMORY = 4 << 30  # bytes of address space of the compiler's process
GRACE = 1.0  # more seconds, for a compiler that ends by itself at its limit
INSTALL_SECONDS = 120.0
WORKER = Path(__file__).with_name("worker.py")

_FIRST = re.compile(r"^[^\n]*?\((\d+)\): (?:catastrophic )?error\b[^:\n]*: ([^\n]*)$", re.M)
_PATH = re.compile(r"(?<![\w.<])/(?:[\w.+-]+/)+")
_HEADERS_CONSTANT = re.compile(
    rb"^\.global [^\n]*?\b"
    rb"(_ZN(?:\d+_INTERNAL_\w+?)?(?:4cuda|3cub|6thrust|18cooperative_groups)\d\w*)"
    rb"(?:\[\d*\])?(?: = [^\n]*)?;\n",
    re.M,
)
_HEADERS = f"{INSTALL} brings a compiler with all of CUDA's; "
_HINTS = (
    (
        "A function without execution space annotations",
        "mark device code with __device__ or __global__, and leave main() and other host code out",
    ),
    (
        "host variables are not allowed",
        "mark a global variable with __device__ or __constant__; for a constant use constexpr",
    ),
    (
        "open source file",
        f"pass include=FOLDER for headers of your own; {INSTALL} brings all of CUDA's",
    ),
    (
        "device-side kernel launch",
        "kernels that launch kernels (dynamic parallelism) are not supported; launch each from "
        "Python",
    ),
    (
        "must be a constant",
        "dynamic shared memory is 'extern __shared__ float tile[];', its size is the launch's "
        "shared=",
    ),
)


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


def _source(request: Request, compiler: Compiler) -> bytes:
    text = request.text.text
    if compiler.kind == "nvcc":  # it has no name expressions: their addresses instantiate them
        used = (
            f"\n__attribute__((used)) static const void *gpuopt_{i} = (const void *)&{each};"
            for i, each in enumerate(request.names)
        )
        text += "".join(used)
    return text.encode("utf-8", "replace")


def compiled(request: Request, compiler: Compiler, seconds: float) -> Made:
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
        "" if compiler.bundles else _HEADERS,
    )
    library = str(Path(compiler.path).parent)
    options = ["--std=c++17", "-lineinfo", *request.options]
    options += ["--device-int128"] * (compiler.kind == "nvrtc")  # nvcc's default
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
    ptx = _with_short_files(_without_unused(made["ptx"]), text.name, own)
    symbols = naming.written(_core.ptx_entries(ptx))
    if compiler.kind == "nvrtc":
        symbols |= dict(zip(request.names, made["lowered"], strict=True))
    if not made["image"]:
        ptx = _with_cap(ptx, request.options)
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


def _without_unused(ptx: bytes) -> bytes:
    """Return PTX without the constants of CUDA's headers that no kernel uses: most of its text."""
    used = Counter(re.findall(rb"[\w$]+", ptx))
    return _HEADERS_CONSTANT.sub(lambda each: b"" if used[each[1]] == 1 else each[0], ptx)


def _with_short_files(ptx: bytes, name: str, own: Sequence[str]) -> bytes:
    """Return PTX whose line table has no folders of this machine: they change, and tell nothing."""

    def short(found: re.Match[bytes]) -> bytes:
        path = os.fsdecode(found[2])
        for folder in own:
            if path.startswith(f"{folder}/"):
                return found[1] + os.fsencode(f"/cuda/include/{path[len(folder) + 1 :]}")
        return found[1] + os.fsencode(name if path.endswith(f"/{name}") else path)

    return re.sub(rb'(?m)(^\s*\.file\s+\d+\s+")([^"\n]*)', short, ptx)
