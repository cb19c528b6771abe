"""C++ names, cooperative launches, printed text, variables, dtypes."""

import numpy as np
import pytest
from nvcc import load

import gpuopt


@pytest.fixture(scope="module")
def module():
    return load("names")


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("reduce0<float>", "_Z7reduce0IfEvPKT_PS0_"),
        ("reduce0<double>", "_Z7reduce0IdEvPKT_PS0_"),
        ("tile", "_Z4tileIiLj256EEvPT_"),
        ("tile<int, 256>", "_Z4tileIiLj256EEvPT_"),
        ("tile<int,256u>", "_Z4tileIiLj256EEvPT_"),
        ("linear::scale", "_ZN6linear5scaleEPff"),
        ("scale", "_ZN6linear5scaleEPff"),
        ("plain", "_Z5plainPii"),
        ("total", "total"),
    ],
)
def test_a_kernel_is_found_by_its_name_in_the_source(module, name, symbol):
    assert module[name].symbol == symbol and name in module


def test_an_ambiguous_name_lists_the_instances(module):
    with pytest.raises(KeyError, match=r"several kernels .*reduce0<float>.*reduce0<double>"):
        module["reduce0"]
    assert "reduce0" not in module
    with pytest.raises(KeyError, match=r"is not a kernel .*tile<int, 256u>"):
        module["nothing"]


def test_messages_show_names_as_the_source_has_them(module):
    x = np.zeros(32, np.int32)
    (finding,) = gpuopt.check(module["plain"], 1, 32, x, 5)
    assert "in kernel plain at names.cu" in finding.text and finding.kernel == "plain"
    assert "element 32 of argument 1 (int32[32])" in finding.text


OVERLOADS = """
namespace a { template <class T> __global__ void put(T *x) { x[threadIdx.x + 4] = 1; } }
template __global__ void a::put<float>(float *);
__global__ void put(int *x) { x[0] = 1; }
__global__ void put(float *x) { x[0] = 2; }
"""


def test_overloads_are_found_by_their_parameters():
    module = gpuopt.compile(OVERLOADS, device="sim")
    x, i = np.zeros(4, np.float32), np.zeros(4, np.int32)
    module["put(float *)"](1, 1, x)
    module["put(int*)"](1, 1, i)
    assert (x[0], i[0]) == (2, 1)
    with pytest.raises(KeyError, match=r"several kernels .*'put\(int\*\)', 'put\(float\*\)'"):
        module["put"]


def test_every_view_shows_the_name_of_the_source():
    kernel = gpuopt.compile(OVERLOADS, device="sim")["a::put<float>"]
    x = np.zeros(8, np.float32)
    (finding,) = gpuopt.check(kernel, 1, 8, x)
    assert "in kernel a::put<float> at kernel.cu" in finding.text
    profile = gpuopt.profile(kernel, 1, 4, x)
    assert list(profile.by_kernel()) == ["a::put<float>"] and profile.launches[0].symbol[:2] == "_Z"
    trace, advice = gpuopt.trace(kernel, 1, 4, x), gpuopt.explain(kernel, 1, 4, x)
    for view in (str(profile), str(trace), str(advice), repr(kernel)):
        assert "a::put<float>" in view and "_Z" not in view
    with pytest.raises(TypeError, match="kernel a::put<float> has 1 parameters"):
        kernel(1, 4)


def test_a_cooperative_launch_waits_for_its_grid(module):
    x, sums, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32), np.zeros(1, np.int32)
    module["total"](64, 32, x, sums, out, cooperative=True)
    assert out[0] == 2 * x.sum()
    assert gpuopt.check(module["total"], 64, 32, x, sums, out, cooperative=True) == []
    with pytest.raises(gpuopt.SimError, match="pass cooperative=True"):
        module["total"](64, 32, x, sums, out)
    many = np.zeros(100_000, np.int32)
    with pytest.raises(gpuopt.UnfitError, match="do not fit at once"):
        module["total"](many.size, 32, many, many.copy(), out, cooperative=True)


def test_printed_text_goes_to_the_streams_of_python(module, capsys):
    module["speaks"](1, 32, 5)
    assert capsys.readouterr().out == "thread 0 of 5\nthread 1 of 5\n"
    with pytest.raises(gpuopt.SimError, match="trap"):
        module["speaks"](1, 32, 2**32 - 1)
    assert capsys.readouterr().out == "thread 0 of -1\nthread 1 of -1\n"
    with gpuopt.profile() as profiled:
        module["speaks"](1, 1, 7)
    assert profiled.launches[0].output == capsys.readouterr().out == "thread 0 of 7\n"


