"""Writes a command's output between its marks in a page."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from gpuopt.util import files

MARKS = ("<!-- {marks}: written by `{command}` -->", "<!-- end of {marks} -->")


def parts(path: Path, marks: str) -> tuple[str, str, str]:
    """Return the text before a page's marks, the closing mark, and the text after it.

    Raises
    ------
    ValueError
        The page has no such marks.
    """
    text = path.read_bytes().decode()  # keeps its line ends
    begin, end = (mark.format(marks=marks, command="").split("`")[0] for mark in MARKS)
    before, found, rest = text.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"{path} has no lines {begin!r} and {end!r} to write between")
    return before, end, after


def write_between_marks(path: Path, marks: str, table: str) -> None:
    """Replace the text between a page's marks by a table and the command that made it.

    Raises
    ------
    ValueError
        The page has no such marks.
    """
    before, end, after = parts(path, marks)
    command = shlex.join(["python", "-m", "gpuopt", *sys.argv[1:]])
    head = MARKS[0].format(marks=marks, command=command)
    written = f"{head}\n```text\n{table}\n```\n"
    if "\r\n" in before:
        written = written.replace("\n", "\r\n")
    files.write(path, f"{before}{written}{end}{after}")
