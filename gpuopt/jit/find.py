"""Finds a compiler of CUDA C++: NVRTC, or nvcc where there is none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

BUNDLING = (13, 3)  # from this version on NVRTC brings the headers
INSTALL = "pip install 'nvidia-cuda-nvrtc>=13.3,<14'"
MISSING = (
    f"there is no compiler for CUDA C++: {INSTALL} (or 'gpuopt[jit]') brings one that needs no "
    "GPU and no driver; an nvcc in PATH serves, too"
)


class Compiler(NamedTuple):
    """A compiler on this machine.

    Attributes
    ----------
    kind : {"nvrtc", "nvcc"}
    path : str
    version : (int, int)
        (0, 0): unknown.
    identity : str
        Changes with the file.
    headers : tuple of str
        Folders of CUDA's headers; none for an NVRTC that brings its own.
    """

    kind: str
    path: str
    version: tuple[int, int]
    identity: str
    headers: tuple[str, ...]

    @property
    def bundles(self) -> bool:
        """Whether NVRTC can write the headers to disk."""
        return self.kind == "nvrtc" and self.version >= BUNDLING


def _version(library: Path) -> tuple[int, int]:
    """Return NVRTC's version, which the file beside it has in its name."""
    for each in sorted(library.parent.glob("libnvrtc-builtins.so.*")):
        found = re.search(r"\.so\.(\d+)\.(\d+)", each.name)
        if found:
            return int(found[1]), int(found[2])
    found = re.search(r"\.so\.(\d+)(?:\.(\d+))?", library.resolve().name)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _loaded() -> Iterator[Path]:
    """Yield the NVRTC that another library has loaded into this process."""
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return
    for path in dict.fromkeys(re.findall(r"/\S*/libnvrtc\.so\.\S+", maps)):
        yield Path(path)


def _in_path() -> str | None:
    import shutil  # with its archivers a tenth of a cached call's time

    return shutil.which("nvcc")


def _roots() -> Iterator[Path]:
    """Yield the folders of toolkits."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    nvcc = _in_path()
    if nvcc:
        yield Path(nvcc).resolve().parents[1]
    yield Path("/usr/local/cuda")


def _libraries() -> Iterator[Path]:
    """Yield files that may be NVRTC, the preferred first."""
    yield from _loaded()
    for folder in sys.path:
        for wheel in ("cu13", "cuda_nvrtc", "cu14", "cu12"):
            yield from sorted(Path(folder, "nvidia", wheel, "lib").glob("libnvrtc.so.*"))
    for root in _roots():
        for folder in ("lib64", "lib"):
            yield root / folder / "libnvrtc.so"


def _headers(library: Path) -> tuple[str, ...]:
    """Return the folders of CUDA's headers: the library's own, those of wheels and of a toolkit.

    PyTorch's wheels bring an NVRTC with a part of the headers; a toolkit has the rest.
    """
    above = library.parents[1]
    wheels = [above.parent / each for each in ("cu13", "cuda_runtime", "cuda_cccl")]
    places = []
    for root in (above, *wheels, *_roots()):
        places += [root / "include", root / "include" / "cccl"]
    return tuple(dict.fromkeys(str(each) for each in places if each.is_dir()))


def _identity(path: Path) -> str:
    about = path.stat()
    return f"{path} {about.st_size} {about.st_mtime_ns}"


def _of_library(path: Path) -> Compiler:
    version = _version(path)
    headers = () if version >= BUNDLING else _headers(path)
    return Compiler("nvrtc", str(path), version, _identity(path), headers)


@cache
def _find(path: tuple[str, ...], environment: tuple[str | None, ...]) -> Compiler | None:
    chosen = os.environ.get("GPUOPT_NVRTC")
    if chosen:
        if not Path(chosen).is_file():
            raise FileNotFoundError(f"GPUOPT_NVRTC: there is no file {chosen!r}")
        return _of_library(Path(chosen).resolve())
    first = None
    for library in _libraries():
        if library.is_file():
            each = _of_library(library.resolve())
            if each.bundles:
                return each
            first = first or each
    if first:
        return first
    nvcc = os.environ.get("GPUOPT_NVCC") or _in_path()
    for root in _roots():
        nvcc = nvcc or (str(root / "bin" / "nvcc") if (root / "bin" / "nvcc").is_file() else None)
    if not nvcc:
        return None
    real = Path(nvcc).resolve()
    return Compiler("nvcc", str(real), (0, 0), _identity(real), _headers(real))


_SET_BY = ("GPUOPT_NVRTC", "GPUOPT_NVCC", "CUDA_HOME", "CUDA_PATH", "PATH")


def find() -> Compiler:
    """Return the compiler to use; ImportError where there is none.

    In this order: GPUOPT_NVRTC, an NVRTC that is loaded already, one of the wheels on `sys.path`,
    one of a toolkit; of these the first that brings its headers, if any does. Then nvcc.
    """
    found = _find(tuple(sys.path), tuple(os.environ.get(name) for name in _SET_BY))
    if found is None:
        raise ImportError(MISSING)
    return found
