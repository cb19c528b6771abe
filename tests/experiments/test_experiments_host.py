"""Textures against NumPy's model of them, pinned memory, streams; the experiments made of those."""

import doctest
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from conftest import on
from ptx_directives import without_names

import gpuopt
from gpuopt.experiments import EXPERIMENTS
from gpuopt.experiments.texture import sample

TEXTURES = [on(kind, kind, id=kind) for kind in ("sim", "cuda")]
only_cuda = [on("cuda", "cuda", id="cuda")]
TIMES = ["host_link", "overlap", "launch_overhead"]
KERNELS = without_names((Path(__file__).parents[1] / "ptx" / "texture.ptx").read_text())
rng = np.random.default_rng(4)


def read_plane(module, source, x, y, step, n):
    """Return n points of a row of coordinates through a texture."""
    out = np.full(n, np.nan, np.float32)
    module["plane"](1, n, source, out, np.float32(y), np.float32(x), np.float32(step))
    return out


@pytest.mark.parametrize("device", TEXTURES)
def test_linear_memory(device):
    module = gpuopt.load_ptx(KERNELS, device)
    out = np.full(64, np.nan, np.float32)
    line = rng.random(48, np.float32)
    module["fetch"](1, 64, module.texture(line), out)
    assert (out == np.append(line, np.zeros(16, np.float32))).all()  # nothing lies beyond: 0
    pairs = rng.random((32, 2), np.float32)
    module["fetch2"](1, 32, module.texture(pairs, channels=2), out)
    assert (out[:32] == pairs.sum(axis=1)).all()
    fours = rng.random((32, 4), np.float32)
    module["fetch2"](1, 32, module.texture(fours, channels=4), out)
    assert (out[:32] == fours[:, 0] + fours[:, 1]).all()
    shades = rng.integers(0, 256, 64, np.uint8)
    module["fetch"](1, 64, module.texture(shades), out)
    assert np.abs(out - shades / 255).max() <= 2.0**-23
    swapped = line.astype(">f4")
    module["fetch"](1, 32, module.texture(swapped[:32]), out)
    assert (out[:32] == line[:32]).all()


@pytest.mark.parametrize("device", TEXTURES)
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("linear", [False, True])
def test_textures_of_planes_filter_and_wrap(device, linear, wrap):
    module = gpuopt.load_ptx(KERNELS, device)
    plane = rng.random((16, 32), np.float32)
    made = module.texture(plane, linear_filter=linear, wrap=wrap, normalised=wrap)
    step, n = 1 + 1 / 16, 64
    for x in (-9.5 + 6.2 / 256, 0.3, 31.9):
        # 11.25 + 0.2 / 256 and the like: as far from a tie between weights as can be
        for y in (-4.2, 0.5, 7.5 + 0.25 + 0.2 / 256, 18.0 + 0.3 / 256):
            scale = (1 / 32, 1 / 16) if wrap else (1, 1)
            got = read_plane(module, made, x * scale[0], y * scale[1], step * scale[0], n)
            at = np.float32(x * scale[0]) + np.arange(n) * np.float64(step * scale[0])
            columns, rows = np.float32(at) / scale[0], np.float32([y * scale[1]]) / scale[1]
            want = sample(plane, columns, rows, linear=linear, wrap=wrap)[0]
            bound = (2.0**-20 if device == "sim" else 2.0**-12) if linear else 0
            assert (np.abs(got - want) <= bound).all(), (x, y, np.abs(got - want).max())
            if linear and x < 0 <= y < 16 and not wrap:
                exact = sample(plane, columns, rows, linear=True, wrap=wrap, bits=52)[0]
                assert np.abs(got - exact).max() > 2.0**-12, "weights have 8 bits of fraction"


def sample_volume(volume, x, y, z, *, linear, wrap):
    """Return what `sample` gives for a volume of shape (depth, height, width), at one depth z."""
    low = int(np.floor(z - 0.5 if linear else z))
    back = np.floor((z - 0.5 - low) * 256 + 0.5) / 256 if linear else 0.0
    total = 0.0
    for place, whole in ((low, 1 - back), (low + 1, back)):
        inside = place % len(volume) if wrap else min(max(place, 0), len(volume) - 1)
        if whole:
            total += sample(volume[inside], x, y, linear=linear, wrap=wrap, whole=whole)
    return total


