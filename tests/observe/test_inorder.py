"""A warp's time through machine code, by its control codes, against times counted by hand."""

import numpy as np
import pytest

import gpuopt
from gpuopt import _core
from gpuopt.catalog.figures import FIGURES
from gpuopt.observe import inorder, machine
from gpuopt.observe.inorder import walked
from gpuopt.observe.machine import Machine, MachineInstruction

H100 = FIGURES["h100"]


def time(code, times=None, load=500.0, warps=(0,), **queues):
    made = Machine("sm_90", 16, 0, tuple(code))
    rows = np.array(times or [1.0] * len(code), float).reshape(-1, len(code))
    return walked(made, rows, H100, lambda line: load, warps, queues)


def test_stalls_add_up():
    code = [MachineInstruction("FADD", 1, 0, stall=4), MachineInstruction("FADD", 2, 0, stall=2)]
    assert time(code) == 6


def test_a_load_is_waited_for_by_its_scoreboard_alone():
    load = MachineInstruction("LDG.E", 1, 0, stall=1, writes=2)
    work = [MachineInstruction("FADD", 2, 0, stall=1)] * 10
    use = MachineInstruction("FADD", 3, 0, stall=4, waits=1 << 2)
    assert time([load, *work]) == 11
    assert time([load, *work, use]) == 504
    two = [load, load._replace(writes=3), use._replace(waits=3 << 2)]
    assert time(two) == 505, "loads overlap"


def test_a_load_of_the_next_turn_overlaps_this_turns_work():
    """Loop: use what the last turn loaded, load, 600 clocks of work, and 5 for the branch."""
    use = MachineInstruction("FADD", 1, 0, stall=1, waits=1)
    load = MachineInstruction("LDG.E", 2, 0, stall=1, writes=0)
    work = [MachineInstruction("FADD", 3, 0, stall=10)] * 60
    back = MachineInstruction("BRA", 4, 0, stall=5, target=0)
    assert time([use, load, *work, back], [100.0] * 63) == pytest.approx(100 * 612)
    short = [use, load, *work[:10], back]
    assert time(short, [100.0] * 13) == pytest.approx(100 * 501, rel=0.01)


def test_a_branch_that_is_taken_three_times_of_four_costs_as_much():
    code = [
        MachineInstruction("BRA", 1, 0, stall=4, target=2),
        MachineInstruction("FADD", 2, 1, stall=4),
        MachineInstruction("EXIT", 3, 2, stall=1),
    ]
    found = time(code, [1.0, 0.25, 1.0])
    assert found == 4 + 0.75 * inorder.BRANCH + 0.25 * 4 + 1


def test_code_that_a_warp_does_not_execute_takes_no_time():
    code = [MachineInstruction("FADD", 1, 0, stall=4), MachineInstruction("LDG.E", 2, 1, stall=900)]
    assert time(code, [1.0, 0.0]) == 4


def test_asynchronous_copies_are_waited_for_by_groups():
    copy = [MachineInstruction("LDGSTS.E", 1, 0), MachineInstruction("LDGDEPBAR", 1, 0)]
    assert time([*copy, MachineInstruction("DEPBAR.LE", 2, 0, target=0)]) == 501
    assert time([*copy, *copy, MachineInstruction("DEPBAR.LE", 2, 0, target=1)]) == 501
    assert time([*copy, MachineInstruction("DEPBAR.LE", 2, 0, target=1)]) == 3


def test_warps_of_a_scheduler_take_turns():
    """Five warps on four schedulers: two of them share one."""
    code = [MachineInstruction("FADD", 1, 0)] * 8
    assert time(code, warps=[0] * 4) == 8
    assert time(code, warps=[0] * 5) == 16
    slow = [MachineInstruction("FADD", 1, 0, stall=4)] * 8
    assert time(slow, warps=[0] * 8) == 33, "one issues while the other one stalls"


def test_accesses_queue_for_the_multiprocessor():
    reads = [MachineInstruction("LDS", 1, 0, writes=0)] * 8 + [
        MachineInstruction("FADD", 2, 0, waits=1)
    ]
    assert time(reads) == 8 + H100.shared  # the last one began at 7
    assert time(reads, **{"shared memory": 10.0}) == 71 + H100.shared
    assert time(reads, warps=[0] * 4, **{"shared memory": 10.0}) == 31 * 10 + H100.shared + 1


def test_warps_that_wait_for_loads_drift_apart():
    """Loop: four loads, then their use: the others' loads are in the queue while one waits."""
    load = [MachineInstruction("LDG.E", 1, 0, writes=0)] * 4
    use = [MachineInstruction("FADD", 2, 0, waits=1), MachineInstruction("BRA", 3, 0, target=0)]
    alone = time([*load, *use], [100.0] * 6, load=300.0)
    together = time([*load, *use], [100.0] * 6, 300.0, [0] * 16, LSU=2.0)
    assert alone == pytest.approx(100 * 305, rel=0.02)
    assert together < 1.3 * alone, "not 300 clocks after all 64 have been served"


