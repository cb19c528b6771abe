"""Atomic writing of files, and writing between a page's marks."""

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from gpuopt.cli import readme
from gpuopt.util import files


def test_text_is_written_as_it_is(tmp_path):
    path = tmp_path / "page.txt"
    files.write(path, "µ\r\n\n")
    assert path.read_bytes() == "µ\r\n\n".encode()
    files.write(str(path), b"\0\xff")
    assert path.read_bytes() == b"\0\xff" and os.listdir(tmp_path) == ["page.txt"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_old_contents_stay_until_the_new_are_complete(error, tmp_path, monkeypatch):
    path, real = tmp_path / "page.txt", Path.write_bytes
    path.write_text("old")

    def half(self, data):
        real(self, data[: len(data) // 2])
        raise error

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(type(error)) as raised:
        files.write(path, "new and long")
    monkeypatch.undo()
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["page.txt"]
    if isinstance(error, OSError):
        assert raised.value.filename == str(path), "the file that was asked for"


def test_mode_and_links_stay(tmp_path):
    path, link = tmp_path / "page.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    files.write(link, "new")
    assert link.is_symlink() and path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY])
def test_file_in_a_read_only_folder_is_overwritten_in_place(number, tmp_path, monkeypatch):
    path = tmp_path / "page.txt"
    path.write_text("old")

    def replace(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", replace)
    files.write(path, "new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["page.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_an_error():
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        files.write("/dev/full", "text")


def test_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_unwritable_paths_are_named_in_the_error(tmp_path):
    files.check(tmp_path / "new.svg", "-o", ".svg")
    with pytest.raises(IsADirectoryError, match=r"-o: .* is a folder"):
        files.check(tmp_path, "-o")
    with pytest.raises(FileNotFoundError, match=r"-o: there is no folder '.*none'"):
        files.check(tmp_path / "none" / "new.svg", "-o")
    with pytest.raises(ValueError, match=r"path: .*new\.png' must end in \.svg"):
        files.check(tmp_path / "new.png", "path", ".svg", ".svgz")


# --- between a page's marks

PAGE = "before µ{end}<!-- bench: written by nobody -->{end}old{end}<!-- end of bench -->{end}after"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_page_keeps_its_line_ends(end, tmp_path):
    page = tmp_path / "README.md"
    page.write_bytes(PAGE.format(end=end).encode())
    readme.write_between_marks(page, "bench", "one\ntwo")
    written = page.read_bytes().decode()
    assert written.startswith(f"before µ{end}<!-- bench: written by `python -m gpuopt")
    assert f"```text{end}one{end}two{end}```{end}<!-- end of bench -->{end}after" in written
    assert written.count("\n") == written.count(end), "no line ends otherwise"


def test_the_command_on_a_page_can_be_run_again(tmp_path, monkeypatch):
    page = tmp_path / "README.md"
    page.write_text(PAGE.format(end="\n"))
    monkeypatch.setattr(sys, "argv", ["gpuopt", "bench", "--only", "axis float16", "sum", "$x"])
    readme.write_between_marks(page, "bench", "table")
    assert "`python -m gpuopt bench --only 'axis float16' sum '$x'`" in page.read_text()