@pytest.mark.parametrize("device", TEXTURES)
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("linear", [False, True])
def test_lines_and_volumes(device, linear, wrap):
    """Arrays of one and of three dimensions, which the model of planes is made into."""
    module = gpuopt.load_ptx(KERNELS, device)
    how = {"linear_filter": linear, "wrap": wrap, "normalised": wrap}
    n, step = 64, 1 + 1 / 16
    bound = (2.0**-20 if device == "sim" else 2.0**-12) if linear else 0
    line = rng.random(32, np.float32)
    volume = rng.random((8, 16, 32), np.float32)
    made = module.texture(line, linear_memory=False, **how), module.texture(volume, **how)
    assert "<Texture of 32 texels" in repr(made[0]) and "32 x 16 x 8 texels" in repr(made[1])
    scale = (1 / 8, 1 / 16, 1 / 32) if wrap else (1, 1, 1)
    for z, y, x in ((0.5, 0.5, -9.5 + 6.2 / 256), (-3.2, 7.75 + 0.2 / 256, 0.3), (7.3, 18.0, 31.9)):
        out = np.full(n, np.nan, np.float32)
        at = np.float32([z * scale[0], y * scale[1], x * scale[2], step * scale[2]])
        module["line"](1, n, made[0], out, at[2], at[3])
        columns = np.float32(at[2] + np.arange(n) * np.float64(at[3])) / np.float32(scale[2])
        row = np.float32([0.5])
        want = sample(line[None], columns, row, linear=linear, wrap=wrap)[0]
        assert (np.abs(out - want) <= bound).all(), (x, np.abs(out - want).max())
        module["volume"](1, n, made[1], out, *at)
        deep = float(at[0] / np.float32(scale[0]))
        rows = at[1:2] / np.float32(scale[1])
        want = sample_volume(volume, columns, rows, deep, linear=linear, wrap=wrap)[0]
        # between two planes an H100's weights differ from these by one 256th here and there
        loose = bound if device == "sim" else 2.0**-7 * linear
        assert (np.abs(out - want) <= loose).all(), (z, y, x, np.abs(out - want).max())


def test_fetch_of_another_kind_is_reported():
    module = gpuopt.load_ptx(KERNELS, "sim")
    out = np.zeros(4, np.float32)
    cube = module.texture(np.ones((4, 4, 4), np.float32))
    line = module.texture(np.ones(4, np.float32))
    array = module.texture(np.ones(4, np.float32), linear_memory=False)
    for call, text in (
        (lambda: module["line"](1, 4, cube, out, 0, 1), "of a 3-D array, which tex3D reads"),
        (lambda: module["line"](1, 4, line, out, 0, 1), "tex1Dfetch reads by integer index"),
        (lambda: module["plane"](1, 4, array, out, 0, 0, 1), "of a 1-D array, which tex1D reads"),
    ):
        with pytest.raises(gpuopt.SimError, match=text):
            call()


@pytest.mark.parametrize("device", TEXTURES)
def test_a_texture_is_a_copy(device):
    module = gpuopt.load_ptx(KERNELS, device)
    plane = rng.random((4, 32), np.float32)
    copy, made = plane.copy(), module.texture(plane)
    plane[...] = -1
    for _ in range(3):  # memory that was given back is used again
        module.copy(np.full(plane.shape, 7, np.float32))
    assert (read_plane(module, made, 0.5, 2.5, 1, 32) == copy[2]).all()
    assert "32 x 4 texels" in repr(made) and module.device in repr(made)
    other = gpuopt.load_ptx(KERNELS, device)
    if device == "sim":  # the modules of a simulated GPU share its memory
        assert (read_plane(other, made, 0.5, 2.5, 1, 32) == copy[2]).all()
    else:
        with pytest.raises(ValueError, match="argument 1 is a Texture of another module"):
            other["fetch"](1, 32, made, np.zeros(32, np.float32))
    with pytest.raises(TypeError, match="argument 1"):
        gpuopt.load_ptx(KERNELS, device)["plane"](1, 32, 0.5, made, made, 1, 1)