def test_a_barrier_waits_for_the_longest_warp():
    """The first kind of warp works for 100 clocks and branches, the other one works for 10."""
    work = [MachineInstruction("FADD", 1, 0, stall=10)] * 10
    brief = [MachineInstruction("FADD", 2, 1, stall=10)]
    last = [
        MachineInstruction("BAR.SYNC", 3, 2, stall=1),
        MachineInstruction("EXIT", 4, 2, stall=1),
    ]
    rows = [[1.0] * 10 + [0.0] + [1.0] * 2, [0.0] * 10 + [1.0] * 3]
    code = [*work, *brief, *last]
    assert time(code, rows, warps=[1]) == 10 + 1 + H100.barrier + 1
    assert time(code, rows, warps=[1, 0, 1]) == 100 + inorder.BRANCH + 1 + H100.barrier + 1


def test_a_barrier_does_not_wait_for_warps_that_have_ended():
    code = [
        MachineInstruction("FADD", 1, 0),
        MachineInstruction("BAR.SYNC", 2, 1),
        MachineInstruction("EXIT", 3, 1),
    ]
    assert time(code, [[1.0] * 3, [1.0, 0.0, 0.0]], warps=[0, 1]) == 1 + 1 + H100.barrier + 1


def test_special_functions_wait_for_their_pipe():
    code = [MachineInstruction("MUFU.RSQ", 1, 0)] * 4
    assert time(code) == 3 * 4 * inorder.WARP / H100.special_lanes + 1


@pytest.mark.parametrize("warps", [b"", b"\1", bytes(65)])
def test_buffers_that_do_not_fit_are_refused(warps):
    code, row = np.zeros((2, 10), np.int32), np.zeros(2)
    constants = np.zeros(15)
    with pytest.raises(ValueError, match="do not fit"):
        _core.walk(code, row, warps, row, constants)
    for wrong in (code - 2, code + 9, code[:1]):
        with pytest.raises(ValueError, match="do not fit"):
            _core.walk(wrong, row, b"\0", row, constants)
    assert _core.walk(code, row, b"\0", row, constants) == 0


def test_many_nested_loops_end():
    depth = 64
    code = [MachineInstruction("FADD", at, at) for at in range(depth)]
    code += [
        MachineInstruction("BRA", at, depth + at, target=depth - 1 - at) for at in range(depth)
    ]
    assert time(code, [2.0] * len(code)) > 0


def test_control_codes_of_a_listing():
    """The encoding of an LDG, which scoreboard 2 reports, and an STS, which waits for it."""
    listing = """
        /*01b0*/                   LDG.E.128 R12, desc[UR8][R12.64] ;  /* 0x000000080c0c7981 */
                                                                       /* 0x000ea2000c1e1d00 */
.L_x_1:
        /*0200*/                   STS.128 [R7], R12 ;                 /* 0x0000000c07007388 */
                                                                       /* 0x0041e20000000c00 */
        /*0210*/               @P0 BRA `(.L_x_1) ;                     /* 0x0000000000007b1d */
                                                                       /* 0x000ff20000010000 */
        /*0220*/                   DEPBAR.LE SB0, 0x1 ;                /* 0x000080400000791a */
                                                                       /* 0x000fe20000000000 */
        /*0230*/                   EXIT ;                              /* 0x000000000000794d */
                                                                       /* 0x000fea0003800000 */
"""
    load, store, branch, depbar, _ = machine.parsed(listing)
    assert (load.stall, load.writes, load.reads, load.waits) == (1, 2, 7, 0)
    assert (store.writes, store.reads, store.waits) == (7, 0, 1 << 2)
    assert branch.target == store.block and depbar.target == 1


def test_the_walk_decides_where_few_warps_wait_for_each_other():
    """A chain of dependent square roots: by its latencies, not by its instructions."""
    if not machine._tool("ptxas") or not machine._tool("nvdisasm"):
        pytest.skip("needs ptxas and nvdisasm")
    chain = "".join("    rsqrt.approx.ftz.f32 %f1, %f1;\n" for _ in range(64))
    ptx = f""".version 7.0
.target sm_75
.address_size 64
.visible .entry chain(.param .u64 out) {{
    .reg .f32 %f<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.global.f32 %f1, [%rd1];
{chain}    st.global.f32 [%rd1], %f1;
    ret;
}}
"""
    kernel = gpuopt.load_ptx(ptx, device="sim:h100")["chain"]
    found = gpuopt.predict(kernel, 1, 1, np.ones(1, np.float32), how="graph")
    clocks = (found.seconds - H100.launch) * 1.98e9
    assert found.bound in ("latency", "launch")
    assert 64 * inorder.SPECIAL < clocks < 64 * inorder.SPECIAL + 1000
