"""A warp's time through machine code, by its control codes, against times counted by hand."""

import numpy as np
import pytest

import gpuopt
from gpuopt.catalog.figures import FIGURES
from gpuopt.observe import inorder, machine
from gpuopt.observe.inorder import walked
from gpuopt.observe.machine import MachineInstruction

H100 = FIGURES["h100"]


def time(code, times=None, load=500.0, **shares):
    told = walked(code, times or [1.0] * len(code), H100, lambda line: load, shares)
    return told.clocks


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
    """Loop: use what the last turn loaded, load, 600 clocks of work. The load is hidden."""
    use = MachineInstruction("FADD", 1, 0, stall=1, waits=1)
    load = MachineInstruction("LDG.E", 2, 0, stall=1, writes=0)
    work = [MachineInstruction("FADD", 3, 0, stall=10)] * 60
    back = MachineInstruction("BRA", 4, 0, stall=5, target=0)
    assert time([use, load, *work, back], [100.0] * 63) == pytest.approx(100 * 607)
    short = [use, load, *work[:10], back]
    assert time(short, [100.0] * 13) == pytest.approx(100 * 501, rel=0.01)


def test_code_that_a_warp_does_not_execute_takes_no_time():
    code = [MachineInstruction("FADD", 1, 0, stall=4), MachineInstruction("LDG.E", 2, 1, stall=900)]
    assert time(code, [1.0, 0.0]) == 4


def test_asynchronous_copies_are_waited_for_by_groups():
    copy = [MachineInstruction("LDGSTS.E", 1, 0), MachineInstruction("LDGDEPBAR", 1, 0)]
    assert time([*copy, MachineInstruction("DEPBAR.LE", 2, 0, target=0)]) == 501
    assert time([*copy, *copy, MachineInstruction("DEPBAR.LE", 2, 0, target=1)]) == 501
    assert time([*copy, MachineInstruction("DEPBAR.LE", 2, 0, target=1)]) == 3


def test_coupled_warps_have_their_share_of_the_multiprocessor():
    code = [MachineInstruction("FADD", 1, 0)] * 8
    assert time(code, issue=3.0) == 24
    reads = [MachineInstruction("LDS", 1, 0, writes=0)] * 8 + [
        MachineInstruction("FADD", 2, 0, waits=1)
    ]
    alone = time(reads)
    assert alone == 8 + H100.shared  # the last one began at 7
    shared = {"shared memory": 10.0}
    assert walked(reads, [1.0] * 9, H100, lambda line: 0, shared).clocks == 71 + H100.shared


def test_special_functions_wait_for_their_pipe():
    code = [MachineInstruction("MUFU.RSQ", 1, 0)] * 4
    assert time(code) == 3 * 4 * inorder.WARP / H100.special_lanes + 1


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
