"""global_sync: why the decks launch again, and what a barrier of all blocks needs."""

from __future__ import annotations

import numpy as np

from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.measure.race import VerificationError
from gpuopt.models import gpu
from gpuopt.ptx.module import Module, load_ptx
from gpuopt.util.errors import SimError, UnfitError
from gpuopt.util.names import suggests

BLOCK = 32
# %r1 = the sum of the %r0 parts from %x0 on.
_ADD = """    mov.u32 %r1, 0;
add_next:
    ld.volatile.global.u32 %r2, [%x0];
    add.u32 %r1, %r1, %r2;
    add.s64 %x0, %x0, 4;
    sub.u32 %r0, %r0, 1;
    setp.ne.u32 %p, %r0, 0;
    @%p bra add_next;
"""
# store: each block stores its part. total: every block adds all parts. spin: both in one launch,
# with a barrier of all blocks between, made from a counter and a loop that waits.
_PTX = """.version 7.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 parts)
{
    .reg .b32 %r<4>; .reg .b64 %x<4>;
    ld.param.u64 %x0, [parts];
    mov.u32 %r0, %ctaid.x;
    mul.wide.u32 %x1, %r0, 4;
    add.s64 %x2, %x0, %x1;
    add.u32 %r1, %r0, 1;
    st.volatile.global.u32 [%x2], %r1;
    ret;
}
.visible .entry total(.param .u64 parts, .param .u64 totals)
{
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %x<6>;
    ld.param.u64 %x0, [parts];
    ld.param.u64 %x1, [totals];
    mov.u32 %r0, %nctaid.x;
    ADD;
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %x2, %r3, 4;
    add.s64 %x3, %x1, %x2;
    st.global.u32 [%x3], %r1;
    ret;
}
.visible .entry spin(.param .u64 parts, .param .u64 totals, .param .u64 arrived)
{
    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %x<8>;
    ld.param.u64 %x0, [parts];
    ld.param.u64 %x1, [totals];
    ld.param.u64 %x6, [arrived];
    mov.u32 %r4, %tid.x;
    setp.ne.u32 %p, %r4, 0;
    @%p bra done;
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %x2, %r3, 4;
    add.s64 %x3, %x0, %x2;
    add.u32 %r1, %r3, 1;
    st.volatile.global.u32 [%x3], %r1;
    membar.gl;
    red.global.add.u32 [%x6], 1;
    mov.u32 %r0, %nctaid.x;
wait:
    ld.volatile.global.u32 %r2, [%x6];
    setp.lt.u32 %p, %r2, %r0;
    @%p bra wait;
    membar.gl;
    ADD;
    add.s64 %x3, %x1, %x2;
    st.global.u32 [%x3], %r1;
done:
    ret;
}
// What nvcc makes of this_grid().sync(): the workspace's address is in two special registers; the
// first block adds so much that the counter's top bit changes when all have come.
.visible .entry grid_sync(.param .u64 parts, .param .u64 totals)
{
    .reg .pred %p; .reg .b32 %r<12>; .reg .b64 %x<8>;
    ld.param.u64 %x0, [parts];
    ld.param.u64 %x1, [totals];
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %x2, %r3, 4;
    add.s64 %x3, %x0, %x2;
    add.u32 %r1, %r3, 1;
    st.volatile.global.u32 [%x3], %r1;
    mov.u32 %r5, %envreg1;
    mov.u32 %r6, %envreg2;
    mov.b64 %x4, {%r6, %r5};
    barrier.sync 0;
    mov.u32 %r4, %tid.x;
    setp.ne.u32 %p, %r4, 0;
    @%p bra arrived;
    mov.u32 %r0, %nctaid.x;
    sub.u32 %r7, 0x80000001, %r0;
    setp.eq.u32 %p, %r3, 0;
    selp.b32 %r7, %r7, 1, %p;
    atom.add.release.gpu.u32 %r8, [%x4+4], %r7;
wait:
    ld.acquire.gpu.u32 %r9, [%x4+4];
    xor.b32 %r9, %r9, %r8;
    setp.ge.s32 %p, %r9, 0;
    @%p bra wait;
arrived:
    barrier.sync 0;
    setp.ne.u32 %p, %r4, 0;
    @%p bra done;
    mov.u32 %r0, %nctaid.x;
    ADD;
    add.s64 %x3, %x1, %x2;
    st.global.u32 [%x3], %r1;
done:
    ret;
}
""".replace("    ADD;\n", _ADD)
SINCE = 6  # major compute capability with cooperative launches


