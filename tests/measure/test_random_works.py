"""Works drawn from a seed: the draw, the checks of its results, its summary."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import on

import gpuopt
from gpuopt.measure import bench, peer_libraries, random_works, workloads
from gpuopt.measure.ladder_result import PeerTimes
from gpuopt.measure.race import Timing
from gpuopt.show import random_table

KINDS = list(random_works.KINDS)


@pytest.fixture
def small(monkeypatch):
    """Draws of at most some thousand elements."""
    monkeypatch.setattr(random_works, "ELEMENTS_MOST", 3000)
    monkeypatch.setitem(random_works.STEPS_MOST, "cpu", 1 << 18)
    monkeypatch.setitem(random_works.BYTES_MOST, "cpu", 1 << 18)


def numpys(work, arguments):
    """Return NumPy's answer, in float64 where elements are floating-point numbers."""
    task = work.task
    given = task.viewed(arguments)
    result = workloads.numpy_dtype(task.dtype)
    if task.family == "reduce":
        wide = {"dtype": np.float64} if task.op == "sum" and given[0].dtype.kind in "fV" else {}
        return np.asarray(getattr(np, task.op)(given[0], axis=task.axis, **wide)).astype(result)
    if task.family == "transpose":
        return np.ascontiguousarray(given[0].transpose(task.axes))
    if task.family == "stencil1d":
        ndimage = pytest.importorskip("scipy.ndimage")
        weights = np.ones(task.width) if task.weights is None else task.weights
        wide = given[0].astype(np.float64)
        how = {"mode": task.mode, "origin": task.origin}
        return ndimage.correlate1d(wide, weights, task.axis, **how).astype(result)
    if task.family == "matmul":
        return np.asarray(np.matmul(*(each.astype(np.float64) for each in given))).astype(result)
    *factor, x, y = given
    return np.asarray(x + y if not factor else factor[0] * x + y)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_seed_draws_the_same_works_of_all_kinds(device):
    works = random_works.works(device, 11, 60, KINDS)
    assert works == random_works.works(device, 11, 60, KINDS)
    assert works[:7] == random_works.works(device, 11, 7, KINDS), "fewer are the first ones"
    assert not {each.title for each in works} & {
        each.title for each in random_works.works(device, 12, 60, KINDS)
    }
    assert len({each.title for each in works}) == 60
    count = {kind: sum(each.title.startswith(kind) for each in works) for kind in KINDS}
    assert count["axes"] == 24 and count["permutes"] == 15 and min(count.values()) >= 6
    vectors = random_works.works(device, 11, 9, ["vectors"])
    assert {each.group for each in vectors} == {"vectors"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_drawn_sizes_are_within_the_limits_and_spread(device):
    works = [each for seed in range(8) for each in random_works.works(device, seed, 60, KINDS)]
    sizes = [max(view.size for view in each.operands) for each in works]
    assert max(sizes) <= random_works.ELEMENTS_MOST
    for work in works:  # slices and steps have larger arrays below them
        item = 2 if work.dtype == "bfloat16" else np.dtype(work.dtype).itemsize
        most = max(np.prod(shape, dtype=np.int64) for shape in work.shapes) * item
        assert most <= random_works.BYTES_MOST[device], work.title
    for work, size in zip(works, sizes, strict=True):
        item = work.operands[0].itemsize
        assert size * item <= random_works.BYTES_MOST[device], work.title
        assert work.flops <= 2 * random_works.STEPS_MOST[device]
        assert work.touched >= work.output_bytes
    decades = np.bincount(np.log10(sizes).astype(int))
    assert (decades[1:6] > 20).all(), "from tens to millions of elements"
    views = {view.split("(")[0][:1] for each in works for view in each.task.views}
    assert views == {"", "[", "."}


def test_bytes_of_a_view_count_gaps_within_sectors():
    a = np.zeros((40, 30, 5), np.uint8)
    for view, right in (
        (a, a.nbytes),
        (a[:, ::3], 40 * 150 - 10),  # rows of 5 bytes, 15 apart
        (a[:, 3:10], 40 * 35),
        (a[::2, :, 0], 20 * 146),
        (np.zeros((8, 100))[:, ::3], 8 * 100 * 8),  # rows with gaps, without any between them
        (np.zeros((8, 1000))[:, ::50], 8 * 20 * 8),
        (np.zeros((64, 64), np.float32).T[::2], 64 * 64 * 4 - 4),
    ):
        assert workloads._reached(view) == right, (view.shape, view.strides)


def test_views_are_numpys_by_their_text():
    a = np.arange(60).reshape(3, 4, 5)
    for text, right in (
        ("", a),
        ("[1:3]", a[1:3]),
        ("[:, ::2]", a[:, ::2]),
        (".transpose(2, 0, 1)", a.transpose(2, 0, 1)),
        ("[::-1, 1:].transpose(1, 0, 2)", a[::-1, 1:].transpose(1, 0, 2)),
        ("reversed", a[::-1]),
    ):
        view = peer_libraries.view_of(text)(a)
        assert np.array_equal(view, right) and np.shares_memory(view, a)
    with pytest.raises(ValueError, match="no view: "):
        peer_libraries.view_of("a.T")


@pytest.mark.parametrize("seed", range(3))
def test_the_checks_accept_numpys_results_and_no_others(seed, small):
    for work in random_works.works("cpu", seed, 60, KINDS):
        arguments = workloads.draw(work)
        right = numpys(work, arguments)
        assert right.shape == work.result_shape, work.title
        check = workloads.check_of(work, arguments)
        assert check(right, True) == check(right, False) == "", work.title
        wrong = right.copy().reshape(-1)
        at = wrong.size // 2
        wrong[at] = not wrong[at] if wrong.dtype.kind == "b" else wrong[at] / 2 + 1
        if wrong[at] == right.reshape(-1)[at]:
            wrong[at] = 0
        assert check(wrong.reshape(right.shape), True), work.title
        assert check(right[None], True), work.title


@pytest.mark.parametrize("device", [on("cpu", "cpu"), on("cuda", "cuda")])
def test_own_results_of_a_draw_are_right(device, small):
    described = bench.describe_device(device)
    for work in random_works.works("cpu", 5, 60, KINDS):
        arguments = peer_libraries.Arguments(workloads.draw(work), cold=False)
        try:
            got = bench._ours(work, arguments, described).run()
        except (TypeError, ValueError) as error:
            assert "not supported" in str(error) or "stacks" in str(error), work.title
            continue
        assert got.dtype.name == work.task.dtype and got.shape == work.result_shape, work.title
        assert workloads.check_of(work, arguments)(got, True) == "", work.title


def test_a_random_bench_has_its_kinds_worst_first_and_reads_itself(small):
    lines = []
    measured = gpuopt.bench("cpu", random=3, cases=12, on_result=lines.append)
    assert measured.seed == 3 and not measured.wrong and len(lines) == 12
    assert gpuopt.Bench.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured
    assert measured.records()[0]["group"] in KINDS
    text = str(measured)
    assert "by seed 3" in text and "worst first" in text and "all " in text
    worst = random_table.worst_first(measured)
    ratios = [row.ratio() for row in worst if row.ratio() is not None]
    assert ratios == sorted(ratios) and len(worst) == len(measured.rows)
    again = gpuopt.bench("cpu", random=3, cases=12, only=[worst[0].title])
    assert [row.title for row in again.rows] == [worst[0].title], "one of them alone"
    assert {peer.name for row in measured.rows for peer in row.peers} <= {"NumPy", "SciPy"}


def test_the_summary_counts_refused_and_wrong_works(small):
    def row(kind, mine, theirs, copy_rate=0.0):
        peers = [PeerTimes("NumPy", "2", Timing([theirs]), Timing())]
        return bench.BenchRow(kind, f"{kind} #{mine}", 1000, warm=Timing([mine]), peers=peers,
                              copy_rate=copy_rate)  # fmt: skip

    rows = [row("axes", 1e-5, 2e-5), row("axes", 2e-5, 1e-5), row("axes", 2.0e-6, 1.5e-6),
            row("permutes", 1e-3, 1e-3, 2e6), row(random_works.APART, 1, 1e-3)]  # fmt: skip
    measured = bench.Bench(
        bench.describe_device("cpu"),
        rows,
        refused=[("axes #7 sum", "gpuopt does not take it: why"), ("axes #8 sum", "needs memory")],
        wrong=[("permutes #9 permute", "it gave 1")],
        seed=1,
    )
    told = {record["kind"]: record for record in random_table.figures(measured)}
    axes = told["axes"]
    assert axes["works"] == 4 and axes["missed"] == 1 and axes["least"] == 0.5
    assert axes["median"] == 0.75 and axes["long"] == 0.5
    assert axes["even"] == "25%" and axes["near"] == "50%"
    assert told["permutes"]["even"] == "50%" and told["permutes"]["copy least"] == 0.5
    assert told["all"]["works"] == 6 and told["all"]["least"] == 0.5, "others stand apart"
    assert told[random_works.APART]["least"] == 0.001


@pytest.mark.parametrize(
    ("more", "error", "told"),
    [
        ({"random": -1}, ValueError, "random: must be from 0"),
        ({"random": "x"}, TypeError, "random: must be an integer"),
        ({"random": 1, "cases": 0}, ValueError, "cases: must be from 1"),
        ({"random": 1, "kinds": ["axis"]}, ValueError, "did you mean 'axes'"),
        ({"random": 1, "kinds": []}, ValueError, "kinds: is empty"),
        ({"cases": 5}, ValueError, "pass random=SEED"),
        ({"kinds": ["axes"]}, ValueError, "pass random=SEED"),
    ],
)
def test_a_draw_refuses_wrong_arguments(more, error, told):
    with pytest.raises(error, match=told):
        gpuopt.bench("cpu", **more)


def test_the_command_draws_and_writes(tmp_path):
    path = tmp_path / "drawn.json"
    done = subprocess.run(
        [sys.executable, "-m", "gpuopt", "bench", "--random", "2", "--cases", "4", "--kinds",
         "axes,permutes", "--device", "cpu", "--json", str(path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = gpuopt.Bench.from_dict(json.loads(path.read_text()))
    assert {row.group for row in measured.rows} == {"axes", "permutes"}
    assert str(measured).splitlines()[:5] == done.stdout.splitlines()[:5]
    assert len(done.stderr.splitlines()) == 4, "a line for each work"
