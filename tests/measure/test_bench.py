"""gpuopt beside other libraries: rows, tables, JSON, failures, copies of arguments."""

import contextlib
import json
import sys
import types
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import KINDS
from test_workloads import FLOAT32

import gpuopt
from gpuopt.families import registry
from gpuopt.measure import bench, compare, peer_libraries, workloads
from gpuopt.measure.ladder_result import PeerTimes
from gpuopt.measure.race import Timing
from gpuopt.show import bench_table

# --- rows


@pytest.fixture(scope="module")
def quick():
    return gpuopt.bench(
        "cpu", quick=True, only=["sum", "transpose float64", "stencil of radius 3", "call"]
    )


def test_rows_are_timed_beside_the_libraries_that_are_there(quick):
    assert not quick.wrong and quick.quick
    assert [row.group for row in quick.rows[:3]] == ["sum"] * 3
    for row in quick.rows:
        names = {peer.name for peer in row.peers}
        told = names | {name for name, _ in row.refused}
        assert "NumPy" in names and {"CuPy", "PyTorch", "JAX"} <= told
        assert len(row.warm.samples) == bench.ROUNDS[True] and row.warm.least > 0
        assert row.ratio() > 0 and row.rate > 0 and row.kernels.samples == []
        size = next(each.input_bytes for each in workloads.works("cpu", quick=True)
                    if each.title == row.title)  # fmt: skip
        copies = peer_libraries.copies_for(size)
        cold = copies > 1 and copies * size >= peer_libraries.CACHES * quick.device.cache_bytes
        assert bool(row.cold.samples) == cold and (row.ratio("cold") is not None) == cold
        assert all(bool(peer.cold.samples) == cold for peer in row.peers)
        assert quick.bars(row) == []
    stencils = [row for row in quick.rows if row.group == "stencil"]
    pytest.importorskip("scipy")
    assert all("SciPy" in {peer.name for peer in row.peers} for row in stencils)
    assert all(row.of_copy > 0 for row in stencils)


def test_the_table_names_everything(quick):
    text = quick.table(every=True)
    for row in quick.rows:
        assert row.title in text
    for part in (f"NumPy {np.__version__}", "ratio", "gpuopt us", "CuPy left out: runs on GPUs"):
        assert part in text
    assert all(line == line.rstrip() for line in text.splitlines())
    records = quick.records()
    assert [each["work"] for each in records] == [row.title for row in quick.rows]
    assert all(set(each) == set(records[0]) for each in records)
    fastest = min(records[0][f"{peer.name}_us"] for peer in quick.rows[0].peers)
    assert fastest / records[0]["warm_us"] == pytest.approx(quick.rows[0].ratio())


def test_json_and_back(quick):
    told = json.loads(json.dumps(quick.to_dict()))
    assert gpuopt.Bench.from_dict(told) == quick
    for bad in ({}, {"kind": "bench"}, {"kind": "bench", "format": 1}, {**told, "format": 0}):
        with pytest.raises(ValueError, match="is not the bench"):
            gpuopt.Bench.from_dict(bad)


def row(group="sum", title="sum of 2^16 float32", **more):
    times = {"PyTorch": 4e-6, "CuPy": 3e-6, "JAX": 9e-6}
    peers = [
        PeerTimes(name, "1", Timing([t] * 3), Timing([2 * t] * 3)) for name, t in times.items()
    ]
    given = {"touched": 1 << 28, "peers": peers, "warm": Timing([2e-6, 2e-6, 8e-6])} | more
    return bench.BenchRow(group, title, **given)


def test_a_ratio_is_to_the_fastest():
    assert row().ratio() == pytest.approx(1.5)
    assert row().ratio(against=("PyTorch", "JAX")) == pytest.approx(2)
    assert row().ratio("cold") is None and row(cold=Timing([1e-6])).ratio("cold") == 6
    assert row(peers=[]).ratio() is None


