"""Runs a teacher's tests on a student's kernel, with every check of the simulated GPU."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import runpy
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuopt.jit.compiler import compile as compile_source
from gpuopt.jit.errors import CompileError
from gpuopt.observe.launches import Finding
from gpuopt.observe.profile import Profile
from gpuopt.util.checks import finite
from gpuopt.util.names import suggests
from gpuopt.util.serialise import Written

SECONDS = 20.0
FINDINGS_MOST = 5  # in a message


@dataclass(frozen=True)
class GradedTest:
    """The outcome of one test: its name, points, and the reason if it failed."""

    name: str
    passed: bool
    points: float
    of: float
    message: str = ""
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Grade(Written):
    """The outcomes of a file of tests.

    Attributes
    ----------
    source, tests : str
        The files' names.
    outcomes : list of GradedTest
    error : str
        The compiler's error; "" if the source compiles.

    Examples
    --------
    >>> import gpuopt
    >>> graded = gpuopt.Grade("kernel.cu", "tests.py", [])
    >>> graded
    kernel.cu: 0 of 0 points
    """

    KIND = "grade"
    TOLD = ("source", "tests", "passed", "points", "of", "error", "outcomes")

    source: str
    tests: str
    outcomes: list[GradedTest]
    error: str = ""

    @property
    def points(self) -> float:
        """The points of the tests that passed."""
        return sum(each.points for each in self.outcomes)

    @property
    def of(self) -> float:
        """The points of all tests."""
        return sum(each.of for each in self.outcomes)

    @property
    def passed(self) -> bool:
        """Whether the source compiles and every test passed."""
        return not self.error and all(each.passed for each in self.outcomes)

    def __repr__(self) -> str:
        lines = [f"{self.source}: {self.points:g} of {self.of:g} points"]
        if self.error:
            lines += ["the source does not compile:", self.error]
        for each in self.outcomes:
            mark = "passed" if each.passed else "FAILED"
            lines.append(f"  {mark}  {each.points:g}/{each.of:g}  {each.name}")
            lines += [f"          {text}" for text in each.message.splitlines()]
        return "\n".join(lines)


class _Limited:
    """A module whose launches have a time limit."""

    def __init__(self, module: Any, seconds: float) -> None:
        self._module, self._seconds = module, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __getitem__(self, name: str) -> Callable[..., None]:
        kernel = self._module[name]

        def launch(grid: Any, block: Any, *args: Any, **keywords: Any) -> None:
            kernel(grid, block, *args, **({"time_limit": self._seconds} | keywords))

        return launch


def _points(test: Callable[..., Any]) -> float:
    return float(getattr(test, "points", 1))


def _outcome(test: Callable[..., Any], module: Any, device: str) -> GradedTest:
    """Run one test."""
    began = time.monotonic()
    profile = Profile(device, collecting=True)
    message = ""
    try:
        with profile, contextlib.redirect_stdout(io.StringIO()):
            test(module)
    except Exception as error:
        text = str(error) or type(error).__name__
        message = text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
    findings = profile.findings
    shown = [each.text for each in findings[:FINDINGS_MOST]]
    more = len(findings) - len(shown)
    shown += [f"and {more} more findings"] if more else []
    if not profile.launches and not message:
        message = "the test launched no kernel"
    message = "\n".join(filter(None, [message, *shown]))
    seconds = time.monotonic() - began
    of = _points(test)
    return GradedTest(
        test.__name__, not message, 0.0 if message else of, of, message, seconds, findings
    )


@suggests
def grade(
    tests: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    device: str = "sim",
    include: Iterable[str] = (),
    time_limit: float = SECONDS,
) -> Grade:
    r"""Run the tests of a Python file on the kernels of a CUDA source, on a simulated GPU.

    Parameters
    ----------
    tests : path
        A Python file with functions ``test_name(module)``; ``test_name.points = 3`` sets its
        points (default: 1). Their assertions judge the results.
    source : path
        The CUDA source.
    device : str
        "sim", or a preset as "sim:t4".
    include : iterable of paths
        Folders of headers.
    time_limit : float
        Seconds of each launch.

    Returns
    -------
    Grade

    Raises
    ------
    ValueError
        The file has no tests, or the device is not simulated.
    OSError
        A file cannot be read.

    Notes
    -----
    The file of tests is run, and must be trusted; the source need not be: it runs on the simulated
    GPU only.

    Examples
    --------
    >>> import pathlib, tempfile, gpuopt
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "kernel.cu").write_text("__global__ void one(int *x) { *x = 1; }")
    >>> test = "def test_one(module): x = np.zeros(1, 'i4'); module['one'](1, 1, x); assert x[0]"
    >>> _ = (folder / "tests.py").write_text(f"import numpy as np\n{test}")
    >>> gpuopt.grade(folder / "tests.py", folder / "kernel.cu")
    kernel.cu: 1 of 1 points
      passed  1/1  test_one
    """
    if not str(device).startswith("sim"):
        raise ValueError(f"device: {device!r} checks nothing; use 'sim' or a preset as 'sim:t4'")
    seconds = finite(time_limit, "time_limit")
    tests, source = Path(tests), Path(source)
    names = runpy.run_path(str(tests))
    found = [
        each
        for name, each in names.items()
        if name.startswith("test_") and inspect.isfunction(each)
    ]
    if not found:
        raise ValueError(f"tests: {tests.name} has no function test_*(module)")
    try:
        module = compile_source(source, device=device, include=include)
    except CompileError as error:
        failed = [GradedTest(each.__name__, False, 0.0, _points(each)) for each in found]
        return Grade(source.name, tests.name, failed, str(error))
    limited = _Limited(module, seconds)
    outcomes = [_outcome(each, limited, module.device) for each in found]
    return Grade(source.name, tests.name, outcomes)
