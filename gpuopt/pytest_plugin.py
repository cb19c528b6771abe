"""The pytest plugin: the fixture `gpuopt_check`, for kernels that must have no findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def gpuopt_check() -> Callable[..., Any]:
    """Run a kernel, or a function that launches kernels, and fail the test for any finding.

    ``gpuopt_check(kernel, grid, block, *args, time_limit=20, device="sim")`` checks what
    `gpuopt.check` does and returns the `Profile`, whose `assert_at_most` bounds its counters. Other
    keywords go to the function: ``schedule=7`` runs a kernel's warps in the random order of a seed.
    """

    def check(
        function: Callable[..., Any],
        *arguments: Any,
        time_limit: float | None = 20.0,
        device: str = "sim",
        **keywords: Any,
    ) -> Any:
        from gpuopt.observe.profile import Profile
        from gpuopt.ptx.kernel import Kernel

        if isinstance(function, Kernel):
            device = function.module.device
            if time_limit is not None:
                keywords["time_limit"] = time_limit
        profiled = Profile(device, collecting=True)
        with profiled:
            profiled.result = function(*arguments, **keywords)
        if not profiled.launches:
            pytest.fail("gpuopt_check: no kernel was launched on a simulated GPU", pytrace=False)
        if profiled.findings:
            texts = "\n".join(each.text for each in profiled.findings)
            pytest.fail(f"{len(profiled.findings)} finding(s):\n{texts}", pytrace=False)
        return profiled

    return check
