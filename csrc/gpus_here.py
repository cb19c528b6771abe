"""The compute capabilities of the GPUs that are present."""

import ctypes
import re
import subprocess


def capabilities_by_smi():
    """Return the compute capabilities that nvidia-smi lists, None where it cannot tell."""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.findall(r"(?m)^\s*(\d+)\.(\d)\s*$", done.stdout)
    return [major + minor for major, minor in found] if done.returncode == 0 and found else None


def capabilities_by_driver():
    """Return the compute capabilities that libcuda reports; [] without a driver or a GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, value = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for device in range(count.value):
        digits = ""
        for attribute in (75, 76):  # compute capability, major and minor
            if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
                return []
            digits += str(value.value)
        found.append(digits)
    return found