def test_freed_texture_is_reported():
    module = gpuopt.load_ptx(KERNELS, "sim")
    made = module.texture(np.ones((4, 4), np.float32))
    handle = made.handle
    del made
    with pytest.raises(gpuopt.SimError, match="is no texture"):
        read_plane(module, handle, 0, 0, 1, 4)


@pytest.mark.parametrize(
    ("array", "options", "error", "texts"),
    [
        (np.zeros(4), {}, TypeError, ["array", "float32", "float64"]),
        (np.zeros(0, "f4"), {}, ValueError, ["array", "(0,)"]),
        (np.zeros((2, 2, 2, 1), "f4"), {}, ValueError, ["array", "(2, 2, 2, 1)", "(width,)"]),
        (np.zeros((2, 3), "f4"), {"channels": 2}, ValueError, ["array", "channels last"]),
        (np.zeros((2, 3), "f4"), {"channels": 3}, ValueError, ["channels: 3", "1, 2 or 4"]),
        (
            np.zeros(4, "f4"),
            {"linear_memory": True, "linear_filter": True},
            ValueError,
            ["linear_memory", "filter"],
        ),
        (np.zeros((4, 4), "f4"), {"linear_memory": True}, ValueError, ["linear_memory", "one dim"]),
        (np.zeros((4, 4), "f4"), {"wrap": True}, ValueError, ["wrap", "normalised=True"]),
        (np.zeros((4, 4), "i4"), {"linear_filter": True}, ValueError, ["linear_filter", "uint8"]),
        (np.zeros((4, 4), "u4"), {"linear_filter": True}, ValueError, ["linear_filter", "uint8"]),
    ],
)
def test_invalid_textures_raise(array, options, error, texts):
    module = gpuopt.load_ptx(KERNELS, "sim")
    with pytest.raises(error) as caught:
        module.texture(array, **options)
    assert all(text in str(caught.value) for text in texts), caught.value


def test_unsupported_calls_of_a_simulated_gpu_raise():
    module = gpuopt.load_ptx(KERNELS, "sim")
    buffer = module.empty(8)
    bound = module["fetch"].bind(1, 1, buffer, buffer)
    for call, lack in (
        (lambda: module.use_stream(1), "streams"),
        (lambda: module.time(bound), "timer"),
        (lambda: module.time(bound, 1, "graph"), "timer"),
        (lambda: module.time(module.transfer(buffer, np.zeros(8, np.uint8))), "timer"),
    ):
        with pytest.raises(gpuopt.DeviceError, match=f"sim has no {lack}.*cuda"):
            call()
    with pytest.raises(ValueError, match=r"how: 'often'.*'queue', 'sync', 'graph', 'host'"):
        module.time(bound, 1, "often")


def test_invalid_transfers_raise():
    module = gpuopt.load_ptx(KERNELS, "sim")
    buffer, host = module.empty(8), np.zeros(8, np.uint8)
    for to, source, error, text in (
        (buffer, host[:4], ValueError, "source: has 4 bytes, to has 8"),
        (buffer, host[::2], ValueError, "source: must be contiguous"),
        (np.broadcast_to(np.uint8(1), 8), buffer, ValueError, "to: "),
        (host.tobytes(), buffer, TypeError, "to: must be a Buffer or a NumPy array"),
        (gpuopt.load_ptx(KERNELS, "sim").empty(8), host, ValueError, "to: is a Buffer of another"),
    ):
        with pytest.raises(error, match=text):
            module.transfer(to, source)
    host.flags.writeable = False
    with pytest.raises(ValueError, match="to: is read-only"):
        module.transfer(host, buffer)
    module.transfer(buffer, host)


# --- the experiments


