"""PTX that several test files launch, and the devices to launch it on."""

import pytest
from conftest import on

HEADER = ".version 7.0\n.target sm_75\n.address_size 64\n"
ADD = (
    HEADER
    + """.visible .entry add(
    .param .u64 .ptr .global .align 4 a, .param .u64 b, // two inputs
    .param .u64 sum, .param .u32 n)
.maxntid 256, 1, 1
{
    .reg .pred %p; .reg .b32 %i<4>; .reg .b64 %x<6>; .reg .f32 %f<2>;
    mov.u32 %i0, %ctaid.x;
    mov.u32 %i1, %ntid.x;
    mov.u32 %i2, %tid.x;
    mad.lo.s32 %i0, %i0, %i1, %i2;
    ld.param.u32 %i3, [n];
    setp.ge.u32 %p, %i0, %i3;
    @%p ret;
    ld.param.u64 %x0, [a];
    ld.param.u64 %x1, [b];
    ld.param.u64 %x2, [sum];
    mul.wide.u32 %x3, %i0, 4;
    add.s64 %x4, %x0, %x3;
    ld.global.f32 %f0, [%x4];
    add.s64 %x4, %x1, %x3;
    ld.global.f32 %f1, [%x4];
    add.f32 %f0, %f0, %f1;
    add.s64 %x4, %x2, %x3;
    st.global.f32 [%x4], %f0;
    ret;
}
"""
)
MUL = ADD[: ADD.index("mul.wide")].count("\n") + 1  # a line in it
EMPTY = HEADER + ".visible .entry nothing()\n{\n\tret;\n}\n"


def device(*kinds):
    return pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in kinds])


everywhere = device("sim", "cuda")