@suggests
def global_sync(blocks: int | None = None, *, device: str | None = None) -> Experiment:
    """Synchronize all blocks: by two launches, and by a loop that waits, with and without room.

    Parameters
    ----------
    blocks : int, optional
        Blocks of the small grid. Default: one for each multiprocessor.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' G80. On a GPU the loop runs with as many
        blocks as are certainly resident; with more it would hang.

    Returns
    -------
    Experiment
        Rows "two launches", "spin barrier" (all blocks are resident) and, on a simulated GPU,
        "spin barrier, too many blocks"; from compute capability 6.0 on ("sim:v100") also
        "grid.sync()" and the same with too many blocks. `launches`, `blocks` and `resident`;
        `right` is 1 where every block saw all blocks' parts, 0 where the launch cannot end, or is
        refused.

    Raises
    ------
    TypeError, ValueError
        A `blocks` that is no such number, or more than are certainly resident; a device without
        kernels.
    VerificationError
        A total is wrong.

    Notes
    -----
    Source: decks D0 and D4: CUDA has no barrier of all blocks, since more blocks than fit would
    deadlock: resident blocks wait for others that cannot start. Since CUDA 9 there is one,
    ``grid.sync()``; a launch that asks for it fails if its blocks do not fit at once.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.global_sync(device="sim:g80")
    >>> [row.values["right"] for row in found.rows]
    [1, 1, 0]
    """
    described = _lab.choose(device, "g80")
    most = described.multiprocessors
    count = _lab.whole(blocks, "blocks", 1, most) if blocks is not None else most
    module = load_ptx(_PTX, described.name)
    rows = [_launches(module, count), _spin(module, count)]
    notes = ["each block adds what all blocks have stored before"]
    if described.kind == "sim":
        rows.append(_too_many(module, described))
    if int(described.compute_capability.split(".")[0]) >= SINCE:
        rows += [_grid_sync(module, count), _grid_sync_refused(module)]
    else:
        notes.append("grid.sync() needs CUDA 9 and compute capability 6.0: device='sim:v100'")
    columns = [
        Column("launches", "launches"),
        Column("blocks", "blocks"),
        Column("resident", "fit\nat once"),
        Column("right", "right"),
    ]
    return Experiment(
        "global_sync", described, "a barrier of all blocks", columns, rows, notes=notes
    )


def _verify(totals: np.ndarray, count: int) -> None:
    want = count * (count + 1) // 2
    if not (totals == want).all():
        raise VerificationError(f"global_sync: a block added {totals.tolist()[0]}, not {want}")


def _row(name: str, launches: int, count: int, resident: int, right: bool, reading: str) -> Row:
    values = {"launches": launches, "blocks": count, "resident": resident, "right": int(right)}
    return Row(name, {}, values, None, reading, "")


def _launches(module: Module, count: int) -> Row:
    parts, totals = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    module["store"](count, 1, parts)
    module["total"](count, 1, parts, totals)
    _verify(totals, count)
    reading = "the second launch starts when the first has ended: right with any number of blocks"
    return _row("two launches", 2, count, _resident(module), True, reading)


def _resident(module: Module) -> int:
    """Return the blocks of a warp that the GPU holds at once; the kernels use few registers."""
    described = _lab.describe_device(module.device)
    limits = gpu(described)
    return min(limits.blocks, limits.warps) * described.multiprocessors


def _spin(module: Module, count: int) -> Row:
    parts, totals, arrived = (np.zeros(each, np.uint32) for each in (count, count, 1))
    module["spin"](count, BLOCK, parts, totals, arrived)
    _verify(totals, count)
    reading = "right as long as every block is resident, which CUDA does not promise"
    return _row("spin barrier", 1, count, _resident(module), True, reading)


def _too_many(module: Module, device: Device) -> Row:
    resident = _resident(module)
    count = resident + 1
    parts, totals, arrived = (np.zeros(each, np.uint32) for each in (count, count, 1))
    try:
        module["spin"](count, BLOCK, parts, totals, arrived)
    except SimError as error:
        if error.kind != "deadlock":
            raise
        reading = "deadlock: the resident blocks wait for one that starts when one of them ends"
        return _row("spin barrier, too many blocks", 1, count, resident, False, reading)
    raise VerificationError(
        f"global_sync: {count:,} blocks met on {device.name}, which holds {resident:,}"
    )


def _grid_sync(module: Module, count: int) -> Row:
    parts, totals = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    module["grid_sync"](count, BLOCK, parts, totals, cooperative=True)
    _verify(totals, count)
    reading = "right: a cooperative launch starts only where every block is resident"
    return _row("grid.sync()", 1, count, _resident(module), True, reading)


def _grid_sync_refused(module: Module) -> Row:
    resident = _resident(module)
    count = resident + 1
    parts, totals = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    try:
        module["grid_sync"](count, BLOCK, parts, totals, cooperative=True)
    except UnfitError:
        reading = "refused before it starts, instead of a deadlock"
        return _row("grid.sync(), too many blocks", 1, count, resident, False, reading)
    raise VerificationError(
        f"global_sync: {module.device} started {count:,} blocks at once, and holds {resident:,}"
    )
