"""The PTX of every kernel is read by the oldest driver's assembler."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuopt import _core

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "csrc"))
from build_kernels import PTX_TARGETS  # noqa: E402
from split_ptx import units  # noqa: E402


def whole_texts(target):
    """Return few texts with every kernel: those of one file share its header and functions."""
    files = {}
    for kernel in _core.kernels():
        header, body = "", {}
        for kind, name, unit in units(_core.kernel_ptx(kernel, target)):
            if kind in ("func", "entry"):
                body[kind == "entry", "{" in unit, name] = unit
            else:
                header += unit
        files.setdefault(header, {}).update(body)
    # Declarations, then functions, then kernels; functions stay in the order of their calls.
    return [
        header + "".join(body[key] for key in sorted(body, key=lambda key: key[:2]))
        for header, body in files.items()
    ]


@pytest.mark.parametrize("target", PTX_TARGETS)
def test_old_ptxas_assembles_every_kernel(target, tmp_path):
    ptxas = os.environ.get("GPUOPT_OLD_PTXAS")
    if not ptxas:
        pytest.skip("GPUOPT_OLD_PTXAS names no ptxas of CUDA 12.4")
    texts = whole_texts(target)
    assert sum(text.count(".entry ") for text in texts) == len(_core.kernels())

    def assemble(number):
        path = tmp_path / f"{number}.ptx"
        path.write_text(texts[number])
        command = [ptxas, f"-arch=sm_{target}", "-O0", path, "-o", path.with_suffix(".cubin")]
        return subprocess.run(command, capture_output=True, text=True)

    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(assemble, range(len(texts))):
            assert done.returncode == 0, (done.stdout + done.stderr)[:2000]


@pytest.mark.parametrize("target", PTX_TARGETS)
def test_every_kernel_names_the_target_and_its_version(target):
    version = PTX_TARGETS[target]
    assert tuple(map(int, version.split("."))) <= (8, 4), "drivers of CUDA 12.4 read PTX 8.4"
    for kernel in _core.kernels():
        text = _core.kernel_ptx(kernel, target)
        assert re.findall(r"(?m)^\.version (.*)$", text) == [version], kernel
        targets = re.findall(r"(?m)^\.target (.*)$", text)
        assert targets in (["sm_75"], [f"sm_{target}"]), kernel  # the older serves both