def test_bars_are_judged():
    bar = workloads.Bar("cuda", "", "x", 1.5, ("CuPy",))
    assert row().meets(bar) is True and row().meets(replace(bar, value=1.51)) is False
    assert row().meets(replace(bar, against=("NumPy",))) is None
    assert row().meets(workloads.Bar("cuda", "", "us", 2.0)) is True
    assert row().meets(workloads.Bar("cuda", "", "us", 1.9)) is False
    rate = workloads.Bar("cuda", "", "GB/s", 100_000)
    assert row().meets(rate) is True and row(kernels=Timing([3e-6])).meets(rate) is False
    copy = workloads.Bar("cuda", "", "of copy", 0.9)
    assert row().meets(copy) is None
    assert row(copy_rate=(1 << 28) / 2e-6).reached(copy) == pytest.approx(1)


@pytest.fixture
def on_a_gpu():
    """Return a bench as a GPU gives it."""
    cpu = bench.describe_device("cpu")
    device = replace(cpu, name="cuda:0", kind="cuda", description="NVIDIA H200")
    rows = [row(kernels=Timing([2e-6] * 3), copy_rate=2e14)]
    for at, op in enumerate(workloads.OPS * 6):
        each = row(group="axis", title=f"{op} along axis {at} of (8192, 8192) float32")
        each.warm = Timing([(2 + at / 5) * 1e-6] * 3)
        rows.append(each)
    refused, wrong = [("sum of 2^30 float32", "needs 9 GiB")], [("max of <1>", "it gave 3")]
    return gpuopt.Bench(device, rows, refused, wrong, version="1", date="now")


def row_of_many(text):
    return next(line for line in text.splitlines() if line.startswith("argmax float32"))


def test_many_works_are_summarized(on_a_gpu):
    text = str(on_a_gpu)
    assert "sum of 2^16 float32" in text and "1.6x CuPy: 1.50, MISSED" in text
    assert "along axis 7" not in text and "along axis 7" in on_a_gpu.table(every=True)
    line = row_of_many(text)
    assert " 6 " in line and "0.97x PyTorch/CuPy: 2 of 6" in line, text
    assert "slower than the fastest other library: 12 of 18" in text
    assert "WRONG: max of <1>: it gave 3" in text and "needs 9 GiB" in text
    assert "bars: 24 met, 13 missed" in text, text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_html_is_one_escaped_table(on_a_gpu):
    class Checker(HTMLParser):
        open, rows, text = (), 0, ""

        def handle_starttag(self, tag, attributes):
            self.rows += tag == "tr"
            self.open = (*self.open, tag) if tag != "br" else self.open

        def handle_endtag(self, tag):
            assert self.open[-1] == tag
            self.open = self.open[:-1]

        def handle_data(self, data):
            self.text += data

    checker = Checker()
    checker.feed(on_a_gpu._repr_html_())
    assert not checker.open and checker.rows == 1 + len(on_a_gpu.rows)
    assert "max of <1>" in checker.text and "MISSED" in checker.text


# --- failures


def test_a_wrong_result_of_ours_has_no_time(monkeypatch):
    real = gpuopt.transpose

    def wrong(a, *, out=None, device=None):
        result = real(a, out=out, device=device)
        result[0, 0] += 1
        return result

    monkeypatch.setattr(registry, "transpose", wrong)
    found = gpuopt.bench("cpu", quick=True, only=["transpose float64", "call"])
    assert [each.group for each in found.rows] == ["call"]
    assert [name for name, _ in found.wrong] == ["transpose of 256 x 512 float64"]
    assert "WRONG: transpose of 256 x 512 float64: it gave" in str(found)


@pytest.mark.parametrize("right", [0, 1])
def test_ours_is_verified_before_and_after(right, monkeypatch):
    """A result that is right at first and wrong after the timing is no result."""
    real, told = bench._Ours.run, []

    def run(self):
        told.append(self.name)
        return real(self) + (len(told) > right)

    monkeypatch.setattr(bench._Ours, "run", run)
    found = gpuopt.bench("cpu", quick=True, only=["sum of 2^10"], peers=[])
    assert found.wrong and not found.rows and len(told) == right + 1


