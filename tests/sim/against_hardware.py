"""Compare the simulated GPU's counters with a real one's: python tests/sim/against_hardware.py

Needs a GPU and Nsight Compute (ncu) on PATH. Runs every rung of the reduction on both, on the same
2^18 items, and prints the counters of each kernel side by side, all its launches together.
"""

import csv
import subprocess
import sys
from collections import Counter, defaultdict

import numpy as np

import gpuopt

N = 1 << 18
COMPARED = [
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_wavefronts",
    "shared_load_conflicts",
    "shared_store_wavefronts",
    "shared_store_conflicts",
    "warp_instructions",
]
EXACT = COMPARED[:-1]  # instructions are PTX's here and the machine's there


def run_rungs(device):
    items = np.random.default_rng(0).integers(-100, 100, N, dtype=np.int32)
    for rung in gpuopt.rungs("reduce"):
        if not rung.host and not rung.historical:
            gpuopt.reduce(items, variant=rung.variant, dtype=np.int32, device=device)


def hardware():
    """Return {kernel: {counter: value}} from a run of this script under ncu."""
    names = {gpuopt.Profile.describe()[name][0]: name for name in COMPARED}
    command = ["ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(names)]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--run"], capture_output=True, text=True, check=True
    )
    rows = csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"'))
    counted = defaultdict(Counter)
    for row in rows:
        value = int(float(row["Metric Value"].replace(",", "")))
        counted[row["Kernel Name"].split("(")[0]][names[row["Metric Name"]]] += value
    return counted


def main():
    if "--run" in sys.argv:
        run_rungs("cuda")
        return 0
    with gpuopt.profile(device="sim:h200") as profile:
        run_rungs(None)
    real, different = hardware(), 0
    print(
        f"{N:,} int32, {gpuopt.devices()[0].description}; simulated = hardware unless shown as s/h"
    )
    for kernel, counters in profile.by_kernel().items():
        print(kernel)
        for name in COMPARED:
            ours, theirs = counters[name], real[kernel][name]
            different += name in EXACT and ours != theirs
            print(f"  {name:<26}{ours:>10,}" + (f" / {theirs:,}" if ours != theirs else ""))
    print(f"{different} of {len(EXACT) * len(profile.by_kernel())} memory counters differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