def test_textures_are_counted():
    """The decks' G80: a misaligned load takes 16 transactions a half-warp, a texture fetch none."""
    found = gpuopt.experiments.texture(64, device="sim")
    assert found.device.name == "sim:g80"

    def transactions(name):
        return found[name].values["transactions"]

    half_warps = 64 * 64 // 16
    stores = half_warps
    assert transactions("linear, item i, load") == half_warps + stores
    assert transactions("linear, item i + 1, load") == 16 * half_warps - 1 + stores
    assert transactions("plane down columns, load") == 16 * half_warps + stores
    for row in found.rows:
        if row.parameters["how"] == "texture":
            assert row.values["transactions"] == stores, row.name
            assert row.values["texture_requests"] == half_warps // 2, row.name
        else:
            assert row.values["texture_requests"] == 0, row.name
    sectors = {row.name: row.values["texture_sectors"] for row in found.rows}
    assert sectors["linear, item i, texture"] == 64 * 64 // 8
    assert sectors["plane along rows, texture"] == 64 * 64 // 4  # 16 bytes of a row in each
    assert sectors["plane down columns, texture"] == 64 * 64 // 2  # two rows in each
    square = found["square blocks down columns, texture"].values
    assert square["texture_hit_rate"] == 0.5  # a sector has the texels of two warps
    for name in ("texels of 8 bits", "texels of 16 bits", "texels of half floats"):
        assert transactions(f"{name}, texture") == stores
    assert "18.4 billion texels per second" in str(found)
    for name in ("filter, texture", "filter and wrap, texture", "filter, load"):
        assert 0 < found[name].values["error"] < 2.0**-22
    assert found["filter, texture"].share > 1.4  # the filter is free, its arithmetic is not


def test_wrong_fetch_fails_verification(monkeypatch):
    """Weights of 7 bits, or clamped where the texture wraps: the model is what verifies."""
    right, module = sample, import_module("gpuopt.experiments.texture")
    monkeypatch.setattr(module, "sample", lambda *args, **how: right(*args, **how | {"bits": 7}))
    with pytest.raises(gpuopt.VerificationError, match=r"filter, .*wrong items"):
        gpuopt.experiments.texture(32, device="sim")
    monkeypatch.setattr(
        module, "sample", lambda *args, **how: right(*args, **how | {"wrap": False})
    )
    with pytest.raises(gpuopt.VerificationError, match=r"wrap, texture: .*wrong items"):
        gpuopt.experiments.texture(32, device="sim")


@pytest.mark.parametrize("n", [0, 31, 48, -4, 16])
def test_unsupported_texture_sizes_raise(n):
    with pytest.raises(ValueError, match="n: "):
        gpuopt.experiments.texture(n, device="sim")


def test_host_link_of_a_simulated_gpu_is_deck_d3s_table():
    for preset, rate in (("g80", 3.2e9), ("gt200", 5.2e9), ("m2090", 5.2e9)):
        found = gpuopt.experiments.host_link(1 << 28, device=f"sim:{preset}")
        pinned, pageable = found["in, pinned"].values, found["in, pageable"].values
        assert pinned["bandwidth"] == pytest.approx(rate, rel=0.01)
        assert 0.4 * rate < pageable["bandwidth"] < 0.7 * rate
        assert "a model" in str(found) and found["out, pinned"].deck
    small = gpuopt.experiments.host_link(4096, device="sim")["in, pinned"]
    assert small.share < 0.1 and "too small" in small.reading


def test_overlap_of_a_simulated_gpu_needs_streams_and_copy_engines():
    rows = {
        preset: {row.name: row for row in gpuopt.experiments.overlap(device=f"sim:{preset}").rows}
        for preset in ("g80", "gt200", "k40")
    }
    speedup = {
        preset: {name: row.values.get("speedup") for name, row in each.items()}
        for preset, each in rows.items()
    }
    assert max(filter(None, speedup["g80"].values())) == 1  # compute capability 1.0: no engine
    assert speedup["gt200"]["2 streams, 8 chunks"] == pytest.approx(1.5, rel=0.02)  # one engine
    assert speedup["k40"]["4 streams, 64 chunks"] > 2.5  # two: three things at once
    for each in speedup.values():
        assert each["serial"] == pytest.approx(1) and each["1 stream, 8 chunks"] <= 1
    assert rows["k40"]["4 streams, 64 chunks"].share < 1


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("launch_overhead", "sim"),
        ("launch_overhead", "sim:g80"),
        *((name, "cpu") for name in TIMES),
    ],
)
def test_no_times_without_a_timer(name, device):
    with pytest.raises(ValueError, match="use 'cuda'") as caught:
        EXPERIMENTS[name](device=device)
    assert str(caught.value).startswith(f"device: '{device}" if device != "sim" else "device: 'sim")


