"""Undefined values: found where something depends on them, and padding is none."""

import numpy as np
import pytest
from nvcc import bug_lines, load

import gpuopt

KIND, SHUFFLE = "uninitialised read", "shuffle from an absent lane"
RECORD = np.dtype([("tag", "i1"), ("count", "i4"), ("weight", "f8"), ("value", "f4")], align=True)
PIXEL = np.dtype([("id", "i2"), ("depth", "f4"), ("mask", "u1")], align=True)
POINT = np.dtype(
    {"names": ["x", "y", "z"], "formats": ["f4"] * 3, "offsets": [0, 4, 8], "itemsize": 16}
)


@pytest.fixture(scope="module")
def module():
    return load("undefined")


def floats(n):
    return np.ones(n, np.float32)


def ints(n):
    return np.zeros(n, np.int32)


CLEAN = {
    "records": (64, lambda: [np.zeros(64, RECORD), np.zeros(64, RECORD)]),
    "points": (64, lambda: [np.zeros(64, POINT)]),
    "points_by_words": (64, lambda: [np.zeros(64, POINT)]),
    "pixels": (64, lambda: [np.zeros(64, PIXEL)]),
    "overwritten": (64, lambda: [floats(64)]),
    "guarded": (32, lambda: [ints(1), 20]),
    "scan": (64, lambda: [ints(64)]),
    "half_warp": (32, lambda: [ints(32)]),
    "block_sum": (128, lambda: [floats(1), floats(128), 100]),
}


@pytest.mark.parametrize("name", CLEAN)
def test_padding_and_unused_values_are_no_findings(module, name):
    block, arguments = CLEAN[name]
    assert gpuopt.check(module[name], 1, block, *arguments()) == []
    module[name](1, block, *arguments())


def test_padding_may_go_to_memory_of_unknown_type(module):
    for name in ("points", "points_by_words"):
        assert gpuopt.check(module[name], 1, 64, module.empty(1024)) == []
    assert gpuopt.check(module["pixels"], 1, 64, module.empty(64 * PIXEL.itemsize)) == []


BUGS = {
    "points": (64, lambda: [np.zeros((64, 4), np.float32)], KIND),
    "no_y": (64, lambda: [np.zeros(64, POINT)], KIND),
    "edge": (64, lambda: [floats(64), floats(64), 50], KIND),
    "edge_sum": (64, lambda: [floats(64), floats(64), 50], KIND),
    "partial": (32, lambda: [ints(1), 20], SHUFFLE),
    "exited": (32, lambda: [ints(32), 20], SHUFFLE),
    "broadcast_of_an_exited_lane": (32, lambda: [ints(32), 20], SHUFFLE),
}


@pytest.mark.parametrize("name", BUGS)
def test_an_undefined_value_is_found_once_at_its_line(module, name):
    block, arguments, kind = BUGS[name]
    findings = gpuopt.check(module[name], 1, block, *arguments())
    assert [(each.kind, each.line) for each in findings] == [(kind, bug_lines("undefined")[name])]
    with pytest.raises(gpuopt.SimError, match=kind):
        module[name](1, block, *arguments())


def test_undefined_bytes_stay_undefined_in_global_memory(module):
    never, between = module.empty(256), module.empty(256)
    gpuopt.check(module["copy"], 1, 64, between, never)
    (finding,) = gpuopt.check(module["copy"], 1, 64, floats(64), between)
    assert finding.kind == KIND and "argument 2" in finding.text and "argument 1" in finding.text


def test_a_partial_copy_names_the_elements(module):
    (finding,) = gpuopt.check(module["edge"], 1, 64, floats(64), floats(64), 50)
    assert "element 50 of argument 1 (float32[64])" in finding.text and finding.times == 14


def test_the_value_that_a_guarded_shuffle_gives(module):
    out = ints(1)
    module["guarded"](1, 32, out, 20)
    assert out[0] == sum(range(1, 21))


