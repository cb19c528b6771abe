"""The link between host and GPU: how long a copy takes, from pageable or from pinned memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuopt.catalog.devices import Device
from gpuopt.catalog.limits import Gpu, gpu
from gpuopt.util.checks import whole
from gpuopt.util.names import suggests

START = 10e-6  # seconds of a copy without bytes that the host waits for
QUEUED = 2e-6  # of one behind others on a stream (H100, CUDA 13: 8 of 1 MiB take 182 us)
CALL = 3.5e-6  # of the host for each copy or launch on a stream (8 of 4 bytes take 30 us there)
_REST = 0.8  # of the nominal rate, where no deck measured it: packets' headers and flow control


@dataclass(frozen=True)
class Link:
    """A GPU's link to its host.

    Attributes
    ----------
    name : str
        "PCIe 2.0 x16".
    pinned : float
        Bytes per second from page-locked memory, one way.
    host : float
        Bytes per second of the copy by which the driver stages pageable memory; an assumption.
    engines : int
        Copies that run at once beside a kernel: 0, 1, or 2 for both ways.
    """

    name: str
    pinned: float
    host: float
    engines: int

    @property
    def pageable(self) -> float:
        """Bytes per second from pageable memory: staged by the host, then copied."""
        return 1 / (1 / self.pinned + 1 / self.host)


# From a compute capability on. Deck D3 measured 3.2 and 5.2 GB/s on the first two.
_LINKS = (
    (90, Link("PCIe 5.0 x16", _REST * 63e9, 12e9, 2)),  # pageable: 9.1 GB/s on an H100's host
    (80, Link("PCIe 4.0 x16", _REST * 31.5e9, 15e9, 2)),
    (30, Link("PCIe 3.0 x16", _REST * 15.75e9, 10e9, 2)),
    (20, Link("PCIe 2.0 x16", 5.2e9, 6e9, 2)),
    (12, Link("PCIe 2.0 x16", 5.2e9, 6e9, 1)),
    (10, Link("PCIe 1.1 x16", 3.2e9, 6e9, 0)),
)


@suggests
def host_link(which: str | Device | Gpu) -> Link:
    """Return a GPU's link to its host.

    Parameters
    ----------
    which : str, Device or Gpu
        As `gpu`.

    Returns
    -------
    Link

    Raises
    ------
    TypeError, ValueError
        As `gpu`.

    Notes
    -----
    Source: deck D3 for PCIe 1 and 2; later links are 80% of the nominal rate, an estimate.

    Examples
    --------
    >>> from gpuopt.models import host_link
    >>> host_link("g80").pinned / 1e9, host_link("gt200").pinned / 1e9
    (3.2, 5.2)
    """
    major, minor = gpu(which).compute_capability.split(".")
    capability = 10 * int(major) + int(minor)
    return next(link for least, link in _LINKS if capability >= least)


@suggests
def transfer(which: str | Device | Gpu, nbytes: int, *, pinned: bool = True) -> float:
    """Return the seconds of a copy between host and GPU, by the model of the link.

    Parameters
    ----------
    which : str, Device or Gpu
        As `gpu`.
    nbytes : int
        Bytes, 0 at least.
    pinned : bool
        From or to page-locked memory.

    Returns
    -------
    float
        Seconds: 10 us to begin, then the link's rate.

    Raises
    ------
    TypeError, ValueError
        As `gpu`; no such number of bytes.

    Examples
    --------
    >>> from gpuopt.models import transfer
    >>> round(transfer("g80", 32 << 20) * 1e3, 2)  # milliseconds for 32 MiB
    10.5
    """
    link = host_link(which)
    rate = link.pinned if pinned else link.pageable
    return START + whole(nbytes, "nbytes", 0) / rate
