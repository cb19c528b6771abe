"""CUDA's printf on the simulated GPU, compared with C's printf."""

import ctypes
import math
import struct

import numpy as np
import pytest

import gpuopt

LIBC = ctypes.CDLL(None)
BLOCK_MOST, LAUNCH_MOST = 1 << 18, 1 << 20  # bytes that are kept
CUT = "\n[output truncated]\n"

KERNEL = """.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[{length}] = {{{text}}};
.visible .entry k(.param .u64 arguments, .param .u64 returned, .param .u32 times)
{{
    .reg .b64 %d<4>; .reg .b32 %r<2>; .reg .pred %p;
    ld.param.u64 %d0, [arguments];
    ld.param.u64 %d1, [returned];
    ld.param.u32 %r0, [times];
    mov.u64 %d2, {address};
again:
    {{
    .param .b64 p0; .param .b64 p1; .param .b32 q;
    st.param.b64 [p0], %d2;
    st.param.b64 [p1], %d0;
    call (q), vprintf, (p0, p1);
    ld.param.b32 %r1, [q];
    }}
    st.global.u32 [%d1], %r1;
    sub.u32 %r0, %r0, 1;
    setp.ne.u32 %p, %r0, 0;
    @%p bra again;
    ret;
}}
"""


# Threads print their block and thread index: "%d.%d ".
INDICES = """.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[7] = {37, 100, 46, 37, 100, 32, 0};
.visible .entry k()
{
    .local .align 8 .b8 depot[8];
    .reg .b64 %d<3>; .reg .b32 %r<3>;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %tid.x;
    mov.u64 %d0, depot;
    st.local.v2.u32 [%d0], {%r0, %r1};
    cvta.local.u64 %d0, %d0;
    mov.u64 %d1, text;
    {
    .param .b64 p0; .param .b64 p1; .param .b32 q;
    st.param.b64 [p0], %d1;
    st.param.b64 [p1], %d0;
    call (q), vprintf, (p0, p1);
    }
    ret;
}
"""


def module(template, address="text"):
    data = template.encode() + b"\0"
    text = ", ".join(map(str, data))
    return gpuopt.load_ptx(KERNEL.format(length=len(data), text=text, address=address), "sim")


def packed(values):
    """Return arguments as nvcc lays them out: each aligned to its size."""
    data = b""
    for value in values:
        part = struct.pack("<d", value) if isinstance(value, float) else value
        data += b"\0" * (-len(data) % len(part)) + part
    return np.frombuffer(data or b"\0" * 8, np.uint8)


def printed(template, *values, grid=1, block=1, times=1):
    returned = np.zeros(1, np.int32)
    with gpuopt.profile() as profiled:
        # every thread stores its count
        arguments = packed(values), returned, times
        module(template)["k"](grid, block, *arguments, allow_equal_stores=True)
    return profiled.launches[0].output, int(returned[0])


def i32(value):
    return struct.pack("<i", value)


def i64(value):
    return struct.pack("<q", value)


def by_c(template, *values):
    made = ctypes.create_string_buffer(4096)
    given = [
        ctypes.c_double(value)
        if isinstance(value, float)
        else (ctypes.c_int if len(value) == 4 else ctypes.c_longlong)(
            int.from_bytes(value, "little", signed=True)
        )
        for value in values
    ]
    LIBC.snprintf(made, ctypes.c_size_t(len(made)), template.encode(), *given)
    return made.value.decode()


CASES = [
    ("plain, 100%%\n",),
    ("%d %i %u", i32(-5), i32(2**31 - 1), i32(-1)),
    ("%5d|%-5d|%05d|%+d|% d|%.3d", *map(i32, (42, 42, 42, 42, 42, 7))),
    ("%x %X %#x %o %#o", *map(i32, (-1, 255, 255, 8, 8))),
    ("%lld %llu %ld %lx", *map(i64, (-(2**62), -1, 2**40, 2**40))),
    ("%hd %hhd %hu %hhx", *map(i32, (70000, 300, 70000, 511))),
    ("%d %lld %d", i32(1), i64(-2), i32(3)),
    ("%f %e %g %a %F %E %G %A", *([math.pi] * 8)),
    ("%10.3f|%-10.2e|%+g|%#.0f|%.17g", *([-math.e * 1e5] * 5)),
    ("%f %g %e", math.inf, -math.inf, math.nan),
    ("%.60f %f", 0.1, 1e300),
    ("%c%c%3c|%-3c|", *map(i32, (72, 105, 33, 33))),
    ("%*d|%-*d|%.*f|%*.*f", i32(6), i32(1), i32(6), i32(2), i32(2), 1.0, i32(-9), i32(3), 2.0),
    ("%p %p", i64(0), i64(0x7F1234)),
    ("%d %f %d", i32(1), 2.5, i32(3)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].strip())