UNASSIGNED = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .b64 %o; .reg .b32 %never, %r, %n; .reg .pred %p;
    ld.param.u64 %o, [out];
    ld.param.u32 %n, [n];
    BODY
    ret;
}"""


@pytest.mark.parametrize(
    "body",
    [
        "setp.eq.u32 %p, %never, 0; @%p st.global.u32 [%o], 1;",
        "add.u32 %r, %never, 1; st.global.u32 [%o], %r;",
        "st.global.u32 [%o], %never;",
    ],
)
def test_a_register_that_is_never_assigned_is_found(body):
    kernel = gpuopt.load_ptx(UNASSIGNED.replace("BODY", body), "sim")["k"]
    (finding,) = gpuopt.check(kernel, 1, 32, ints(1), 3)
    assert finding.kind == KIND and "never assigned" in finding.text
    with pytest.raises(gpuopt.SimError, match="never assigned"):
        kernel(1, 1, ints(1), 3)


def test_a_register_that_is_never_assigned_and_never_matters_is_no_finding():
    body = "setp.gt.u32 %p, %n, 5; selp.u32 %r, %never, 7, %p; st.global.u32 [%o], %r;"
    kernel = gpuopt.load_ptx(UNASSIGNED.replace("BODY", body), "sim")["k"]
    assert gpuopt.check(kernel, 1, 1, ints(1), 3) == []
    assert gpuopt.check(kernel, 1, 1, ints(1), 6)


ON_SOME_PATHS = {
    "a branch": "setp.gt.u32 %p, %n, 5; @%p bra L; mov.u32 %r, 7; L: USE",
    "a guard": "setp.le.u32 %p, %n, 5; @%p mov.u32 %r, 7; USE",
    "a loop": "M: setp.le.u32 %p, %n, 5; @%p mov.u32 %r, 7; USE\n@%p bra N; bra.uni N; N:",
}


@pytest.mark.parametrize("path", ON_SOME_PATHS)
@pytest.mark.parametrize(
    "use",
    [
        "st.global.u32 [%o], %r;",
        "add.u32 %r, %r, 1; st.global.u32 [%o], %r;",
        "setp.eq.u32 %p, %r, 7; @%p st.global.u32 [%o], 1;",
        "cvt.u64.u32 %o, %r; ld.global.u32 %r, [%o];",
    ],
)
def test_a_register_that_some_paths_leave_unassigned_is_found_on_those(path, use):
    body = ON_SOME_PATHS[path].replace("USE", use)
    kernel = gpuopt.load_ptx(UNASSIGNED.replace("BODY", body), "sim")["k"]
    found = gpuopt.check(kernel, 1, 32, ints(1), 3)
    assert not [each for each in found if each.kind == KIND]
    found = gpuopt.check(kernel, 1, 32, ints(1), 6)
    assert KIND in {each.kind for each in found}
    assert "never assigned" in next(e.text for e in found if e.kind == KIND)


def test_a_value_computed_from_an_unassigned_register_and_dropped_is_no_finding():
    body = (
        "setp.gt.u32 %p, %n, 5; @%p bra L; mov.u32 %r, 7; L: add.u32 %r, %r, 1;"
        "selp.u32 %r, 3, %r, %p; st.global.u32 [%o], %r;"
    )
    kernel = gpuopt.load_ptx(UNASSIGNED.replace("BODY", body), "sim")["k"]
    for n in (3, 6):
        assert gpuopt.check(kernel, 1, 1, ints(1), n) == []


PARTS = """.version 8.4
.target sm_80
.address_size 64
.visible .entry parts(.param .u64 p)
{{
    .shared .align 8 .b8 words[256];
    .reg .b64 at, x; .reg .b32 t, s, v, u; .reg .b16 h, g; .reg .pred q; .reg .f32 f;
    ld.param.u64 at, [p];
    mov.u32 t, %tid.x;
    mul.wide.u32 x, t, 4;
    add.u64 at, at, x;
    mov.u32 s, words;
    mad.lo.u32 s, t, 4, s;
    st.shared.u16 [s{half}], t;
    bar.sync 0;
    {body}
    ret;
}}
"""
WHOLE = "ld.shared.u32 v, [s];"
USES = {  # of a word whose upper half nobody wrote
    "branch": f"{WHOLE} setp.gt.u32 q, v, 5; @q st.global.u32 [at], t;",
    "arithmetic": f"{WHOLE} add.u32 v, v, 1; st.global.u32 [at], v;",
    "address": f"{WHOLE} mul.wide.u32 x, v, 4; add.u64 at, at, x; st.global.u32 [at], t;",
    "field": f"{WHOLE} st.global.u32 [at], v;",
    "moved": f"{WHOLE} mov.b32 u, v; st.global.u32 [at], u;",
    "shuffled": f"{WHOLE} shfl.sync.bfly.b32 v, v, 1, 31, -1; st.global.u32 [at], v;",
    "taken apart": f"{WHOLE} mov.b32 {{h, g}}, v; setp.eq.u16 q, g, 0; @q st.global.u32 [at], t;",
    "narrowed": f"{WHOLE} cvt.u16.u32 h, v; mov.b32 v, {{h, h}}; st.global.u32 [at], v;",
    "joined": f"{WHOLE} mov.b32 {{h, g}}, v; mov.b32 v, {{g, h}}; st.global.u32 [at], v;",
    "as float": f"{WHOLE} mov.b32 f, v; add.f32 f, f, f; st.global.f32 [at], f;",
}


@pytest.mark.parametrize("use", USES)
def test_a_word_with_unwritten_bytes_is_found_where_they_matter(use):
    for half in ("", " + 2"):
        text = PARTS.format(half=half, body=USES[use])
        kernel, out = gpuopt.load_ptx(text, "sim")["parts"], np.zeros(64, np.uint32)
        if use in ("narrowed", "taken apart") and half == ("" if use == "narrowed" else " + 2"):
            kernel(1, 32, out)  # reads only the half that was written
            continue
        with pytest.raises(gpuopt.SimError, match="uninitialised read"):
            kernel(1, 32, out)


@pytest.mark.parametrize(
    "body",
    [
        f"{WHOLE} and.b32 v, v, 65535; st.global.u32 [at], v;",
        f"{WHOLE} shl.b32 v, v, 16; st.global.u32 [at], v;",
        f"{WHOLE} mov.b32 {{h, g}}, v; st.global.u16 [at], h;",
        f"{WHOLE} st.shared.u32 [s], v; ld.shared.u16 h, [s]; st.global.u16 [at], h;",
        f"{WHOLE} cvt.u16.u32 h, v; add.u16 h, h, 1; st.global.u16 [at], h;",
        f"{WHOLE} st.global.u32 [at], v; st.global.u16 [at + 2], t;",
    ],
)
def test_unwritten_bytes_that_do_not_matter_are_no_finding(body):
    gpuopt.load_ptx(PARTS.format(half="", body=body), "sim")["parts"](1, 32, np.zeros(128, "u1"))


WORD = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b64 %o; .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .pred %p;
    .shared .align 8 .b8 s[8];
    ld.param.u64 %o, [out];
    mov.b16 %h0, 1;
    st.shared.u8 [s + 4], %h0;
    ld.shared.u32 %r0, [s + 4]; // its first byte is defined
    ld.shared.u8 %h1, [s + 5];
    BODY
    st.global.u32 [%o], %r1;
    ret;
}"""
REACHED = [
    "shr.u32 %r1, %r0, 8;",
    "shr.u32 %r1, %r0, 3;",
    "shl.b32 %r1, %r0, 16;",
    "xor.b32 %r1, %r0, 5;",
    "not.b32 %r1, %r0;",
    "and.b32 %r1, %r0, 0xff00;",
    "and.b32 %r1, %r0, 0x300;",
    "or.b32 %r1, %r0, 0x000000f0;",
    "prmt.b32 %r1, %r0, %r0, 0x0001;",
    "bfe.u32 %r1, %r0, 8, 4;",
    "bfi.b32 %r1, %r0, 0, 8, 16;",
    "lop3.b32 %r1, %r0, 3, 5, 0x96;",
    "shf.l.wrap.b32 %r1, %r0, %r0, 8;",
    "cvt.u32.u16 %r1, %h1; shl.b32 %r1, %r1, 8;",
    "setp.eq.u32 %p, 1, 1; selp.b32 %r1, %r0, 0, %p;",
    "mul.lo.u32 %r1, %r0, 16777619;",
    "popc.b32 %r1, %r0;",
]
MASKED = [
    "and.b32 %r1, %r0, 0xff;",
    "shl.b32 %r1, %r0, 24;",
    "xor.b32 %r1, %r0, %r0;",
    "or.b32 %r1, %r0, 0xffffff00;",
    "prmt.b32 %r1, %r0, %r0, 0;",
    "bfe.u32 %r1, %r0, 0, 8;",
    "bfi.b32 %r1, 77, %r0, 8, 24;",
    "lop3.b32 %r1, %r0, 255, 5, 0x80;",
    "cvt.u32.u8 %r1, %r0;",
    "cvt.u32.u16 %r1, %h1; shr.u32 %r1, %r1, 8;",
    "shr.u32 %r1, %r0, 8; mul.lo.u32 %r1, %r1, 5; mov.u32 %r1, 2;",
]