@pytest.mark.parametrize("each", [*(EXPERIMENTS[name] for name in ["texture", *TIMES]), sample])
def test_docstring_examples_run(each):
    (test,) = doctest.DocTestFinder(recurse=False).find(each, module=False)
    test.globs = {"gpuopt": gpuopt, "np": np}
    failed = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=failed.append)
    assert results.attempted and not results.failed, "".join(failed)


@pytest.mark.parametrize("device", only_cuda)
def test_textures_on_a_gpu(device):
    found = gpuopt.experiments.texture(device=device)
    print(found)
    # Columns are what a 2-D array's layout is for.
    down = {how: found[f"plane down columns, {how}"].values["seconds"] for how in
            ("load", "texture")}  # fmt: skip
    assert down["texture"] < down["load"]
    assert found["plane along rows, texture"].values["bandwidth"] > 500e9


@pytest.mark.parametrize("device", only_cuda)
def test_host_link_rates_on_a_gpu(device):
    found = gpuopt.experiments.host_link(device=device)
    print(found)
    large = {row.name: row for row in found.rows}  # the last of a name: 256 MiB
    for way in ("in", "out"):
        pinned = large[f"{way}, pinned"]
        assert pinned.parameters["nbytes"] == 1 << 28 and pinned.share > 0.9
        assert pinned.values["bandwidth"] > 10e9
        assert large[f"{way}, pageable"].values["bandwidth"] < pinned.values["bandwidth"]


@pytest.mark.parametrize("device", only_cuda)
@pytest.mark.speed
def test_copies_and_kernels_overlap(device):
    found = gpuopt.experiments.overlap(device=device)
    print(found)
    alone = [found[name].values["seconds"] for name in ("copy in", "kernel", "copy out")]
    assert found["serial"].values["seconds"] > 0.9 * sum(alone)
    assert found["1 stream, 8 chunks"].values["speedup"] < 1.1
    assert found["2 streams, 8 chunks"].values["speedup"] > 1.3
    assert max(row.values.get("speedup", 0) for row in found.rows) > 1.7


@pytest.mark.parametrize("device", only_cuda)
@pytest.mark.speed
def test_launches_cost_microseconds(device):
    found = gpuopt.experiments.launch_overhead(device=device)
    print(found)
    cost = {row.name: row.values["seconds"] for row in found.rows}
    assert 1e-7 < cost["in a graph, 1 block"] < cost["back to back, 1 block"] < 20e-6
    assert cost["back to back, 1 block"] < cost["waited for, 1 block"]
    assert cost["waited for, 1 block"] < cost["from Python, 1 block"] < 1e-3


@pytest.mark.parametrize("device", only_cuda)
def test_pinned_memory_comes_back(device):
    """Sixty times a gibibyte: more than a host has, were it kept."""
    module = gpuopt.load_ptx(KERNELS, device)
    for value in range(60):
        array = module.pinned((1 << 28,), np.float32)
        array[:: 1 << 10] = value
        assert array[1 << 10] == value
    view = array[1 << 10 : (1 << 10) + 1]
    del array, module
    assert view[0] == 59


@pytest.mark.parametrize("device", only_cuda)
def test_a_callers_stream(device):
    """A copy on CuPy's stream comes after what CuPy has given to that stream."""
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    module = gpuopt.load_ptx(KERNELS, device)
    module.use_stream(stream.ptr)
    host = module.pinned(32, np.float32)
    with stream:
        line = cupy.zeros(32, cupy.float32)
        work = cupy.random.random((4096, 4096))
        for _ in range(8):  # long enough that a copy on another stream would come before
            work = work @ work
            line += 1
    out = np.zeros(32, np.float32)
    module._core.copy_out(line.data.ptr, out)
    assert (out == 8).all()
    module.use_stream(0)
    host[...] = 3
    module.time(module.transfer(module.empty(128), host))
