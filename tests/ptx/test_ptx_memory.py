"""A simulated GPU has one memory: arrays, Buffers and kernels of all its modules share it."""

import numpy as np
import pytest
from conftest import run_python

import gpuopt

HEADER = ".version 8.0\n.target sm_75\n.address_size 64\n"
DOUBLE = f"""{HEADER}.visible .entry twice(.param .u64 x, .param .u32 n)
{{
    .reg .b64 %a<2>; .reg .b32 %i<3>; .reg .f32 %f; .reg .pred %p;
    ld.param.u64 %a0, [x]; ld.param.u32 %i2, [n];
    mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mad.lo.u32 %i0, %i0, %i1, 0;
    mov.u32 %i1, %tid.x; add.u32 %i0, %i0, %i1;
    setp.ge.u32 %p, %i0, %i2; @%p ret;
    mul.wide.u32 %a1, %i0, 4; add.u64 %a0, %a0, %a1;
    ld.global.f32 %f, [%a0]; add.f32 %f, %f, %f; st.global.f32 [%a0], %f; ret;
}}
"""


@pytest.mark.parametrize("device", ["sim", "sim:g80", "sim:t4"])
def test_kernels_use_arrays_that_are_there(device):
    x = np.arange(1000, dtype=np.float32)
    array = gpuopt.asarray(x, device=device)
    kernel = gpuopt.load_ptx(DOUBLE, device=device)["twice"]
    kernel(8, 128, array, 1000)
    assert np.array_equal(array.get(), 2 * x)
    kernel(8, 128, gpuopt.add(array, array), 1000)
    assert gpuopt.reduce(array) == 2 * x.sum()
    profiled = gpuopt.profile(kernel, 8, 128, array, 1000)
    assert profiled.counters.global_load_requests == 32
    assert gpuopt.check(kernel, 8, 128, array, 1000) == []


def test_a_check_names_the_array():
    array = gpuopt.asarray(np.ones(100, np.float32), device="sim")
    other = gpuopt.asarray(np.ones(100, np.float32), device="sim")
    kernel = gpuopt.load_ptx(DOUBLE, device="sim")["twice"]
    with pytest.raises(
        gpuopt.SimError, match=r"out of bounds.*element 100 of argument 1 .float32.100"
    ) as caught:
        kernel(1, 128, array, 101)
    assert caught.value.address == array.address + 400
    assert np.array_equal(other.get(), np.ones(100))
    unwritten = gpuopt.empty(100, np.float32, device="sim")
    with pytest.raises(gpuopt.SimError, match="uninitialised"):
        kernel(1, 32, unwritten, 100)
    address = other.address
    del other
    with pytest.raises(gpuopt.SimError, match="use after free"):
        kernel(1, 32, address, 100)


def test_modules_share_buffers_and_textures():
    first, second = (gpuopt.load_ptx(DOUBLE, device="sim") for _ in range(2))
    buffer = first.copy(np.arange(10, dtype=np.float32))
    second["twice"](1, 32, buffer, 10)
    assert buffer.get(np.float32).tolist() == [2.0 * i for i in range(10)]
    assert second["twice"].bind(1, 32, buffer, 10)
    elsewhere = gpuopt.load_ptx(DOUBLE, device="sim:t4")
    with pytest.raises(ValueError, match="Buffer of another module"):
        elsewhere["twice"](1, 32, buffer, 10)


def test_an_array_of_another_gpu_is_refused():
    array = gpuopt.asarray(np.ones(10, np.float32), device="sim:t4")
    kernel = gpuopt.load_ptx(DOUBLE, device="sim")["twice"]
    with pytest.raises((TypeError, ValueError), match="on sim:t4, but the module is on sim:h200"):
        kernel(1, 32, array, 10)


def test_an_array_keeps_its_memory_while_a_kernel_may_use_it():
    kernel = gpuopt.load_ptx(DOUBLE, device="sim")["twice"]
    for _ in range(5):
        kernel(1, 128, gpuopt.asarray(np.ones(100, np.float32), device="sim"), 100)


CLOSED = """
import gc, numpy as np, gpuopt
from gpuopt import _core
module = gpuopt.load_ptx('.version 8.0 .target sm_75 .address_size 64 .visible .entry k(){ret;}',
                         device="sim")
buffer = module.copy(np.arange(10))
array = gpuopt.asarray(np.arange(10), device="sim")
del module
gc.collect()
assert buffer.get(np.int64).tolist() == list(range(10))
del array, buffer
gc.collect()
print(_core.close_idle())
"""


def test_memory_outlives_its_module_and_does_not_leak():
    done = run_python(CLOSED)
    assert done.returncode == 0 and done.stdout == "(0, 0)\n", done.stderr


# --- the grid that a GPU can run


EMPTY = f"{HEADER}.visible .entry k() {{ ret; }}"


@pytest.mark.parametrize(
    ("device", "grid", "block", "runs"),
    [
        ("sim:g80", (65535, 1, 1), 1, True),
        ("sim:g80", (65536, 1, 1), 1, False),
        ("sim:g80", (100_000, 1, 1), 1, False),
        ("sim:g80", (1, 65536, 1), 1, False),
        ("sim:g80", (2, 3, 1), 1, True),
        ("sim:g80", (1, 1, 2), 1, False),
        ("sim:gt200", (65536, 1, 1), 1, False),
        ("sim:gt200", (1, 1, 2), 1, False),
        ("sim:g80", 1, 512, True),
        ("sim:g80", 1, 513, False),
        ("sim:g80", 1, (1, 1, 64), True),
        ("sim:m2090", (65536, 1, 1), 1, False),
        ("sim:m2090", (1, 1, 2), 1, True),
        ("sim:m2090", 1, 1024, True),
        ("sim:k40", (65536, 1, 1), 1, True),
        ("sim:k40", (1, 65536, 1), 1, False),
        ("sim", (65536, 1, 2), 1, True),
        ("sim", (1, 1, 65536), 1, False),
        ("sim", (2**31, 1, 1), 1, False),
        ("sim", 1, 1025, False),
        ("sim", 1, (1, 1, 65), False),
    ],
)
def test_a_gpu_runs_the_grids_of_its_compute_capability(device, grid, block, runs):
    kernel = gpuopt.load_ptx(EMPTY, device=device)["k"]
    if runs:
        kernel(grid, block)
    else:
        with pytest.raises(ValueError, match=r"allows|not from 1 to|more than"):
            kernel(grid, block)


@pytest.mark.parametrize("device", ["sim:g80", "sim:gt200", "sim:m2090"])
def test_own_kernels_run_in_large_grids_on_every_simulated_gpu(device):
    """Planners do not know the limit of 65,535 blocks, so it holds for kernels of `load_ptx`."""
    x = np.arange(65536 * 32 + 1, dtype=np.int32)
    y = gpuopt.add(x, x, variant="bounds", block=32, device=device)
    assert (y == 2 * x).all()


def test_default_stencil_of_many_blocks_runs_on_an_old_gpu():
    x = np.arange(2**25 + 1, dtype=np.float32) % 97
    expected = x.copy()
    expected[1:] += x[:-1]
    expected[:-1] += x[1:]
    assert (gpuopt.stencil1d(x, 1, device="sim:m2090") == expected).all()