def test_a_peer_is_verified_again_after_the_timing(monkeypatch):
    real, told = peer_libraries.Peer.run, []

    def run(self):
        told.append(self.name)
        return real(self) + (told.count("NumPy") > 1 and self.name == "NumPy")

    monkeypatch.setattr(peer_libraries.Peer, "run", run)
    (only,) = gpuopt.bench("cpu", quick=True, only=["sum of 2^10"], peers=["NumPy"]).rows
    assert told.count("NumPy") == 2 and not only.peers
    assert [(name, why[:5]) for name, why in only.refused] == [("NumPy", "gave ")]


def test_a_result_of_another_dtype_is_wrong(monkeypatch):
    real = bench._Ours.run
    monkeypatch.setattr(bench._Ours, "run", lambda self: real(self).astype(np.float64))
    found = gpuopt.bench("cpu", quick=True, only=["sum of 2^10"], peers=[])
    assert not found.rows and "float64 instead of float32" in found.wrong[0][1]


def test_a_copy_that_does_not_copy_is_nothing_to_compare_with(wrong_bench):
    with pytest.raises(gpuopt.VerificationError, match="the copy on cpu gave a wrong result"):
        gpuopt.bench("cpu", quick=True, only=["transpose float64"], peers=[])


def test_results_are_printed_as_they_arrive(monkeypatch, capsys):
    asked, lines = [], []
    real = gpuopt.transpose

    def wrong(a, *, out=None, device=None):
        result = real(a, out=out, device=device)
        result[0, 0] += 1
        return result

    def refused(*arguments, **more):
        raise ValueError("not today")

    def progress(text, share):
        assert len(lines) == len(asked), "what was measured before has been told"
        asked.append(text)

    monkeypatch.setattr(registry, "transpose", wrong)
    monkeypatch.setattr(registry, "stencil1d", refused)
    found = gpuopt.bench("cpu", quick=True, only=["transpose float64", "stencil of radius 3",
                         "call"], progress=progress, on_result=lines.append)  # fmt: skip
    assert [line for line in lines if line in str(found)] == lines[:2]
    assert lines[0].startswith("WRONG: transpose of 256 x 512 float64: it gave another array")
    assert lines[1].startswith("left out: stencil of radius 3") and "not today" in lines[1]
    assert lines[2].startswith(f"{found.rows[0].title}: ") and len(lines) == len(asked) == 3
    assert capsys.readouterr() == ("", ""), "a library prints nothing"


def test_a_line_has_the_rate_the_ratio_and_the_bars(on_a_gpu):
    sum_, axis = on_a_gpu.rows[0], on_a_gpu.rows[1]
    assert bench_table.line(on_a_gpu, sum_) == (
        "sum of 2^16 float32: 2.0 us, 134,218 GB/s, 67% of copy, 1.50x CuPy "
        "(1.6x CuPy: 1.50, MISSED)"
    )
    told = bench_table.line(on_a_gpu, axis)
    assert "4,100 GB/s: 134,218, met; 0.97x PyTorch/CuPy: 1.50, met" in told
    alone = replace(sum_, peers=[], copy_rate=0.0, title="matrix product", flops=10**9)
    assert bench_table.line(on_a_gpu, alone) == "matrix product: 2.0 us, 500,000 GFLOP/s"


@pytest.mark.parametrize(
    ("what", "value", "seconds", "told"),
    [
        ("x", 1.5, 2e-6 * 1.5001 / 1.5, "1.5x CuPy: 1.4999, MISSED"),
        ("x", 1.5, 2e-6 * 1.51 / 1.5, "1.5x CuPy: 1.49, MISSED"),
        ("x", 1.499, 2e-6 * 1.5001 / 1.498, "1.499x CuPy: 1.498, MISSED"),
        ("us", 1.9, 1.90004e-6, "1.9 us: 1.90004, MISSED"),
        ("us", 1.9, 1.9e-6, "1.9 us: 1.9, met"),
    ],
)
def test_missed_bars_are_marked(what, value, seconds, told, on_a_gpu, monkeypatch):
    bar = workloads.Bar("cuda", "", what, value, ("CuPy",) if what == "x" else ())
    monkeypatch.setattr(workloads, "bars", lambda *_: [bar])
    assert bench_table._judged(on_a_gpu, row(warm=Timing([seconds]))) == told


