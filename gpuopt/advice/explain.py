"""`gpuopt.explain`: run a kernel, look for mistakes, say what to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuopt.advice import errors
from gpuopt.advice.code import file_of, line_of, place
from gpuopt.advice.evidence import Evidence, TracedBlock, traced
from gpuopt.advice.explanation import Advice, Explanation
from gpuopt.advice.rules import EXPLAINED_BY, OF_THE_LAUNCH, RULES
from gpuopt.jit import resources
from gpuopt.observe.launches import Launch
from gpuopt.observe.profile import Profile, _counting
from gpuopt.ptx.buffers import copied
from gpuopt.ptx.kernel import Kernel
from gpuopt.util.errors import SimError
from gpuopt.util.names import suggests

SECONDS = 20.0  # after which a launch counts as endless, if the caller says nothing


class _Kernel:
    """A kernel's launch that can be repeated from the same state."""

    def __init__(self, kernel: Kernel, grid: Any, block: Any, args: tuple, keywords: dict) -> None:
        self.kernel, self.grid, self.block = kernel, grid, block
        self.keywords = {"time_limit": SECONDS} | keywords
        self.args = args
        self.kept = tuple(copied(each) for each in args)

    def first(self) -> None:
        """Launch it with the caller's arguments."""
        self.kernel(self.grid, self.block, *self.args, **self.keywords)

    def repeat(self, kernel: Kernel | None = None) -> None:
        """Launch it with copies of the arguments as they were at first."""
        copies: dict[int, Any] = {}
        fresh = []
        for given, kept in zip(self.args, self.kept, strict=True):
            if id(given) not in copies:
                copies[id(given)] = copied(kept)
            fresh.append(copies[id(given)])
        (kernel or self.kernel)(self.grid, self.block, *fresh, **self.keywords)


def _counted(call: Callable[[], Any], device: str) -> Profile:
    """Profile a call; one that a check ended has its findings, too."""
    profiled = Profile(device, collecting=True)
    try:
        with profiled:
            profiled.result = call()
    except SimError:
        if not any(each.findings for each in profiled.launches):
            raise
    return profiled


