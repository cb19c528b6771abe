"""The exceptions: those of csrc/status.def, and NumPy's AxisError."""

# ruff: noqa: F401 (they are for others)

import numpy as np

from gpuopt._core import DeviceError, DeviceLost, DeviceMemoryError, PTXError, SimError, UnfitError

AxisError = getattr(np, "exceptions", np).AxisError  # where NumPy 1.24 has it, too
