"""Compare gpuopt.check's verdicts with compute-sanitizer's: python tests/sim/against_sanitizer.py

Needs a GPU and compute-sanitizer on PATH. Every rung, the historical ones too, and the faulty
kernels of tests/ptx/broken.cu: for each the kinds that the simulated GPU finds, and the tools of
compute-sanitizer that report an error. The verdicts agree where both find something or neither
does.
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import gpuopt
from gpuopt.families import cases as cases_module

sys.path.insert(0, str(Path(__file__).parents[1]))
import ptx_directives

BROKEN = Path(__file__).parents[1] / "ptx" / "broken.ptx"
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
ITEMS = {"reduce": 5000, "transpose": 96**2, "stencil1d": 5000, "add": 1024, "saxpy": 1024}
ITEMS |= {"matmul": 96**2}
FAILED = 99  # compute-sanitizer's exit status when it found something


def run_rung(rung, device):
    n = ITEMS[rung.family]
    if rung.family == "reduce":
        items = np.arange(n, dtype=np.int32)
        gpuopt.reduce(items, variant=rung.variant, dtype=np.int32, device=device)
    else:
        cases_module.make(rung.family, n, "float32", 0, timed=False).call(rung, None, device)


def run_broken(kernel, device):
    text = ptx_directives.without_names(BROKEN.read_text())
    run = ptx_directives.Run(text, device)
    for name, rest in ptx_directives.DIRECTIVE.findall(text):
        words = rest.split()
        if name == "buffer":
            run.buffer(*words)
        elif name == "launch" and words[0] == kernel:
            run.launch(*words)


def cases():
    """Return {name: what runs it on a device}."""
    rungs = [
        rung
        for family in ITEMS
        for rung in gpuopt.rungs(family)
        if not rung.host and not rung.ceiling
    ]
    found = {f"{rung.family} {rung.variant}": (run_rung, rung) for rung in rungs}
    broken = re.findall(r"^\.visible \.entry (\w+)", BROKEN.read_text(), re.M)
    return found | {name: (run_broken, name) for name in broken}


def sanitized(names, tool):
    """Return whether a tool finds something in a process that runs these cases."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FAILED)]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--run", *names], check=False, capture_output=True,
        text=True,
    )  # fmt: skip
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", done.stdout + done.stderr)
    if not summary:
        raise SystemExit(f"compute-sanitizer failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int(summary[1]) > 0


def verdicts(names, tool):
    """Return the cases in which a tool finds something: all at once, then by halves."""
    if not names or not sanitized(names, tool):
        return set()
    if len(names) == 1:
        return set(names)
    half = len(names) // 2
    return verdicts(names[:half], tool) | verdicts(names[half:], tool)


def main():
    every = cases()
    if "--run" in sys.argv:
        for name in sys.argv[sys.argv.index("--run") + 1 :]:
            run, what = every[name]
            try:
                run(what, "cuda")
            except gpuopt.DeviceError as error:  # what a faulty kernel ends in
                print(error)
        return 0
    ours = {name: gpuopt.check(run, what, "sim") for name, (run, what) in every.items()}
    sound = [name for name in every if not name.startswith("broken") and "historical" not in name]
    faulty = [name for name in every if name not in sound]
    with ThreadPoolExecutor(8) as pool:  # each of a process, which an error may take with it
        theirs = dict(zip(TOOLS, pool.map(lambda tool: verdicts(sound, tool), TOOLS), strict=True))
        single = [(name, tool) for name in faulty for tool in TOOLS]
        for (name, tool), bad in zip(
            single, pool.map(lambda each: sanitized([each[0]], each[1]), single), strict=True
        ):
            if bad:
                theirs[tool].add(name)
    differ = 0
    print(f"{'case':<32}{'compute-sanitizer':<32}gpuopt.check")
    for name in every:
        tools = [tool for tool in TOOLS if name in theirs[tool]]
        kinds = sorted({finding.kind for finding in ours[name]})
        differ += bool(tools) != bool(kinds)
        note = "   <- differ" if bool(tools) != bool(kinds) else ""
        print(f"{name:<32}{', '.join(tools) or '-':<32}{', '.join(kinds) or '-'}{note}")
    print(f"{differ} of {len(every)} verdicts differ")
    return differ > 0


if __name__ == "__main__":
    sys.exit(main())
