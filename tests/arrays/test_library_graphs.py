"""Calls that become parts of CUDA graphs of PyTorch and CuPy; lifetimes of borrowed memory."""

import numpy as np
import pytest
from conftest import run_python

import gpuopt

pytestmark = pytest.mark.timeout(300)


CAPTURED = {
    "sum": lambda a, b, v, out: gpuopt.reduce(a, out=out),
    "long sum": lambda a, b, v, out: gpuopt.reduce(v, out=out),
    "sum after a copy": lambda a, b, v, out: gpuopt.reduce(v.clone(), out=out),
    "argmin": lambda a, b, v, out: gpuopt.reduce(v, "argmin", out=out),
    "deck's sum": lambda a, b, v, out: gpuopt.reduce(v, variant=7, out=out),
    "rows": lambda a, b, v, out: gpuopt.reduce(a, axis=1, out=out),
    "few rows": lambda a, b, v, out: gpuopt.reduce(v.view(4, -1), "max", axis=1, out=out),
    "columns": lambda a, b, v, out: gpuopt.reduce(a, "mean", axis=0, out=out),
    "a view's": lambda a, b, v, out: gpuopt.reduce(a[::2, 5::7], axis=0, out=out),
    "halves": lambda a, b, v, out: gpuopt.reduce(a.half(), axis=(0, 1), out=out),
    "transpose": lambda a, b, v, out: gpuopt.transpose(a, out=out),
    "permutation": lambda a, b, v, out: gpuopt.transpose(v.view(64, -1, 64), (2, 0, 1), out=out),
    "stencil": lambda a, b, v, out: gpuopt.stencil1d(v, 5, mode="wrap", out=out),
    "product": lambda a, b, v, out: gpuopt.matmul(a, b, out=out),
    "deep product": lambda a, b, v, out: gpuopt.matmul(a, a.T, out=out),
    "vector product": lambda a, b, v, out: gpuopt.matmul(a, b[:, 3], out=out),
    "add": lambda a, b, v, out: gpuopt.add(a, a[7], out=out),
    "add 2": lambda a, b, v, out: gpuopt.add(a, 2.0, out=out),
    "saxpy": lambda a, b, v, out: gpuopt.saxpy(3.0, v, v, out=out),
}


def drawn(torch, seed):
    torch.manual_seed(seed)
    shapes = (300, 70_001), (70_001, 257), (1 << 24,)
    return [torch.rand(shape, device="cuda") - 0.3 for shape in shapes]


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_calls_become_parts_of_a_graph(torch, mode):
    """Two graphs that run at the same time, and calls between their runs: none uses another's."""
    wanted = {}
    for seed in range(4):
        given = drawn(torch, seed)
        wanted[seed] = {name: call(*given, None) for name, call in CAPTURED.items()}
    given = [drawn(torch, 0), drawn(torch, 1)]
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    graphs, outs, mades = [], [], []
    for k in range(2):
        outs.append({name: torch.empty_like(each) for name, each in wanted[0].items()})
        graphs.append(torch.cuda.CUDAGraph())
        torch.cuda.synchronize()
        with torch.cuda.graph(graphs[k], stream=streams[k], capture_error_mode=mode):
            for name, call in CAPTURED.items():
                call(*given[k], outs[k][name])
            mades.append({name: call(*given[k], None) for name, call in CAPTURED.items()})
    for round in range(6):
        seeds = [(round + k) % 4 for k in range(2)]
        for k in range(2):
            for old, new in zip(given[k], drawn(torch, seeds[k]), strict=True):
                old.copy_(new)
        for out in (*outs[0].values(), *outs[1].values()):
            out.zero_()
        torch.cuda.synchronize()
        for k in range(2):
            with torch.cuda.stream(streams[k]):
                graphs[k].replay()
        between = {name: call(*given[0], None) for name, call in CAPTURED.items()}
        torch.cuda.synchronize()
        for k in range(2):
            for name, want in wanted[seeds[k]].items():
                assert torch.equal(outs[k][name], want), (round, k, name)
                assert torch.equal(mades[k][name], want), (round, k, name)
        assert all(torch.equal(between[name], wanted[seeds[0]][name]) for name in between)


def test_uncapturable_calls_leave_the_graph_intact(torch):
    x, out = torch.ones(1 << 20, device="cuda"), torch.empty((), device="cuda")
    ours = gpuopt.asarray(np.ones(1 << 20, np.float32), "cuda")
    value = np.zeros((), np.float32)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for call in (
            lambda: gpuopt.reduce(x, out=value),
            lambda: gpuopt.reduce(x, variant=7, out=value),
            lambda: gpuopt.reduce(x, out=out, initial=3),
            lambda: gpuopt.stencil1d(x, weights=np.arange(9.0)),
            lambda: gpuopt.add(x, ours),
            lambda: gpuopt.asarray(x),
        ):
            with pytest.raises(gpuopt.DeviceError, match="is being captured into a graph"):
                call()
        gpuopt.reduce(x, out=out)
    x.fill_(3)
    graph.replay()
    assert out.item() == 3 << 20 and value == 0
    assert gpuopt.reduce(x, out=value) == 3 << 20


@pytest.mark.parametrize("non_blocking", [True, False])
def test_cupys_graphs(cupy, non_blocking):
    x, out = cupy.arange(1 << 20, dtype="f4"), cupy.empty((), "f4")
    gpuopt.reduce(x, out=out)
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        gpuopt.add(x, x, out=x)
        gpuopt.reduce(x, out=out)
        graph = stream.end_capture()
        for doubled in range(1, 6):
            graph.launch(stream)
            want = cupy.arange(1 << 20, dtype="f8").sum() * 2**doubled
            assert abs(float(out) / float(want) - 1) < 1e-7


def test_the_first_call_may_be_in_a_graph(torch):
    code = """
        import torch, gpuopt
        x, out = torch.ones(1 << 22, device="cuda"), torch.empty((), device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gpuopt.reduce(x, out=out)
        graph.replay()
        assert out.item() == 1 << 22
    """
    run_python(code)


def test_our_arrays_may_go_while_a_graph_is_captured(torch):
    ours = [gpuopt.asarray(np.ones(1000), "cuda") for _ in range(3)]
    x = torch.ones(1000, device="cuda")
    y = torch.zeros_like(x)
    for mode in ("relaxed", "thread_local", "global"):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            torch.add(x, 1, out=y)
            ours.pop()
            torch.add(y, 1, out=y)
        graph.replay()
        assert y[0].item() == 3


def test_memory_borrowed_by_asarray_is_kept_alive(torch):
    stream, n = torch.cuda.Stream(), 2**24
    with torch.cuda.stream(stream):
        x = torch.ones(n, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)  # on the default stream, where our arrays are
    with torch.cuda.stream(stream):
        ours = gpuopt.asarray(x)
        del x
        found = gpuopt.reduce(ours)
        del ours
        torch.full((n,), 5.0, device="cuda")  # perhaps in the same memory
    assert found.item() == n
    x = torch.ones(n, device="cuda")
    ours = gpuopt.asarray(x)
    x.data = torch.zeros(1, device="cuda")
    torch.full((n,), 5.0, device="cuda")
    assert gpuopt.reduce(ours).item() == n
