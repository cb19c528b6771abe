"""Results of the compiler on disk, and the headers that it brings.

Files are written atomically and carry a checksum; a broken one counts as missing. The folder is
$GPUOPT_CACHE_DIR, else gpuopt below $XDG_CACHE_HOME or ~/.cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from gpuopt.util import files

BYTES_MOST = 256 << 20  # of all results; the oldest go first
_DIGEST = 32


def folder() -> Path | None:
    """Return where results are kept; None for a user without a home."""
    chosen = os.environ.get("GPUOPT_CACHE_DIR")
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        home = None
    if chosen:
        return Path(chosen, "compiled")
    return Path(home, "gpuopt", "compiled") if home else None


def key(*parts: Any) -> str:
    """Return a file's name for the inputs of a result."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def load(name: str) -> dict[str, Any] | None:
    """Return a result, None if there is none or it is broken."""
    where = folder()
    if where is None:
        return None
    path = where / f"{name}.json"
    try:
        data = path.read_bytes()
        if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            return None
        os.utime(path)  # its age is that of its last use
        return json.loads(data[_DIGEST:])
    except (OSError, ValueError):
        return None


def save(name: str, result: dict[str, Any]) -> None:
    """Keep a result; where nothing can be written, do without."""
    where = folder()
    if where is None:
        return
    body = json.dumps(result).encode()
    with contextlib.suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
        files.write(where / f"{name}.json", hashlib.sha256(body).digest() + body)
        _trim(where)


def _trim(where: Path) -> None:
    """Delete the results that were not used for longest, down to the limit."""
    found = []
    for each in where.glob("*.json"):
        with contextlib.suppress(OSError):
            about = each.stat()
            found.append((about.st_mtime_ns, about.st_size, each))
    total = sum(size for _, size, _ in found)
    for _, size, each in sorted(found, key=lambda item: item[0]):
        if total <= BYTES_MOST:
            break
        with contextlib.suppress(OSError):
            each.unlink()
        total -= size


def clear_cache() -> int:
    """Delete what `gpuopt.compile` keeps on disk: results, and the headers that NVRTC brings.

    Returns
    -------
    int
        The number of bytes freed.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.clear_cache() >= 0
    True
    """
    import shutil  # see find.py

    where = folder()
    if where is None or not where.is_dir():
        return 0
    freed = 0
    for each in where.rglob("*"):
        with contextlib.suppress(OSError):
            freed += each.stat().st_size if each.is_file() else 0
    shutil.rmtree(where, ignore_errors=True)
    return freed