@pytest.mark.parametrize("body", REACHED)
def test_undefined_bytes_are_followed_through_operations_on_bits(body):
    kernel = gpuopt.load_ptx(WORD.replace("BODY", body), "sim")["k"]
    (finding,) = gpuopt.check(kernel, 1, 1, np.zeros(1, np.uint32))
    assert finding.kind == KIND


@pytest.mark.parametrize("body", MASKED)
def test_undefined_bytes_that_an_operation_drops_are_no_findings(body):
    kernel = gpuopt.load_ptx(WORD.replace("BODY", body), "sim")["k"]
    assert gpuopt.check(kernel, 1, 1, np.zeros(1, np.uint32)) == []


def test_a_hash_of_a_struct_by_words_reads_its_padding():
    module = gpuopt.compile(
        """
        struct Item { double weight; char tag; };
        extern "C" __global__ void hash(unsigned *out, int words) {
            __shared__ Item items[32];
            items[threadIdx.x].weight = threadIdx.x;
            items[threadIdx.x].tag = 7;
            const unsigned *word = (const unsigned *)&items[threadIdx.x];
            unsigned h = 2166136261u;
            for (int i = 0; i < words; i++)
                h = (h ^ word[i]) * 16777619u;
            out[threadIdx.x] = h;
        }""",
        device="sim",
    )
    out = np.zeros(32, np.uint32)
    assert gpuopt.check(module["hash"], 1, 32, out, 2) == []
    (finding,) = gpuopt.check(module["hash"], 1, 32, out, 4)
    assert finding.kind == KIND