def test_conversions_match_c(case):
    template, *values = case
    assert printed(*case) == (by_c(template, *values), len(values))


def test_printed_strings_follow_width_and_precision():
    loaded = module("%s|%8s|%-8s|%.2s|%s|")
    string = loaded.copy(np.frombuffer(b"hello\0", np.uint8))
    pointers = np.array([string.address] * 4 + [0], np.uint64)
    with gpuopt.profile() as profiled:
        loaded["k"](1, 1, pointers, np.zeros(1, np.int32), 1)
    assert profiled.launches[0].output == "hello|   hello|hello   |he|(null)|"


def test_unknown_conversions_are_printed_verbatim():
    assert printed("%y %n%k end %")[0] == "%y %n%k end %"


def test_hostile_widths_are_bounded():
    assert len(printed("%999999999999d", i32(1))[0]) == 512
    assert len(printed("%*d", i32(-(2**31)), i32(1))[0]) == 512
    assert len(printed("%.2000000000f", 1e308)[0]) == 309 + 1 + 512


def test_blocks_come_in_order():
    text = printed("%d\n", i32(7), grid=300, block=40)[0]
    assert text == "7\n" * 300 * 40
    with gpuopt.profile() as profiled:
        gpuopt.load_ptx(INDICES)["k"](200, 3)
    expected = "".join(f"{b}.{t} " for b in range(200) for t in range(3))
    assert profiled.launches[0].output == expected


def test_output_is_bounded_and_says_so():
    line = "0123456789abcdef" * 4
    text = printed(line, times=5000)[0]
    assert text == (line * 5000)[:BLOCK_MOST] + CUT
    text = printed(line, grid=64, times=1000)[0]
    assert text == (line * 64000)[:LAUNCH_MOST] + CUT
    assert printed(line, grid=4, times=4096)[0] == line * 4 * 4096  # just fits


def test_printf_writes_to_the_standard_output_of_python(capsys):
    assert printed("loud\n")[0] == "loud\n"
    assert capsys.readouterr() == ("loud\n", "")


def test_unreadable_arguments_are_reported():
    loaded = module("%d %s\n", address="4096")
    with pytest.raises(gpuopt.SimError, match="printf reads"):
        loaded["k"](1, 1, packed([i32(1)]), np.zeros(1, np.int32), 1)
    loaded = module("before %s\n")
    with pytest.raises(gpuopt.SimError, match="printf reads"), gpuopt.profile() as profiled:
        loaded["k"](1, 1, packed([i64(4096)]), np.zeros(1, np.int32), 1)
    assert profiled.launches[0].output == "before "


def test_a_kernel_that_does_not_print_has_no_output():
    assert all(
        launch.output == ""
        for launch in gpuopt.profile(gpuopt.reduce, np.arange(1000.0), variant=1).launches
    )


ASSERTION = """.version 7.0
.target sm_75
.address_size 64
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c,
    .param .b64 d, .param .b64 e);
.global .align 1 .b8 expression[{expression_bytes}] = {{{expression}}};
.global .align 1 .b8 file[{file_bytes}] = {{{file}}};
.visible .entry k(.param .u64 n)
{{
    .reg .b64 %d<3>;
    mov.u64 %d0, expression;
    cvta.global.u64 %d0, %d0;
    mov.u64 %d1, file;
    cvta.global.u64 %d1, %d1;
    {{
    .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
    st.param.b64 [p0], %d0;
    st.param.b64 [p1], %d1;
    st.param.b32 [p2], 42;
    st.param.b64 [p3], %d0;
    st.param.b64 [p4], 1;
    call __assertfail, (p0, p1, p2, p3, p4);
    }}
    ret;
}}
"""


def test_an_assertion_says_what_failed_and_where():
    def failure(expression, file):
        texts = [",".join(str(byte) for byte in [*text, 0]) for text in (expression, file)]
        text = ASSERTION.format(
            expression=texts[0],
            expression_bytes=len(expression) + 1,
            file=texts[1],
            file_bytes=len(file) + 1,
        )
        (found,) = gpuopt.check(gpuopt.load_ptx(text, device="sim")["k"], 1, 32, 0)
        return found.text

    assert 'device assertion failed: i < n && "%d", at source/kernel.cu:42, in' in failure(
        b'i < n && "%d"', b"source/kernel.cu"
    )
    assert "device assertion failed: x?y, at " + "b" * 71 + "/file.cu:42, in" in failure(
        b"x\ny", b"a" * 3000 + b"b" * 1000 + b"/file.cu"
    )
