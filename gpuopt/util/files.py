"""Writes files atomically: the old contents stay until the new ones are complete."""

from __future__ import annotations

import contextlib
import os
from errno import EACCES, EBUSY, EPERM, EROFS
from pathlib import Path
from stat import S_IMODE


def check(path: str | os.PathLike[str], argument: str, *endings: str) -> None:
    """Reject an unwritable path, before anything is measured for it.

    Raises
    ------
    ValueError
        It has none of the required endings.
    OSError
        It is a folder, or its folder does not exist.
    """
    path = Path(path)
    if endings and path.suffix.lower() not in endings:
        raise ValueError(
            f"{argument}: {str(path)!r} must end in {endings[0]}, the only format there is"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{argument}: there is no folder {str(path.parent)!r} for {str(path)!r}"
        )
    if path.is_dir():
        raise IsADirectoryError(f"{argument}: {str(path)!r} is a folder; name a file in it")


def write(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write text, in UTF-8 and with its own line ends, or bytes.

    Raises
    ------
    OSError
        The file cannot be written; it is unchanged.
    """
    data = data.encode() if isinstance(data, str) else data
    path = Path(path).resolve()
    if path.exists() and not path.is_file():  # a pipe, a terminal
        path.write_bytes(data)
        return
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        if path.exists():
            part.chmod(S_IMODE(path.stat().st_mode))
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        # a folder without write permission, or a mounted file: overwrite in place
        if not isinstance(error, OSError) or error.errno not in (EACCES, EPERM, EROFS, EBUSY):
            if isinstance(error, OSError):
                error.filename, error.filename2 = str(path), None
            raise
        path.write_bytes(data)
