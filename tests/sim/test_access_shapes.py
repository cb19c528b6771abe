"""Accesses of every shape move the right data and are counted as a plain recount counts them."""

import numpy as np
import pytest

import gpuopt

WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "v2.u64"}
TEXT = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry load{name}(.param .u64 where, .param .u64 from, .param .u64 to,
    .param .u32 stores)
{{
    .reg .pred %p, %q;
    .reg .b32 %t;
    .reg .b64 %l<9>;
    .shared .align 16 .b8 tile[32768];
    ld.param.u64 %l0, [where];
    ld.param.u64 %l1, [from];
    ld.param.u64 %l2, [to];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %l3, %t, 8, %l0;
    mad.wide.u32 %l4, %t, 16, %l2;
    ld.global.s64 %l5, [%l3];
    setp.lt.s64 %p, %l5, 0;
    @%p bra END;
    add.s64 %l6, %l1, %l5;
    ld.global.{type} {value}, [%l6];
    st.global.{type} [%l4], {value};
    mov.u64 %l6, tile;
    add.s64 %l6, %l6, %l5;
    ld.param.u32 %t, [stores];
    setp.ne.u32 %q, %t, 0;
    @%q st.shared.{type} [%l6], {value};
END:
    ret;
}}
"""


@pytest.fixture(scope="module")
def module():
    kernels = [
        TEXT.format(name=size, type=type_, value="{%l7, %l8}" if size == 16 else "%l7")
        for size, type_ in WORDS.items()
    ]
    head = "\n.version 8.0\n.target sm_75\n.address_size 64\n"
    return gpuopt.load_ptx(head + "".join(k.replace(head, "") for k in kernels), device="sim")


def shapes(size, rng):
    """Yield 32 byte offsets each; -1 for a lane that does not take part."""
    lane = np.arange(32)
    for group in (32, 16, 8, 4, 2):
        for stride in (0, 1, -1, 2, 3, 4, 7, 8, 9, 33):
            for step in (0, 1, -1, group, -group, 17, 32, -40, 128):
                at = lane % group * stride + lane // group * (step if group < 32 else 0)
                yield (at - at.min()) * size
    for _ in range(40):
        yield rng.integers(0, rng.choice([8, 40, 300, 2000]), 32) * size
    almost = lane * size
    for i in (0, 1, 15, 16, 30, 31):
        bent = almost.copy()
        bent[i] += 5 * size
        yield bent


def recount(offsets, base, size):
    """Sectors of global memory, and passes of shared memory."""
    active = offsets[offsets >= 0]
    passes = 0
    together = 32 // max(1, size // 4)
    for first in range(0, 32, together):
        part = offsets[first : first + together]
        part = part[part >= 0]
        words = np.unique((part[:, None] // 4 + np.arange(max(1, size // 4))).ravel())
        passes += np.bincount(words % 32).max() if len(words) else 0
    return len(np.unique((base + active) // 32)), passes


@pytest.mark.parametrize("size", WORDS)
@pytest.mark.parametrize("active", [0xFFFFFFFF, 0x7FFFFFFF, 0x0000FFFE, 0x5A5A0FF0], ids=hex)
def test_counts_and_data(module, size, active):
    rng = np.random.default_rng(size)
    data = rng.integers(0, 256, 32768, np.uint8)
    kernel, source = module[f"load{size}"], module.copy(data)
    every = [s for s in shapes(size, rng) if s.max() + size <= 32768]
    if active != 0xFFFFFFFF:
        every = every[:: 7 if size == 4 else 13]
    taking_part = np.array([active >> i & 1 for i in range(32)], bool)
    assert len(every) > 25
    for shape in every:
        offsets = np.where(taking_part, shape, -1).astype(np.int64)
        offsets.flags.writeable = False
        to = np.zeros((32, 16), np.uint8)
        apart = len(np.unique(shape)) == 32  # else lanes would race for a place of the tile

        def launch(offsets=offsets, to=to, apart=apart):
            kernel(1, 32, offsets, source, to, int(apart))

        taken = np.array([data[o : o + size] if o >= 0 else np.zeros(size) for o in offsets])
        (counted,) = gpuopt.profile(launch).launches
        assert np.array_equal(to[:, :size], taken), shape
        c = counted.counters
        sectors, passes = recount(offsets, source.address, size)
        # the offsets themselves are 8 sectors; the results 16 bytes per lane
        stored = [int(i) * 16 for i in np.flatnonzero(taking_part)]
        out = len({(s + 0) // 32 for s in stored} | {(s + size - 1) // 32 for s in stored})
        assert c.global_load_sectors == 8 + sectors, (shape, size)
        assert c.global_store_sectors == out, (shape, size)
        assert c.shared_store_wavefronts == passes * apart, (shape, size)
        assert c.global_transactions == 8 + sectors + out, (shape, size)  # sectors, since Maxwell
        assert c.dram_read_bytes == 32 * (8 + sectors), (shape, size)
