"""A barrier of all blocks on every preset: right with room for all blocks, a deadlock without."""

import pytest

import gpuopt
from gpuopt import models


@pytest.mark.parametrize("preset", ["g80", "gt200", "m2090", "k40", "v100", "t4"])
def test_spin_barrier_needs_every_block_to_be_resident(preset):
    found = gpuopt.experiments.global_sync(device=f"sim:{preset}")
    limits = models.GPUS[preset]
    resident = min(limits.blocks, limits.warps) * found.device.multiprocessors
    spin = found["spin barrier, too many blocks"]
    assert (spin.values["resident"], spin.values["blocks"]) == (resident, resident + 1)
    assert "deadlock" in spin.reading
    right = [row.values["right"] for row in found.rows]
    if preset in ("v100", "t4"):  # compute capability 6.0 and later have cooperative launches
        assert right == [1, 1, 0, 1, 0]
        assert "refused before it starts" in found.rows[-1].reading
    else:
        assert right == [1, 1, 0] and "grid.sync() needs CUDA 9" in str(found)


def test_no_more_blocks_than_multiprocessors():
    assert gpuopt.experiments.global_sync(3, device="sim:g80").rows[1].values["blocks"] == 3
    with pytest.raises(ValueError, match="blocks: must be from 1 to 16, not 17"):
        gpuopt.experiments.global_sync(17, device="sim:g80")