def test_the_head_has_the_range_of_samples(on_a_gpu):
    assert "medians of 3 samples" in str(on_a_gpu)
    on_a_gpu.rows[4].warm = Timing([2e-6] * 9)
    assert "medians of 3 to 9 samples" in str(on_a_gpu)


def test_a_wrong_peer_is_left_out(monkeypatch):
    real = peer_libraries._like_numpy

    def wrong(xp, task):
        call = real(xp, task)
        return lambda *given: call(*given) + 1

    monkeypatch.setattr(peer_libraries, "_like_numpy", wrong)
    (found,) = gpuopt.bench("cpu", quick=True, only=["transpose float64"]).rows
    assert "NumPy" not in {peer.name for peer in found.peers} and found.warm.samples
    assert any(name == "NumPy" and why.startswith("gave") for name, why in found.refused)


def test_a_peer_that_fails_when_it_runs_is_left_out(monkeypatch):
    def fails(xp, task):
        return lambda *given: 1 // 0

    monkeypatch.setattr(peer_libraries, "_like_numpy", fails)
    found = gpuopt.bench("cpu", quick=True, only=["stencil of radius 3"])
    (only,) = found.rows
    assert ("NumPy", "ZeroDivisionError: integer division or modulo by zero") in only.refused


def tired(monkeypatch, calls):
    """Make NumPy's transposes raise after `calls` calls; a ladder and a bench make dozens."""
    real, made = peer_libraries._like_numpy, []

    def call_of(xp, task):
        call = real(xp, task)

        def once(*given):
            made.append(task)
            if len(made) > calls:
                raise MemoryError("no more")
            return call(*given)

        return once

    monkeypatch.setattr(peer_libraries, "_like_numpy", call_of)


@pytest.mark.parametrize("calls", [1, 2, 3, 20])
def test_a_peer_that_fails_while_it_is_timed_is_left_out(calls, monkeypatch):
    """After it was verified: when its race is planned (1, 2 and 3 calls), and in its midst."""
    tired(monkeypatch, calls)
    monkeypatch.setattr(
        peer_libraries, "CACHES", 0
    )  # cold times too, however large this CPU's cache is
    found = gpuopt.bench("cpu", quick=True, only=["transpose float64"], peers=["NumPy"])
    (only,) = found.rows
    assert only.warm.samples and not only.peers and not found.refused and not found.wrong
    assert only.refused == [("NumPy", "MemoryError: no more")]
    assert "NumPy left out: MemoryError: no more" in str(found)


def test_library_errors_are_reported_verbatim(monkeypatch):
    def told(error):
        return peer_libraries.why(error)

    assert told(ModuleNotFoundError("No module named 'cupy'", name="cupy")) == "not installed"
    for error, text in (
        (ModuleNotFoundError("No module named 'nvidia'", name="nvidia"), "No module named"),
        (ImportError("libcublas.so.12: cannot open"), "ImportError: libcublas.so.12"),
        (KeyError("stream"), "KeyError: 'stream'"),
        (IndexError("tuple index out of range"), "IndexError: tuple index"),
        (LookupError("nothing"), "LookupError: nothing"),
    ):
        assert text in told(error) and told(error) != "not installed"
    assert told(peer_libraries.LeftOutError("sees no GPU")) == "sees no GPU"
    assert "\n" not in told(RuntimeError("one\ntwo")) and len(told(RuntimeError("x" * 999))) <= 100


def test_an_error_names_the_work_that_was_measured(monkeypatch):
    def lost(*_):
        raise gpuopt.DeviceLost("cuda:0 is lost")

    monkeypatch.setattr(bench, "_measure", lost)
    with pytest.raises(gpuopt.DeviceLost) as error:
        gpuopt.bench("cpu", quick=True, only=["transpose float64"], peers=["NumPy"])
    assert "while measuring transpose of " in error.value.__notes__[0]


def test_memory_that_others_took_refuses_one_work(monkeypatch):
    measure = bench._measure

    def full(work, *more):
        if "float64" in work.title:
            raise gpuopt.DeviceMemoryError("cuda:0: cuLaunchKernel failed")
        return measure(work, *more)

    monkeypatch.setattr(bench, "_measure", full)
    found = gpuopt.bench("cpu", quick=True, only=["transpose float64", "transpose float32"],
                         peers=["NumPy"])  # fmt: skip
    assert found.rows and found.refused
    assert all("float64" in title and "no memory: " in why for title, why in found.refused)


