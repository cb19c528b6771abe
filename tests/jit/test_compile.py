"""`gpuopt.compile`: from CUDA C++ to results, its errors, its limits and its cache."""

import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gpuopt
from gpuopt.jit import cache, compiler, find, making, request

SCALE = """
__global__ void scale(int n, float factor, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""
HEADERS = {
    "cooperative_groups": """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float *x) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float sum = x[block.thread_rank()];
    for (int d = 16; d; d /= 2) sum += warp.shfl_down(sum, d);
    __shared__ float part[4];
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = sum;
    block.sync();
    if (threadIdx.x == 0) x[0] = part[0] + part[1] + part[2] + part[3];
}""",
    "cub": """
#include <cub/block/block_reduce.cuh>
__global__ void k(float *x) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage storage;
    float sum = Reduce(storage).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) x[0] = sum;
}""",
    "cuda::barrier": """
#include <cuda/barrier>
#pragma nv_diag_suppress static_var_with_dynamic_init
__global__ void k(float *x) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ float part[128];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    part[threadIdx.x] = x[threadIdx.x];
    barrier.arrive_and_wait();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < 128; i++) sum += part[i];
        x[0] = sum;
    }
}""",
    "cuda::std": """
#include <cuda/std/array>
#include <cuda/atomic>
#include <stdint.h>
__global__ void k(float *x) {
    cuda::std::array<int32_t, 1> zero{0};
    float mine = x[threadIdx.x];
    cuda::atomic_ref<float, cuda::thread_scope_device> sum(x[zero[0]]);
    __syncthreads();
    if (threadIdx.x) sum.fetch_add(mine);
}""",
    "half": """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <math.h>
#include <limits.h>
__global__ void k(float *x) {
    if (threadIdx.x == 0) {
        __half sum = __float2half(0.0f);
        for (int i = 0; i < 32; i++) sum = __hadd(sum, __float2half(x[i]));
        x[0] = 7632 + __half2float(sum) + 0 * (INT_MAX + (float)M_PI);
    }
}""",
    "the host's C++": """
#include <array>
#include <functional>
#include <limits>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>
struct Sum { float value; __device__ Sum(float value) : value(value) {} };
template <class T> __global__ void k(T *x) {
    static_assert(std::is_same<T, float>::value && std::numeric_limits<T>::digits == 24);
    alignas(Sum) char raw[sizeof(Sum)];
    if (threadIdx.x) return;
    Sum *sum = new (raw) Sum(0);
    std::array<int, 2> ends = {128, 0};
    std::swap(ends[0], ends[1]);
    for (int i = ends[0]; i < ends[1]; i++) sum->value += x[i];
    x[0] = std::get<0>(std::make_tuple(sum->value, 1));
}
template __global__ void k<float>(float *);""",
}


def run_scale(module):
    x, y = np.random.default_rng(1).random(1000, np.float32), np.zeros(1000, np.float32)
    module["scale"](4, 256, 1000, 2.5, x, y)
    np.testing.assert_array_equal(y, np.float32(2.5) * x)


def test_text_becomes_a_kernel(nvrtc):
    module = gpuopt.compile(SCALE, device="sim")
    assert module.kernels == ["scale"]
    assert module.source.text == SCALE
    run_scale(module)


def test_lines_are_those_of_the_source(nvrtc):
    module = gpuopt.compile(SCALE.replace("if (i < n) ", ""), device="sim")
    x = np.zeros(1000, np.float32)
    found = gpuopt.check(module["scale"], 4, 256, 1000, 2.5, x, x)
    assert found[0].kind == "out of bounds"
    assert (found[0].file, found[0].line, found[0].kernel) == ("kernel.cu", 4, "scale")


def test_lines_of_headers_count_for_their_caller(bundling):
    module = gpuopt.compile(HEADERS["cooperative_groups"], device="sim")
    profile = gpuopt.profile(module["k"], 1, 128, np.ones(128, np.float32))
    files = {file for file, _ in profile.by_line()}
    assert files == {"kernel.cu"}


def test_files_are_compiled(nvrtc, tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(SCALE)
    for given in (path, str(path)):
        module = gpuopt.compile(given, device="sim:t4")
        assert module.source.name == "mine.cu"
        run_scale(module)
    with pytest.raises(FileNotFoundError):
        gpuopt.compile(tmp_path / "missing.cu", device="sim")


@pytest.mark.parametrize("what", HEADERS)
def test_headers_are_found(bundling, what):
    x = np.arange(128, dtype=np.float32)
    gpuopt.compile(HEADERS[what], device="sim")["k"](1, 128, x)
    assert x[0] == 127 * 128 / 2


def test_names_of_templates(nvrtc):
    source = """
