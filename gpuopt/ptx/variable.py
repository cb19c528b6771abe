"""A module's ``__device__`` or ``__constant__`` variable as a NumPy array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gpuopt.ptx.accesses import of_variable
from gpuopt.ptx.buffers import Memory


class Variable:
    """A variable of a `Module`: ``module.variable("filter")[:] = weights``.

    Reading an index copies the variable from the device, assigning to one changes it there.
    ``numpy.asarray`` copies all of it.

    Attributes
    ----------
    name : str
    address, nbytes : int
    dtype : numpy.dtype
    shape : (int,)

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .global .u32 n[2] = {3, 4};"
    >>> n = gpuopt.load_ptx(ptx, device="sim").variable("n")
    >>> n[1] = 7
    >>> n[:].tolist()
    [3, 7]
    """

    def __init__(
        self, module: Memory, name: str, address: int, nbytes: int, dtype: np.dtype
    ) -> None:
        self._module = module
        self.name, self.address, self.nbytes, self.dtype = name, address, nbytes, dtype

    def __repr__(self) -> str:
        """Describe it."""
        device = self._module.device
        return f"<Variable {self.name} of {len(self)} {self.dtype} on {device}>"

    @property
    def shape(self) -> tuple[int]:
        """The number of elements, in a tuple as an array's shape: PTX does not tell dimensions."""
        return (self.nbytes // self.dtype.itemsize,)

    def __len__(self) -> int:
        """Return the number of elements."""
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy."""
        host = np.empty(self.nbytes, np.uint8)
        with self._module._lock:
            self._module._core.copy_out(self.address, host)
        return host.view(self.dtype).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> Any:
        """Return elements, as of a one-dimensional array."""
        return self.__array__()[index]

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        """Change elements on the device."""
        host, given = self.__array__(), np.asarray(value)
        if given.dtype.kind in "iub" and self.dtype.kind in "iu":
            given = _of_bits(given, self.dtype)  # PTX does not say whether an integer has a sign
        if given is None or not np.can_cast(given.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"variable {self.name}: {_described(value)} does not fit into {self.dtype}; pass "
                "dtype= to variable() if it holds another"
            )
        host[index] = given
        with self._module._lock:
            self._module._core.copy_in(self.address, host.view(np.uint8))


def _described(value: ArrayLike) -> str:
    given = np.asarray(value)
    return f"{given.dtype} {value}" if given.ndim == 0 else str(given.dtype)


def _of_bits(given: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Return integers as those of another type with the same bits; None if they are too large."""
    bits = 8 * dtype.itemsize
    if given.size and not (-(2 ** (bits - 1)) <= int(given.min()) and int(given.max()) < 2**bits):
        return None
    return given.astype(dtype)


_KINDS = {"f": "f", "s": "i", "u": "u", "b": "u"}


def dtype_of(ptx: bytes | None, name: str, nbytes: int) -> np.dtype:
    """Return the dtype by which the kernels access a variable; uint8 if they do not agree."""
    types = {each.type for each in of_variable(ptx or b"", name)}
    found = {
        np.dtype(f"{_KINDS[each[1]]}{int(each[2:]) // 8}") for each in types if each[2:].isdigit()
    }
    kinds = [each for each in found if each.kind != "u"] or list(found)
    fits = len(kinds) == 1 and nbytes % kinds[0].itemsize == 0
    return kinds[0] if fits else np.dtype(np.uint8)
