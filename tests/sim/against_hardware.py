"""Compare the simulated GPU's counters with a real one's: python tests/sim/against_hardware.py

Needs a GPU and Nsight Compute (ncu) on PATH. Runs every rung, and the accesses of
tests/ptx/readings.cu, on both, with the same data; prints each kernel's counters, all its launches
together, and how many of the compared ones differ. Instructions stand side by side: PTX's here, the
machine's there.
"""

import csv
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

import gpuopt
from gpuopt.families import cases

sys.path.insert(0, str(Path(__file__).parents[1]))
import ptx_directives

READINGS = Path(__file__).parents[1] / "ptx" / "readings.ptx"
ITEMS = {  # number of random floats; the reduction reads integers
    "reduce": 1 << 18,
    "transpose": 512**2,
    "stencil1d": 1 << 18,
    "add": 1 << 17,
    "saxpy": 1 << 17,
    "matmul": 256**2,
}
SMALL = 1024  # elements for rungs that are limited to one block
COMPARED = [
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_wavefronts",
    "shared_load_conflicts",
    "shared_store_wavefronts",
    "shared_store_conflicts",
]
BESIDE = "warp_instructions"


def run_family(family, device):
    if family == "reduce":
        items = np.random.default_rng(0).integers(-100, 100, ITEMS[family], dtype=np.int32)

    def call(rung, n):
        if family == "reduce":
            gpuopt.reduce(items, variant=rung.variant, dtype=np.int32, device=device)
        else:
            cases.make(family, n, "float32", 0, timed=False).call(rung, None, device)

    for rung in gpuopt.rungs(family):
        if rung.host or rung.historical:
            continue
        try:
            call(rung, ITEMS[family])
        except ValueError as error:
            if "variant: rung" not in str(error):
                raise
            call(rung, SMALL)


def run_all(device):
    for family in ITEMS:
        run_family(family, device)
    done = ptx_directives.run(ptx_directives.without_names(READINGS.read_text()), device)
    assert not done.failures, done.failures


def hardware(kernels):
    """Return {kernel: {counter: value}} from one run of this script under ncu."""
    names = {gpuopt.Profile.describe()[name][0]: name for name in [*COMPARED, BESIDE]}
    ours = "regex:^(" + "|".join(sorted({kernel.split("_")[0] for kernel in kernels})) + ")_"
    command = ["ncu", "--clock-control", "none", "--csv", "--print-units", "base"]
    command += ["--kernel-name", ours, "--metrics", ",".join(names)]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--run"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    rows = csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"'))
    counted = defaultdict(Counter)
    for row in rows:
        value = int(float(row["Metric Value"].replace(",", "")))
        counted[row["Kernel Name"].split("(")[0]][names[row["Metric Name"]]] += value
    return counted


def table(simulated, real):
    """Return the lines of the table, and how many counters were compared and differ."""
    lines = [f"{'kernel':<48}{'PTX instr.':>14}{'SASS instr.':>14}{'ratio':>7}  memory counters"]
    compared = different = 0
    for kernel, counters in simulated.items():
        theirs = real.get(kernel)
        if theirs is None:
            lines.append(f"{kernel:<48}  not seen by ncu")
            different += len(COMPARED)
            compared += len(COMPARED)
            continue
        off = [name for name in COMPARED if counters[name] != theirs[name]]
        compared += len(COMPARED)
        different += len(off)
        ratio = theirs[BESIDE] / counters[BESIDE]
        lines.append(
            f"{kernel:<48}{counters[BESIDE]:>14,}{theirs[BESIDE]:>14,}{ratio:>7.2f}  "
            + (f"{len(off)} differ" if off else "equal")
        )
        lines += [
            f"    {name:<44}{counters[name]:>14,}{theirs[name]:>14,}"
            f"{100 * (theirs[name] / counters[name] - 1) if counters[name] else 100:>+7.1f}%"
            for name in off
        ]
    return lines, compared, different


def main():
    if "--run" in sys.argv:
        run_all("cuda")
        return 0
    with gpuopt.profile(device="sim:h200") as profile:
        run_all("sim:h200")
    simulated = profile.by_kernel()
    lines, compared, different = table(simulated, hardware(simulated))
    sizes = ", ".join(f"{family} {items:,}" for family, items in ITEMS.items())
    print(f"simulated h200, and {gpuopt.devices()[0].description}; items: {sizes}")
    print(*lines, sep="\n")
    print(f"{different} of {compared} memory counters differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
