"""The kernels of this folder: NAME.ptx is what nvcc makes of NAME.cu (tests/ptx/make.sh)."""

import re
from pathlib import Path

import gpuopt

HERE = Path(__file__).parent


def load(name, device="sim"):
    return gpuopt.load_ptx(HERE / f"{name}.ptx", device)


def bug_lines(name):
    """Return the line of each kernel's last `// bug`."""
    lines, kernel = {}, None
    for number, line in enumerate((HERE / f"{name}.cu").read_text().splitlines(), 1):
        found = re.search(r"(?:KERNEL|__global__) void (\w+)\(", line)
        kernel = found[1] if found else kernel
        if "// bug" in line:
            lines[kernel] = number
    return lines