def test_variables_are_arrays(module):
    weights = np.array([1, 2, 3, 2, 1], np.float32)
    module.variable("filter")[:] = weights
    assert module.variable("filter").dtype == np.float32
    assert np.array_equal(module.variable("filter"), weights)
    x, y = np.arange(16, dtype=np.float32), np.zeros(8, np.float32)
    calls, before = module.variable("calls"), module.variable("calls")[0]
    module["weighted"](1, 8, x, y)
    assert np.array_equal(y, [np.dot(weights, x[i : i + 5]) for i in range(8)])
    assert calls.dtype == np.uint64 and calls[0] == before + 1
    assert module.variable("counts", "i4")[:].tolist() == [7] * 4
    module.variable("counts", np.int32)[1:3] = 5
    assert module.variable("counts", "i4")[:].tolist() == [7, 5, 5, 7]
    unsigned = module.variable("counts", "u4")
    unsigned[0], unsigned[3] = 10, -1  # PTX does not say whether an integer has a sign
    assert module.variable("counts", "i4")[:].tolist() == [10, 5, 5, -1]
    with pytest.raises(TypeError, match="4294967296 does not fit into uint32"):
        unsigned[0] = 2**32
    with pytest.raises(ValueError, match="no variable nothing"):
        module.variable("nothing")
    with pytest.raises(TypeError, match="does not fit"):
        module.variable("counts", "i4")[0] = 1.5


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("doubled", "f4"), ("halves", "f8"), ("halves", "f2"), ("integers", "i8"), ("pairs", "i2")],
)
def test_an_array_of_another_element_size_is_refused(module, kernel, dtype):
    x = np.ones(64, dtype)
    more = [4] if kernel == "integers" else []
    with pytest.raises(TypeError, match=r"argument 1 is an array of .* accesses it as elements of"):
        module[kernel](1, 8, x, *more)
    module[kernel](1, 8, x, *more, any_dtype=True)


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("doubled", "f8"), ("halves", "f4"), ("halves", "i4"), ("halves", "u1"), ("integers", "u4"),
     ("pairs", "f4"), ("pairs", "c8")],
)  # fmt: skip
def test_an_array_that_some_access_fits_is_accepted(module, kernel, dtype):
    module[kernel](1, 4, np.ones(64, dtype), *([4] if kernel == "integers" else []))


EXTERN = """
.version 8.0
.target sm_75
.address_size 64
.extern .global .u32 elsewhere;
.global .attribute(.managed) .align 4 .u32 managed = 3;
.global .attribute(.unified(1, 2)) .u32 unified[2];
.visible .entry uses(.param .u64 out)
{
    .reg .b64 %o; .reg .b32 %r;
    ld.param.u64 %o, [out];
    ld.global.u32 %r, [elsewhere];
    st.global.u32 [%o], %r;
    ret;
}
.visible .entry none(.param .u64 out)
{
    .reg .b64 %o; .reg .b32 %r;
    ld.param.u64 %o, [out];
    ld.global.u32 %r, [managed];
    st.global.u32 [%o], %r;
    ret;
}"""


def test_an_external_variable_refuses_only_the_kernels_that_use_it():
    module, out = gpuopt.load_ptx(EXTERN, "sim"), np.zeros(1, np.int32)
    module["none"](1, 1, out)
    assert out[0] == 3 and module.variable("unified", "u4")[:].tolist() == [0, 0]
    with pytest.raises(gpuopt.PTXError, match="'elsewhere' is defined in no module"):
        module["uses"]
    with pytest.raises(ValueError, match="no variable elsewhere"):
        module.variable("elsewhere")


IN_SCOPES = """.version 8.0
.target sm_75
.address_size 64
.visible .entry doubled(.param .u64 p)
{
    .reg .b16 %h<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p];
    ld.global.u16 %h1, [%rd1];
    { .reg .b16 t; add.f16 t, %h1, %h1;
    mov.b16 %h2, t;
}
    st.global.u16 [%rd1], %h2;
    ret;
}
"""


def test_element_sizes_are_known_through_inline_assembly():
    kernel = gpuopt.load_ptx(IN_SCOPES, "sim")["doubled"]
    x = np.full(1, 1.5, np.float16)
    kernel(1, 1, x)
    assert x[0] == 3
    with pytest.raises(TypeError, match=r"argument 1 is an array of float32"):
        kernel(1, 1, x.astype(np.float32))


def test_a_register_of_several_pointers_tells_no_element_size():
    text = """.version 8.0
.target sm_75
.address_size 64
.global .b16 table[4] = {5, 6, 7, 8};
.visible .entry k(.param .u64 p)
{
    .reg .b16 %h; .reg .b32 %r; .reg .b64 %a, %b;
    ld.param.u64 %a, [p];
    mov.u64 %b, %a;
    mov.u64 %a, table;
    ld.global.u16 %h, [%a+2];
    cvt.u32.u16 %r, %h;
    st.global.u32 [%b], %r;
    ret;
}"""
    x = np.zeros(1, np.uint32)
    gpuopt.load_ptx(text, "sim")["k"](1, 1, x)
    assert x[0] == 6


THROUGH_CALLS = """
__device__ __noinline__ float get(const float *p, int i) { return p[i]; }
__device__ __noinline__ const double *after(const double *p) { return p + 1; }
__device__ __noinline__ float deep(const float *p, int i) { return get(p, i + 1) + 1; }
typedef float (*getter)(const float *, int);
extern "C" __global__ void direct(float *y, const float *x) {
    y[threadIdx.x] = get(x, threadIdx.x);
}
extern "C" __global__ void nested(float *y, const float *x) {
    y[threadIdx.x] = deep(x, threadIdx.x);
}
extern "C" __global__ void returned(float *y, const float *x) {
    y[threadIdx.x] = (float)*after((const double *)x) + x[0];
}
extern "C" __global__ void chosen(float *y, const float *x, int k) {
    getter f = k ? get : deep;
    y[threadIdx.x] = f(x, threadIdx.x);
}
"""


def test_a_dtype_is_compared_with_the_accesses_of_called_functions():
    module = gpuopt.compile(THROUGH_CALLS, device="sim")
    y, wide = np.zeros(8, np.float32), np.zeros(64)
    for name in ("direct", "nested"):
        with pytest.raises(TypeError, match=rf"kernel {name}: argument 2 .*float64.*4 bytes"):
            module[name](1, 8, y, wide)
        module[name](1, 8, y, wide.astype("f4"))
    module["returned"](1, 8, y, wide)  # its accesses cannot be followed
    module["chosen"](1, 8, y, wide, 1)