def _blocks(
    repeat: Callable[[], Any], launch: Launch, number: int, device: str, notes: list[str]
) -> list[TracedBlock]:
    """Trace a block, and a second one if their work differs."""
    x, y, z = launch.grid
    count = x * y * z
    wanted = [(count - 1) // 2]
    if launch.spread.longest_steps * count > 1.45 * launch.spread.steps and count > 1:
        longest = launch.spread.longest_block
        wanted.append(longest if longest != wanted[0] else 0)
    found: list[TracedBlock] = []
    if any(each.kind in ("does not end", "deadlock") for each in launch.findings):
        return found
    for each in wanted:
        block = traced(repeat, launch, number, each, device)
        if block is not None:
            found.append(block)
    if len(found) == 2:
        # The rules look at the first one: a block beyond the data's end would show them nothing.
        own, longest = (int(each.executions.sum()) for each in found)
        if 2 * own * launch.spread.longest_steps * count < longest * launch.spread.steps:
            found.reverse()
    if any(each.truncated for each in found):
        notes.append("the end of a long block: its first 400,000 events were looked at")
    return found


def _placed(advice: Advice, evidence: Evidence) -> Advice:
    """Return advice with its place as file and line."""
    file = file_of(advice.line)
    return replace(advice, file=file, line=line_of(advice.line), kernel=evidence.launch.kernel)


def _judged(evidence: Evidence) -> list[Advice]:
    """Apply the rules to a launch."""
    found = errors.errors(evidence) or list(errors.silent_overflow(evidence))
    if found:
        evidence.notes.append("speed, as long as there are errors")
        return [_placed(each, evidence) for each in found]
    for rule in RULES:
        found += [replace(each, gain=float(each.gain)) for each in rule.test(evidence)]
    rules = {each.rule for each in found}
    found = [each for each in found if not rules & EXPLAINED_BY.get(each.rule, set())]
    once: dict[tuple[str, int], Advice] = {}
    for each in sorted(found, key=lambda each: -each.gain):  # loads and stores of one line
        once.setdefault((each.rule, each.line), each)
    found = [_placed(each, evidence) for each in once.values()]
    order = {rule.name: number for number, rule in enumerate(RULES)}
    return sorted(
        found,
        key=lambda each: (
            each.severity != "high",
            each.rule in OF_THE_LAUNCH,
            -round(each.gain, 1),
            order[each.rule],
        ),
    )


def _explained(
    profiled: Profile,
    repeat: Callable[[], Any],
    kernel: Kernel | None,
    call: _Kernel | None,
    device: str,
) -> Explanation:
    """Return the advice on all launches of a call: those of a kernel with equal findings once."""
    advice: list[Advice] = []
    notes: list[str] = []
    source: dict[int, str] = {}
    seen: set[tuple[str, tuple, tuple, frozenset]] = set()
    for number, launch in enumerate(profiled.launches):
        errors = frozenset((each.kind, each.line) for each in launch.findings)
        key = (launch.kernel, launch.grid, launch.block, errors)
        if key in seen:
            continue
        seen.add(key)
        blocks = _blocks(repeat, launch, number, device, notes)
        again = None
        if call is not None:

            def again(other: Kernel | None, call: _Kernel = call) -> Launch:
                return _counted(lambda: call.repeat(other), device).launches[0]

        if kernel is not None:
            for each in blocks:
                each.ptx = kernel.module.ptx
        evidence = Evidence(launch, blocks, kernel, call.args if call else (), again)
        if kernel is not None:
            _measure(evidence, kernel)
        found = _judged(evidence)
        advice += [
            each
            for each in found
            if (each.rule, each.line, each.kernel)
            not in {(other.rule, other.line, other.kernel) for other in advice}
        ]
        notes += evidence.notes
        for each in found:
            source[each.line] = evidence.source_line(place(each.file, each.line))
    ranks = {"error": 0, "high": 1, "low": 2}
    advice.sort(key=lambda each: ranks[each.severity])
    return Explanation(advice, profiled.launches, list(dict.fromkeys(notes)), source)


def _measure(evidence: Evidence, kernel: Kernel) -> None:
    """Add the compiler's registers and spills, which PTX does not have."""
    evidence.shared_static = kernel.resources.shared_bytes
    capability = evidence.preset["compute_capability"]
    found = resources.of(kernel, capability)
    if found is None:
        if kernel.module.source is not None or kernel.module.ptx is not None:
            evidence.notes.append(
                "register spills: the compiler's figures need the source and NVRTC "
                "(gpuopt.compile), for a GPU since Turing; occupancy that "
                "registers limit is not judged"
            )
        return
    evidence.registers, evidence.spilled = found.registers, found.spilled
    from gpuopt import models

    real = models.occupancy(
        evidence.gpu,
        evidence.threads,
        registers=found.registers,
        shared=evidence.launch.shared_bytes + evidence.shared_static,
    )
    if real.warps:
        evidence.launch = replace(
            evidence.launch,
            occupancy=real.warps / real.max_warps,
            limiter={"shared": "shared memory", "threads": "warps"}.get(real.limiter, real.limiter),
        )


@suggests
def explain(
    function: Callable[..., Any],
    *arguments: Any,
    device: str | None = None,
    **keywords: Any,
) -> Explanation:
    """Find a kernel's mistakes and the reasons why it is slow, worst first.

    Parameters
    ----------
    function : Kernel or callable
        A kernel of `gpuopt.compile` or `load_ptx` on a simulated GPU, called as
        ``explain(kernel, grid, block, *args, shared=0)``; or a function that launches kernels, as
        `gpuopt.reduce`.
    *arguments, **keywords
        Passed to the function. A kernel's launch counts as endless after ``time_limit=20`` seconds.
    device : str, optional
        "sim", or a preset as "sim:t4": the device of calls that name none. A kernel has its
        module's.

    Returns
    -------
    Explanation
        A sequence of `Advice`, worst first; empty if no mistake was found. Its repr is text, in
        Jupyter a table.

    Raises
    ------
    TypeError
        The function is not callable.
    ValueError
        The kernel is on a real GPU, or the function launched none on a simulated one.

    Notes
    -----
    The kernel runs several times: once with the caller's arrays, which hold its results then, and
    on copies for traces and trials. A function is called again with the same arguments.

    Errors come first, and speed is judged only without errors. The rules know the GPU's datasheet,
    not its clock: gains are estimated, one by one.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> found = gpuopt.explain(gpuopt.reduce, np.arange(1 << 14, dtype=np.int32), variant=2)
    >>> found[0].rule
    'bank-conflicts'
    """
    if not callable(function):
        raise TypeError(
            f"function: must be callable, not {function!r:.60}; for a rung, gpuopt.reduce and its "
            "arguments, variant= among them"
        )
    if isinstance(function, Kernel):
        where = function.module.device
        if device is not None and _counting(device) != where:
            raise ValueError(f"device: the kernel's module is on {where!r}; leave device out")
        if not where.startswith("sim"):
            raise ValueError(
                f"kernel: is on {where}, which counts nothing; compile it with device='sim'"
            )
        if len(arguments) < 2:
            raise TypeError(
                "explain: a kernel needs a grid and a block, as explain(kernel, 4, 256)"
            )
        call = _Kernel(function, arguments[0], arguments[1], arguments[2:], keywords)
        profiled = _counted(call.first, where)
        return _explained(profiled, call.repeat, function, call, where)
    where = _counting(device or "sim")
    profiled = _counted(lambda: function(*arguments, **keywords), where)
    if not profiled.launches:
        raise ValueError(
            "function: launched no kernel on a simulated GPU; let its calls name no device, or a "
            "simulated one"
        )
    return _explained(profiled, lambda: function(*arguments, **keywords), None, None, where)
