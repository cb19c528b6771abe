"""Where memory ends: the blocks of malloc, shared memory, arrays of earlier launches."""

import numpy as np
import pytest

import gpuopt

SOURCE = """
__device__ int *kept;
__device__ int **table;
__global__ void read_after(int *out) { int *p = (int *)malloc(64); *p = 1; free(p); out[0] = *p; }
__global__ void write_after(int *out) { int *p = (int *)malloc(64); out[0] = 1; free(p); p[3] = 1; }
__global__ void reused(int *out) {
    int *p = (int *)malloc(64);
    free(p);
    int *q = (int *)malloc(64);
    q[3] = 7;
    p[3] = 8;
    out[0] = q[3];
    free(q);
}
__global__ void deleted(int *) { int *p = new int[5]; p[4] = 1; delete[] p; atomicAdd(p + 4, 1); }
__global__ void past_the_end(int *out) { int *p = (int *)malloc(60); p[15] = 1; out[0] = 1; }
__global__ void before(int *out) { int *p = (int *)malloc(64); out[0] = p[-1]; }
__global__ void far(int *out) { int *p = (int *)malloc(64); p[100000] = 1; out[0] = 1; }
__global__ void freed_twice(int *out) { int *p = (int *)malloc(64); free(p); free(p); out[0] = 1; }
__global__ void freed_inside(int *out) { int *p = (int *)malloc(64); free(p + 4); out[0] = 1; }
__global__ void unwritten(int *out) { int *p = (int *)malloc(64); out[0] = p[3]; free(p); }
__global__ void make() { kept = (int *)malloc(64); kept[5] = 3; }
__global__ void drop() { free(kept); }
__global__ void look(int *out) { out[0] = kept[5]; }
__global__ void rows(int *out, int n) {
    int *mine = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) mine[i] = threadIdx.x * n + i;
    int sum = 0;
    for (int i = 0; i < n; i++) sum += mine[i];
    out[threadIdx.x] = sum;
    free(mine);
}
__global__ void churn(int *out) {
    for (int i = 0; i < 3000; i++) {
        char *p = (char *)malloc(1 + (i * 37) % 20000);
        if (!p) return;
        *p = i;
        free(p);
    }
    out[0] = 1;
}
"""
BUGS = {
    "read_after": ("use after free", 4),
    "write_after": ("use after free", 5),
    "reused": ("use after free", 11),
    "deleted": ("use after free", 15),
    "past_the_end": ("out of bounds", 16),
    "before": ("out of bounds", 17),
    "far": ("out of bounds", 18),
    "freed_twice": ("use after free", 19),
    "freed_inside": ("use after free", 20),
    "unwritten": ("uninitialised read", 21),
}


@pytest.fixture
def module(nvrtc):
    return gpuopt.compile(SOURCE, device="sim")


def ints(n=1):
    return np.zeros(n, np.int32)


@pytest.mark.parametrize("name", BUGS)
def test_one_mistake_is_one_finding_at_its_line(module, name):
    found = gpuopt.check(module[name], 1, 1, ints())
    assert [(each.kind, each.line) for each in found] == [BUGS[name]], found


def test_a_use_after_free_names_the_block_and_who_freed_it(module):
    def launches():
        module["make"](1, 1)
        module["look"](1, 1, ints())
        module["drop"](1, 1)
        module["look"](1, 1, ints())

    (found,) = gpuopt.check(launches)
    assert (found.kind, found.offset, found.extent) == ("use after free", 20, 64)
    assert "from malloc that kernel drop at kernel.cu:23 freed" in found.text
    (advice,) = gpuopt.explain(launches)
    assert advice.rule == "use-after-free" and "last use" in advice.remedy


@pytest.mark.parametrize("n", [1, 3, 4, 100, 500])
def test_rows_of_every_thread_are_clean(module, n):
    out = ints(64)
    assert gpuopt.check(module["rows"], 1, 64, out, n) == []
    assert (out == [sum(range(i * n, i * n + n)) for i in range(64)]).all()


def test_freed_blocks_are_used_again(module):
    out = ints()
    assert gpuopt.check(module["churn"], 1, 1, out) == []
    assert out[0] == 1


def test_a_pointer_to_an_earlier_launchs_array_is_told_as_one(nvrtc):
    module = gpuopt.compile(
        """__device__ int *kept;
        __global__ void keep(int *x) { kept = x; }
        __global__ void look(int *out) { out[0] = kept[2]; }""",
        device="sim",
    )

    def launches(x):
        module["keep"](1, 1, x)
        module["look"](1, 1, ints())

    (found,) = gpuopt.check(launches, ints(64))
    assert (found.kind, found.offset, found.extent) == ("out of bounds", 8, 256)
    assert "for an earlier launch only" in found.text
    (advice,) = gpuopt.explain(launches, ints(64))
    assert advice.rule == "use-after-free" and "asarray" in advice.remedy
    assert gpuopt.check(launches, gpuopt.asarray(ints(64), device="sim")) == []


@pytest.mark.parametrize("words", [1, 3, 10, 33])
@pytest.mark.parametrize("access", ["tile[i + 1] = i", "out[i] = tile[i + 1]"])
def test_shared_memory_ends_with_its_last_byte(nvrtc, words, access):
    source = f"""__global__ void k(int *out) {{
        __shared__ int tile[{words}];
        int i = threadIdx.x;
        tile[i] = i;
        __syncthreads();
        if (i == {words - 1}) {access};
        __syncthreads();
        out[i] += tile[i];
    }}"""
    kernel = gpuopt.compile(source, device="sim")["k"]
    (found,) = gpuopt.check(kernel, 1, words, np.zeros(words, np.int32))
    assert found.kind == "out of bounds"
    assert f"the block's shared memory has {4 * words} bytes" in found.text