namespace mine {
template <class T, int N> __global__ void fill(T *x) { x[threadIdx.x] = N; }
}
template __global__ void mine::fill<int, 7>(int *);
__global__ void other(float *x) { x[0] = 1; }
__global__ void other(int *x) { x[0] = 2; }
"""
    module = gpuopt.compile(source, names=["mine::fill<double, 4>"], device="sim")
    assert {"mine::fill<double, 4>", "mine::fill<int, 7>"} <= set(module.kernels)
    for name, dtype, wanted in (
        ("mine::fill<double, 4>", np.float64, 4),
        ("mine::fill<int, 7>", np.int32, 7),
        ("_Z5otherPf", np.float32, 1),
        ("_Z5otherPi", np.int32, 2),
    ):
        x = np.zeros(1, dtype)
        module[name](1, 1, x)
        assert x[0] == wanted, name


def test_include_allows_a_folder(nvrtc, tmp_path):
    (tmp_path / "mine.h").write_text("#define VALUE 3\n")
    source = '#include "mine.h"\n__global__ void k(int *x) { *x = VALUE; }'
    with pytest.raises(gpuopt.CompileError, match="pass include=FOLDER"):
        gpuopt.compile(source, device="sim")
    for value in (3, 4):
        (tmp_path / "mine.h").write_text(f"#define VALUE {value}\n")
        os.utime(tmp_path / "mine.h", (value, value))
        x = np.zeros(1, np.int32)
        gpuopt.compile(source, include=tmp_path, device="sim")["k"](1, 1, x)
        assert x[0] == value  # a changed header compiles anew


def test_options_and_arch(nvrtc):
    source = "__global__ void k(int *x) { *x = VALUE + __CUDA_ARCH__; }"
    x = np.zeros(1, np.int32)
    gpuopt.compile(source, options=["-DVALUE=5"], arch=80, device="sim")["k"](1, 1, x)
    assert x[0] == 805
    gpuopt.compile(source, options="-DVALUE=6", device="sim:t4")["k"](1, 1, x)
    assert x[0] == 756


def test_integers_have_up_to_128_bits(nvrtc):
    source = """__global__ void k(const long long *a, const long long *b, __int128 *o) {
        int i = threadIdx.x;
        o[i] = (__int128)a[i] * b[i];
        o[64 + i] = ((__int128)a[i] << 30) / b[i];
    }"""
    draw = np.random.default_rng(3)
    a, b = draw.integers(-(2**62), 2**62, 64), draw.integers(1, 2**40, 64)
    o = np.zeros((128, 2), np.uint64)
    gpuopt.compile(source, device="sim")["k"](1, 64, a, b, o)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    wanted = [x * y for x, y in pairs]
    wanted += [(abs(x) << 30) // y * (-1 if x < 0 else 1) for x, y in pairs]
    assert [int(low) | int(high) << 64 for low, high in o] == [each % 2**128 for each in wanted]


def test_volatile_variables_of_a_thread(nvrtc):
    source = """__global__ void k(const float *x, float *o) {
        volatile float kept = x[threadIdx.x];
        volatile int turns[4];
        for (int i = 0; i < 4; i++) turns[(i + threadIdx.x) & 3] = i;
        o[threadIdx.x] = kept + turns[threadIdx.x & 3] + turns[3];
    }"""
    x, o = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert gpuopt.check(gpuopt.compile(source, device="sim")["k"], 1, 64, x, o) == []
    assert (o == x + (3 - x) % 4).all()


def test_debug_information_does_not_slow_a_launch(bundling):
    """The debug sections have a hundred thousand lines, and no statement."""
    source = "#include <cooperative_groups.h>\n__global__ void k(int *x) { x[threadIdx.x] += 1; }"
    x = np.zeros(32, np.int32)
    gpuopt.compile(source, options="-G", device="sim")["k"](1, 32, x)
    assert (x == 1).all()


# --- errors


def test_error_has_the_line_and_a_caret(nvrtc):
    with pytest.raises(gpuopt.CompileError) as caught:
        gpuopt.compile("__global__ void k(float *x) {\n    x[0] = y;\n}\n", device="sim")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column) == (2, 12)
    head, shown, caret = str(error).split("\n")[:3]
    assert head == 'kernel.cu(2): error: identifier "y" is undefined'
    assert shown[caret.index("^")] == "y"


def test_host_code_has_a_hint(nvrtc):
    with pytest.raises(gpuopt.CompileError, match=r"leave main\(\) and other host code out"):
        gpuopt.compile("int main() { return 0; }", device="sim")


def test_dynamic_parallelism_is_refused_by_name(nvrtc):
    source = """__global__ void child(int *x) { x[threadIdx.x] = 1; }
    __global__ void parent(int *x) { child<<<1, 32>>>(x); }"""
    with pytest.raises(gpuopt.CompileError, match=r"dynamic parallelism.*launch each from Python"):
        gpuopt.compile(source, device="sim")
    module = gpuopt.compile(source, options="-rdc=true", device="sim")
    x = np.zeros(32, np.int32)
    module["child"](1, 32, x)
    assert (x == 1).all()
    with pytest.raises(gpuopt.PTXError, match=r"kernel 'child'.*dynamic parallelism"):
        module["parent"](1, 1, x)


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"arch": "hopper"}, ValueError, "arch: 'hopper' is none"),
        ({"options": 3}, TypeError, "options"),
        ({"options": [3]}, TypeError, "options: must be strings, not 3"),
        ({"include": "/nowhere/at/all"}, FileNotFoundError, "include: there is no folder"),
        ({"time_limit": 0}, ValueError, "time_limit: must be above 0"),
        ({"device": "cpu"}, ValueError, "device"),
        ({"options": "--bogus"}, gpuopt.CompileError, "--bogus"),
    ],
)
def test_bad_arguments_are_named(nvrtc, keywords, error, text):
    with pytest.raises(error, match=text):
        gpuopt.compile(SCALE, **({"device": "sim"} | keywords))


def test_source_must_be_text():
    with pytest.raises(TypeError, match="source: must be CUDA C"):
        gpuopt.compile(3, device="sim")


def test_missing_compiler_names_the_package(monkeypatch, empty_cache):
    monkeypatch.setattr(compiler, "find", lambda: (_ for _ in ()).throw(ImportError(find.MISSING)))
    with pytest.raises(ImportError, match=r"pip install 'nvidia-cuda-nvrtc>=13.3,<14'"):
        gpuopt.compile(SCALE, device="sim")


# --- limits

ENDLESS = """
template <int N, int M> struct T { T<N - 1, 2 * M> a; T<N - 1, 2 * M + 1> b; };
template <int M> struct T<0, M> { int x; };
__device__ T<30, 1> t;
"""
MACROS = "#define M0 x x x x x x x x x x\n" + "".join(
    f"#define M{i} {' '.join([f'M{i - 1}'] * 10)}\n" for i in range(1, 9)
)


@pytest.mark.parametrize("source", [ENDLESS, MACROS + "__global__ void k() { M8 }"])
def test_endless_source_is_ended(nvrtc, source):
    began = time.monotonic()
    with pytest.raises(gpuopt.CompileError, match=r"did not end within 2 s|GiB of memory"):
        gpuopt.compile(source, device="sim", time_limit=2)
    assert time.monotonic() - began < 20


def test_memory_is_bounded(nvrtc, monkeypatch):
    monkeypatch.setattr(making, "MEMORY", 500 << 20)
    with pytest.raises(
        gpuopt.CompileError, match=r"GiB of memory|catastrophic|out of memory|OUT_OF"
    ):
        gpuopt.compile(ENDLESS, device="sim", time_limit=60)


def test_compiler_cannot_open_other_files(nvrtc, monkeypatch):
    """The second line of defence: what the scan lets through."""
    from gpuopt.jit import scan

    if not os.path.exists("/sys/kernel/security/landlock") and not _has_landlock():
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(scan, "headers", lambda source, name: [])
    with pytest.raises(gpuopt.CompileError) as caught:
        gpuopt.compile('#include "/etc/passwd"\n', device="sim")
    assert "root" not in caught.value.log
    assert "/etc" not in caught.value.log
    source = '#if __has_include("/etc/passwd")\n#error seen\n#endif\n__global__ void k() {}\n'
    assert gpuopt.compile(source, device="sim").kernels == ["k"]


def _has_landlock():
    import ctypes

    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1


@pytest.mark.parametrize("name", HEADERS)
def test_unused_constants_of_the_headers_are_left_out(bundling, name):
    own = "__device__ int calls; namespace mine { __device__ float cuda = 2.5f; }\n"
    module = gpuopt.compile(own + HEADERS[name], device="sim")
    globals_ = [line for line in module.ptx.decode().split("\n") if line.startswith(".global")]
    assert len(globals_) <= 3, globals_[:5]
    assert module.variable("calls", "i4")[0] == 0 and module.variable("mine::cuda", "f4")[0] == 2.5


def test_a_toolkit_completes_the_headers_of_a_wheel(tmp_path, monkeypatch):
    """PyTorch's wheels have NVRTC and the runtime's headers, but no crt/, cub or cuda/std."""
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    toolkit = tmp_path / "toolkit"
    for folder in (library.parents[1] / "include", toolkit / "include" / "cccl"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(find, "_roots", lambda: iter([toolkit]))
    wanted = (library.parents[1] / "include", toolkit / "include", toolkit / "include" / "cccl")
    assert find._headers(library) == tuple(map(str, wanted))


def test_a_missing_header_of_cuda_names_the_package(nvrtc, empty_cache, monkeypatch):
    poor = nvrtc._replace(version=(13, 0), headers=())
    monkeypatch.setattr(compiler, "find", lambda: poor)
    with pytest.raises(gpuopt.CompileError, match=r"'cub/cub.cuh'.*pip install 'nvidia-cuda"):
        gpuopt.compile("#include <cub/cub.cuh>\n" + SCALE, device="sim")
    with pytest.raises(gpuopt.CompileError, match=r"'mine.h' in the compiler's folders; for one"):
        gpuopt.compile("#include <mine.h>\n" + SCALE, device="sim")


# --- the cache


def test_result_is_kept_on_disk(nvrtc, empty_cache, monkeypatch):
    gpuopt.compile(SCALE, device="sim")
    (kept,) = empty_cache.glob("*.json")
    run = making._run
    compiler._made.clear()
    monkeypatch.setattr(making, "_run", lambda *a: pytest.fail("compiled again"))
    run_scale(gpuopt.compile(SCALE, device="sim"))
    run_scale(gpuopt.compile(SCALE, device="sim"))  # of this process
    monkeypatch.setattr(making, "_run", run)
    compiler._made.clear()
    kept.write_bytes(kept.read_bytes()[:-10] + b"0123456789")  # broken: compiled again
    run_scale(gpuopt.compile(SCALE, device="sim"))
    assert gpuopt.clear_cache() > 0
    assert not empty_cache.exists()
    assert gpuopt.clear_cache() == 0


def test_cache_has_a_size_limit(nvrtc, empty_cache, monkeypatch):
    monkeypatch.setattr(cache, "BYTES_MOST", 1200)
    for number in range(6):
        gpuopt.compile(f"__global__ void k(int *x) {{ *x = {number}; }}", device="sim")
    assert 1 <= len(list(empty_cache.glob("*.json"))) < 6
    assert sum(each.stat().st_size for each in empty_cache.glob("*.json")) <= 1200


def test_compiling_works_without_a_cache(nvrtc, tmp_path, monkeypatch):
    compiler._made.clear()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUOPT_CACHE_DIR", str(tmp_path / "file"))
    run_scale(gpuopt.compile(SCALE, device="sim"))


def test_processes_and_threads_compile_at_once(bundling, empty_cache):
    source = "#include <cuda_fp16.h>\n" + SCALE
    program = f"import gpuopt; gpuopt.compile({source!r}, device='sim')['scale']"
    others = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    failed = []

    def mine():
        try:
            run_scale(gpuopt.compile(source, device="sim"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=mine) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each.wait(120) for each in others] == [0, 0]
    assert not failed
    assert len(list(empty_cache.glob("headers-*"))) == 1


# --- machine code and nvcc


def test_machine_code_for_a_gpu(nvrtc):
    text = request.Text("kernel.cu", SCALE)
    made = compiler.build(request.Request(text, (), "sm_90", True, ("scale",), ()), 60)
    assert made.image[:4] == b"\x7fELF"
    assert made.symbols["scale"] == "_Z5scaleifPKfPf"
    assert b"_Z5scaleifPKfPf" in made.ptx


def test_nvcc_compiles_where_there_is_no_nvrtc(empty_cache, monkeypatch):
    import shutil

    nvcc = shutil.which("nvcc")
    if not nvcc:
        pytest.skip("there is no nvcc in PATH")
    made = find.Compiler("nvcc", nvcc, (0, 0), "test", find._headers(find.Path(nvcc).resolve()))
    monkeypatch.setattr(compiler, "find", lambda: made)
    run_scale(gpuopt.compile(SCALE, device="sim"))
    source = "template <class T> __global__ void k(T *x) { *x = 3; }"
    module = gpuopt.compile(source, names="k<float>", device="sim")
    x = np.zeros(1, np.float32)
    module["k<float>"](1, 1, x)
    assert x[0] == 3
    with pytest.raises(gpuopt.CompileError) as caught:
        gpuopt.compile("__global__ void k(float *x) {\n    x[0] = y;\n}\n", device="sim")
    assert caught.value.line == 2
    assert "/tmp" not in str(caught.value)
