"""The decks' experiments: one property of a GPU each, shown by small kernels.

On a GPU an experiment is timed, on a simulated GPU it is counted, there under the rules of the GPU
that the deck used; in both cases every output is verified. The result prints as a table.

>>> import gpuopt
>>> found = gpuopt.experiments.double_literal(1024, device="sim")
>>> found["2.5f, 1 step"].values["f64"]
0
"""

from __future__ import annotations

from collections.abc import Callable

from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.experiments.banks import banks
from gpuopt.experiments.block_size import block_size
from gpuopt.experiments.coalescing import coalescing
from gpuopt.experiments.divergence import divergence
from gpuopt.experiments.double_literal import double_literal
from gpuopt.experiments.global_sync import global_sync
from gpuopt.experiments.host_link import host_link
from gpuopt.experiments.ilp import ilp
from gpuopt.experiments.intrinsics import intrinsics
from gpuopt.experiments.launch_overhead import launch_overhead
from gpuopt.experiments.low_occupancy_copy import low_occupancy_copy
from gpuopt.experiments.overlap import overlap
from gpuopt.experiments.register_pressure import register_pressure
from gpuopt.experiments.several_gpus import several_gpus
from gpuopt.experiments.texture import texture
from gpuopt.experiments.trees import trees
from gpuopt.util.names import suggests, unknown_name

# The one list: the command line, the tests and the README iterate it.
EXPERIMENTS: dict[str, Callable[..., Experiment]] = {
    function.__name__: function
    for function in (
        coalescing,
        banks,
        divergence,
        ilp,
        low_occupancy_copy,
        intrinsics,
        double_literal,
        register_pressure,
        block_size,
        texture,
        host_link,
        overlap,
        launch_overhead,
        global_sync,
        several_gpus,
        trees,
    )
}

__all__ = ["EXPERIMENTS", "Column", "Experiment", "Row", "run", "summary", *EXPERIMENTS]


def summary() -> dict[str, str]:
    """Return every experiment's name and a line about its subject.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> import gpuopt
    >>> print(gpuopt.experiments.summary()["double_literal"])
    2.5 against 2.5f in float code: what a double literal costs.
    """
    return {
        name: (function.__doc__ or "").partition("\n")[0] for name, function in EXPERIMENTS.items()
    }


@suggests
def run(name: str, device: str | None = None) -> Experiment:
    """Run an experiment by its name.

    Parameters
    ----------
    name : str
        A key of `EXPERIMENTS`.
    device : str, optional
        "cuda", "cuda:1", "sim" (as the GPU of the deck), "sim:h200", ... Default: GPUOPT_DEVICE,
        else a GPU if there is one, else "sim".

    Returns
    -------
    Experiment

    Raises
    ------
    ValueError
        No such experiment, or a device that cannot run it.
    VerificationError
        A kernel gave a wrong result.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.experiments.run("double_literal", "sim:k40").device.name
    'sim:k40'
    """
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ValueError(unknown_name("name", name, "an experiment", EXPERIMENTS))
    return EXPERIMENTS[name](device=device)