def test_names_may_come_from_anywhere():
    chosen = (name for name in ["transpose float64"])
    found = gpuopt.bench("cpu", quick=True, only=chosen, peers=(name for name in ["NumPy"]))
    assert len(found.rows) == 1 and [peer.name for peer in found.rows[0].peers] == ["NumPy"]


def test_works_that_do_not_fit_are_left_out_with_a_reason(monkeypatch):
    cpu = bench.describe_device("cpu")
    small = replace(cpu, memory_free=1 << 20)
    monkeypatch.setattr(bench, "describe_device", lambda name: small)
    found = gpuopt.bench("cpu", quick=True, only=["transpose float64"])
    assert not found.rows and "GiB of the host" in found.refused[0][1]
    assert "left out: transpose of 256 x 512 float64: needs" in str(found)


def test_bad_arguments_name_themselves():
    with pytest.raises(ValueError, match=r"device: sim:h200 has no timer.* gives counters"):
        gpuopt.bench("sim")
    with pytest.raises(ValueError, match="device"):
        gpuopt.bench("abacus")
    with pytest.raises(ValueError, match=r"only: 'nothing' is not .*; use one of 'sum'"):
        gpuopt.bench("cpu", only=["nothing"])
    with pytest.raises(ValueError, match=r"peers: 'MATLAB' is not known; use some of 'NumPy'"):
        gpuopt.bench("cpu", peers=["MATLAB"])
    with pytest.raises(TypeError, match="must be a list of names"):
        gpuopt.bench("cpu", only="sum")
    for only in ([7], 7):
        with pytest.raises(TypeError, match="only: must be a list of names"):
            gpuopt.bench("cpu", only=only)
    with pytest.raises(TypeError, match="peers: must be a list of names"):
        gpuopt.bench("cpu", peers="NumPy")


# --- arguments that works share


def test_each_library_copies_shared_arguments_once():
    x = np.arange(6.0)
    calls = [lambda a: a + 1, lambda a: a - 1]
    kept = peer_libraries.Arguments((2.5, x))
    assert kept.held == 0 and peer_libraries.copies_of(kept) == peer_libraries.COPIES_MOST
    moved = []

    def move(array):
        moved.append(array)
        return array.copy()

    for call in calls:
        bound = peer_libraries.bound("one", lambda a, y, call=call: call(y), move, kept)
        assert len(bound) == peer_libraries.COPIES_MOST
        assert all(np.array_equal(each(), call(x)) for each in bound)
    assert len(moved) == peer_libraries.COPIES_MOST and all(each is x for each in moved)
    assert kept.held == peer_libraries.COPIES_MOST * x.nbytes
    first, second = kept.copies["one"][:2]
    assert first[0] == 2.5 and not np.shares_memory(first[1], second[1])
    peer_libraries.bound("another", calls[0], move, kept)
    assert len(moved) == 2 * peer_libraries.COPIES_MOST, "each has its own"
    peer_libraries.bound("one", calls[0], move, tuple(kept))
    assert len(moved) == 3 * peer_libraries.COPIES_MOST, "what is not kept is copied each time"
    assert kept.held == 2 * peer_libraries.COPIES_MOST * x.nbytes
    only = peer_libraries.Arguments((x,))
    sums = peer_libraries.bound("one", np.sum, move, only, from_host=True)
    assert [each() for each in sums[:2]] == [15.0] * 2 and not only.copies
    assert len(moved) == 3 * peer_libraries.COPIES_MOST + 2, "each call moves it"


def test_a_bench_draws_and_copies_shared_arguments_once(monkeypatch):
    drawn, held = [], []
    real, check = workloads.draw, bench._check_memory

    def draw(work):
        drawn.append((work.shapes, work.dtype))
        return real(work)

    def check_memory(work, device, others, bytes_held):
        held.append(bytes_held)
        check(work, device, others, bytes_held)

    monkeypatch.setattr(workloads, "draw", draw)
    monkeypatch.setattr(bench, "_check_memory", check_memory)
    only = ["axis int8 max", "axis int8 sum"]
    found = gpuopt.bench("cpu", quick=True, only=only, peers=["NumPy"])
    assert not found.wrong and not found.refused
    assert len(drawn) == len(set(drawn)) < len(found.rows) / 3
    fresh = [at for at, each in enumerate(held) if not each]
    assert len(fresh) == len(drawn), "where others are drawn, what was before is gone"
    assert max(held) <= 4 * peer_libraries.COLD_BYTES
    assert workloads._drawn == {}


# --- other libraries, as far as they can be imitated


def test_a_peer_on_a_gpu_that_is_numpy_in_disguise(monkeypatch):
    """CuPy's side of every task, with NumPy in its place: the calls are well formed and right."""
    pytest.importorskip("scipy")
    import scipy.ndimage

    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__version__, cupy.asnumpy = "0", np.asarray
    device = contextlib.nullcontext()
    device.synchronize = lambda: None
    cupy.cuda = types.SimpleNamespace(Device=lambda number: device)
    cupyx = types.ModuleType("cupyx.scipy.ndimage")
    cupyx.correlate1d = scipy.ndimage.correlate1d
    for name, module in (("cupy", cupy), ("cupyx.scipy.ndimage", cupyx),
                         ("cupyx", cupyx), ("cupyx.scipy", cupyx)):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    host = workloads.Workload(
        "host", peer_libraries.Task("reduce", as_number=True, from_host=True), ((999,),)
    )
    for work in [*FLOAT32, host]:
        arguments = workloads.draw(work)
        peers, refused = peer_libraries.find(work.task, arguments, 0, ["CuPy"])
        assert not refused and peers[0].name == "CuPy", work.title
        assert workloads.check_of(work, arguments)(peers[0].run(), False) == "", work.title


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
@pytest.mark.parametrize("gpu", [None, 0])
def test_real_libraries_are_right(library, gpu):
    pytest.importorskip(library)
    name = {"cupy": "CuPy", "torch": "PyTorch", "jax": "JAX"}[library]
    if KINDS["cuda"] if gpu == 0 else library == "cupy":
        pytest.skip("needs a GPU")
    found, refused = 0, set()
    for work in FLOAT32:
        arguments = workloads.draw(work)
        peers, left_out = peer_libraries.find(work.task, arguments, gpu, [name])
        refused.update(why for _, why in left_out)
        for peer in peers:
            try:
                got = peer.run()
            except Exception:
                continue  # PyTorch has no negative steps
            assert workloads.check_of(work, arguments)(got, False) == "", work.title
            found += 1
    elsewhere = {why for why in refused if "backend here" in why}  # JAX has one at a time
    if elsewhere and not found:
        pytest.skip(f"{name} {elsewhere.pop()}")
    assert found > len(FLOAT32) // 2, refused


@pytest.mark.skipif(bool(KINDS["cuda"]), reason=str(KINDS["cuda"]))
def test_a_gpu_is_measured():
    found = gpuopt.bench("cuda", quick=True, only=["sum", "transpose", "stencil", "matmul",
                         "vector", "call", "host", "permute", "axis float32 sum",
                         "layout float32 sum"])  # fmt: skip
    # Other processes use memory: works left out for lack of it are not errors.
    assert not found.wrong, str(found)
    assert found.rows and all("are free" in why for _, why in found.refused), str(found)
    for each in found.rows:
        assert each.warm.least > 0 and each.rate > 0
        if each.group in ("sum", "transpose", "stencil", "matmul", "vector"):
            assert each.kernels.samples


def test_two_benches_are_compared(on_a_gpu, tmp_path):
    slower = gpuopt.Bench.from_dict(on_a_gpu.to_dict())
    slower.rows[3].warm = Timing([2 * each for each in slower.rows[3].warm.samples])
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, each in zip(paths, (on_a_gpu, slower), strict=True):
        path.write_text(json.dumps(each.to_dict()))
    found = compare.compare(*paths)
    (section,) = found.sections
    changed = [name for name, modes in section.rows.items() if modes["warm"].verdict]
    assert changed == [slower.rows[3].title]
    assert section.rows[changed[0]]["warm"].ratio == pytest.approx(2)
