"""Sweeps: the planners' constants by name, every choice verified, the best and the default told."""

import json
import re

import numpy as np
import pytest
from conftest import KINDS, on

import gpuopt
from gpuopt import _core
from gpuopt.arrays.inout import Problem
from gpuopt.families import axis_plan, cases
from gpuopt.measure import sweep, workloads

needs_sim = pytest.mark.skipif(bool(KINDS.get("sim", "none")), reason="needs the simulated GPU")
TUNED = [(family, row) for family in sweep.FAMILIES for row in _core.tunings(family)]


class Timed:
    """A bench on the simulated GPU, with times that are made up: each choice has its own."""

    def __init__(self, bench):
        self.bench, self.seen = bench, []

    def rung(self):
        return self.bench.rung()

    def run(self, **call):
        return self.bench.run(**call)

    def time(self, runs=1, cold=False, **call):
        if call not in self.seen:
            self.seen.append(call)
        return 1e-3 + 1e-6 * self.seen.index(call)


def measured(family, n, device="sim:g80", which=slice(None)):
    """Return the sections of a sweep on a small simulated GPU, whose times are made up."""
    sizes = []
    for make in sweep._subjects(family, n, "float32", device)[which]:
        problem = make()
        problem.bench = Timed(problem.bench)
        sizes.append(sweep._measure(problem, family, "sim"))
    return sizes


# --- constants


def test_the_table_of_constants():
    assert {family for family, _ in TUNED} == {"reduce", "reduce_axis", "matmul", "add"}
    for family, row in TUNED:
        assert row["value"] in row["tried"] and row["meaning"]
        assert row["rung"] in {rung.number for rung in gpuopt.rungs(family)}
        assert row["tried"] == sorted(set(row["tried"])) and len(row["tried"]) > 1


@needs_sim
@pytest.mark.parametrize(
    ("tuning", "error", "text"),
    [
        ({"stripes": 2}, ValueError, r"'stripes' is no constant of reduce; use one of 'one_block_"),
        ({"chunk_blocks": 5}, ValueError, "chunk_blocks is 5; use one of 1, 2, 3, 4, 6, 8"),
        ({"chunk_blocks": -1}, ValueError, "chunk_blocks is -1; use one of"),
        ({"chunk_blocks": 2**70}, ValueError, "use one of 1, 2"),
        ({"chunk_blocks": 2.0}, ValueError, "use one of 1, 2"),
        ({3: 3}, TypeError, "tuning: must be a string"),
        ([("chunk_blocks", 2)], TypeError, "tuning: must be a dict"),
        ("chunk_blocks", TypeError, "tuning: must be a dict"),
    ],
)
def test_other_constants_are_refused(tuning, error, text):
    bench = _core.Workbench("reduce", np.ones(100, np.float32), device="sim")
    with pytest.raises(error, match=text):
        bench.run(tuning=tuning)
    with pytest.raises(error, match=text):
        bench.time(tuning=tuning)
    assert bench.run() == bench.run(tuning=None) == bench.run(tuning={}) == 100


NAMES = ["chunk_vectors", "chunk_blocks", "one_block_items", "ring_blocks"]


@needs_sim
@pytest.mark.parametrize("name", NAMES)
def test_constant_changes_the_order_of_addition(name):
    """Sums of other shares are rounded otherwise; a call without it is as before."""
    n, device = (400_001, "sim") if name == "ring_blocks" else (150_001, "sim:g80")
    x = np.random.default_rng(1).standard_normal(n) * 10.0 ** (np.arange(n) % 9)
    bench = _core.Workbench("reduce", x, device=device)
    row = next(row for _, row in TUNED if row["name"] == name)
    rung = row["rung"]
    block = 512 if rung == 7 else None
    plain = bench.run(rung, block)
    got = {value: bench.run(rung, block, tuning={name: value}) for value in row["tried"]}
    assert got[row["value"]] == plain == bench.run(rung, block)
    if name == "one_block_items":
        n = 512 * 64
        bench = _core.Workbench("reduce", x[:n], device="sim:g80")
        got = {value: bench.run(rung, block, tuning={name: value}) for value in row["tried"]}
    assert len(set(got.values())) > 1
    np.testing.assert_allclose(list(got.values()), next(iter(got.values())), rtol=1e-9)


@needs_sim
def test_a_long_array_goes_by_turns_and_by_shares():
    """By 32 blocks of 32 rounds each, and by 128 of 8."""
    n = (64 << 20) // 4 + 4096
    x = np.resize(np.random.default_rng(2).integers(-99, 99, 99_991, np.int32), n)
    bench = _core.Workbench("reduce", x, device="sim:g80")
    want = x.sum(dtype=np.int64)
    for tuning in ({}, {"chunk_blocks": 8}):
        assert bench.run(tuning=tuning) == want


@needs_sim
def test_the_tiling_of_a_product_can_be_named():
    a = np.random.default_rng(3).random((128, 128), np.float32)
    from gpuopt.families import cases, registry

    bench = _core.Workbench(cases.with_output(registry.matmul_problem(a, a)), device="sim")
    got = [bench.run(10, tuning={"tiling": value}) for value in (0, 1, 2)]
    assert not np.array_equal(got[1], got[2]), "two slices of the depth are rounded otherwise"
    assert np.array_equal(got[0], got[1]) or np.array_equal(got[0], got[2])


@needs_sim
@pytest.mark.parametrize(
    ("family", "n", "device"),
    [
        ("reduce", 1 << 16, "sim:g80"),
        ("reduce_axis", 1 << 13, "sim:g80"),
        ("matmul", 64**2, "sim"),
        ("transpose", 64**2, "sim"),
        ("stencil1d", 2000, "sim"),
        ("add", 1000, "sim"),
    ],
    ids=lambda value: f"sim-{value}" if value in sweep.FAMILIES else None,
)
def test_every_choice_is_right_on_the_simulated_gpu(family, n, device):
    """`_measure` verifies each: a wrong one raises."""
    for size in measured(family, n, device, slice(0, None, 3)):
        blocks = {(trial.variant, trial.block) for trial in size.trials if not trial.constant}
        rows = [r for r in gpuopt.rungs(family) if not (r.host or r.historical or r.ceiling)]
        told = {trial.rung for trial in size.trials} | {
            text.removeprefix("rung ").split(",")[0] for text, _ in size.refused
        }
        assert told == {f"{row.number} {row.name}" for row in rows}
        tried = {str(trial) for trial in size.trials} | {text for text, _ in size.refused}
        for row in _core.tunings(family):
            for value in set(row["tried"]) - {row["value"]}:
                (trial,) = (t for t in tried if t.endswith(f", {row['name']} = {value:,}"))
                assert f"rung {row['rung']} " in trial
        assert [trial.default for trial in size.trials].count(True) == 1
        assert len(blocks) >= len(rows) - len(size.refused)
        beyond = re.compile("more than the|allows from")
        few = [text for text, why in size.refused if not beyond.search(why)]
        few = [
            text for text in few if "dot_mode" not in text
        ]  # some are for vectors, some for small k
        assert not few or family == "add", few  # the small GPU has little shared memory


@needs_sim
def test_a_choice_is_verified_again():
    (make,) = sweep._subjects("add", 1000, "float32", "cpu")
    problem, seen = make(), []
    right = problem.error

    def error(rung, got):
        seen.append(rung.name)
        return "another" if seen.count(rung.name) > 1 else right(rung, got)

    problem.error = error
    with pytest.raises(gpuopt.VerificationError, match="another"):
        sweep._measure(problem, "add", "cpu")
    assert len(seen) == 4


def test_a_hopeless_choice_has_one_sample():
    class Slow(Timed):
        def time(self, runs=1, cold=False, **call):
            return 1e-3 * (1 + 20.1 * (call["variant"] == "serial"))

    (make,) = sweep._subjects("add", 1000, "float32", "cpu")
    problem = make()
    problem.bench = Slow(problem.bench)
    samples = {
        trial.variant: len(trial.timing.samples)
        for trial in sweep._measure(problem, "add", "cpu").trials
    }
    assert samples == {"serial": 1, "openmp": sweep.ROUNDS, "simd": sweep.ROUNDS}


# --- reports


@needs_sim
def test_the_table_marks_the_best_and_the_default():
    (size,) = measured("reduce", 4096)
    for trial in size.trials:
        trial.timing.samples = [5e-6]
    fast = next(trial for trial in size.trials if trial.constant == "chunk_vectors")
    fast.timing.samples = [2.5e-6]
    text = "\n".join(size.lines())
    assert size.best is fast and "2.50*" in text and "[5.00]" in text
    assert "default: rung 11 single-pass: 5.00 us" in text
    assert "best:    rung 11 single-pass, chunk_vectors = 1: 2.50 us, 2.00x as fast" in text
    fast.timing.samples = [4.99e-6]
    assert "nothing is more than 1% faster" in "\n".join(size.lines())
    device = sweep.describe_device("sim")
    swept = gpuopt.Sweep(device, "reduce", "float32", [size])
    assert "chunk_vectors       16-byte vectors" in str(swept)
    assert all(line == line.rstrip() for line in str(swept).splitlines())
    told = json.loads(json.dumps(swept.to_dict()))
    assert told["sizes"][0]["trials"][0]["timing"]["samples"] == [5e-6]
    records = swept.records()
    assert [record["best"] for record in records].count(True) == 1
    assert records[0]["us"] == pytest.approx(5)


@needs_sim
def test_a_wrong_choice_is_an_error():
    class Liar(Timed):
        def run(self, **call):
            return self.bench.run(**call) + (call.get("tuning") == {"chunk_vectors": 4})

    (make,) = sweep._subjects("reduce", 4096, "float32", "sim")
    problem = make()
    problem.bench = Liar(problem.bench)
    with pytest.raises(gpuopt.VerificationError, match="chunk_vectors = 4: gave"):
        sweep._measure(problem, "reduce", "sim")


def refusing(monkeypatch, error):
    """Let every choice fail; return what calls were made."""
    make, told = sweep._subjects, []

    class Refuses:
        def __init__(self, bench):
            self.rung = bench.rung

        def run(self, **call):
            told.append(call)
            raise error

    def made(*arguments):
        (inner,) = make(*arguments)
        problem = inner()
        problem.bench = Refuses(problem.bench)
        return [lambda: problem]

    monkeypatch.setattr(sweep, "_subjects", made)
    return told


def test_problem_without_a_valid_choice_raises(monkeypatch):
    refusing(monkeypatch, ValueError("variant: too old"))
    swept = gpuopt.sweep("add", 1000, device="cpu")
    (size,) = swept.sizes
    assert size.best is size.default is None and swept.records() == []
    text = str(swept)
    assert size.title in text and "rung" in text and text.count("left out: ") == len(size.refused)
    assert len(size.refused) == 3 and "best:" not in text
    json.dumps(swept.to_dict())


def test_a_lost_device_ends_a_sweep(monkeypatch):
    told = refusing(monkeypatch, gpuopt.DeviceLost("cuda:0: restart the process"))
    with pytest.raises(gpuopt.DeviceLost, match="restart"):
        gpuopt.sweep("add", 1000, device="cpu")
    assert len(told) == 1


@pytest.mark.parametrize("device", [on("cpu", "cpu"), on("cuda", "cuda")])
@pytest.mark.parametrize("family", sweep.FAMILIES)
def test_a_device_is_swept(family, device):
    n = 1 << 10 if device == "cpu" else 1 << 16
    swept = gpuopt.sweep(family, n, device=device)
    assert swept.device.kind == device and swept.sizes
    for size in swept.sizes:
        assert size.best.seconds <= size.default.seconds and size.title in str(swept)
        assert all(trial.timing.samples for trial in size.trials)
        constants = {trial.constant for trial in size.trials} - {""}
        wanted = {row["name"] for row in _core.tunings(family)}
        assert constants == (wanted if device == "cuda" else set())


@pytest.mark.parametrize("n", [np.int64(500), np.array([500]), [np.uint8(200), 500], (500,)])
def test_any_integers_are_numbers_of_items(n):
    swept = gpuopt.sweep("add", n, device="cpu")
    assert len(swept.sizes) == np.size(n) and "500 float32" in swept.sizes[-1].title
    json.dumps(swept.to_dict())


def test_bad_arguments_name_themselves():
    with pytest.raises(ValueError, match=r"device: sim:g80 has no timer to choose by; it gives"):
        gpuopt.sweep("reduce", device="sim:g80")
    with pytest.raises(ValueError, match=r"family: 'fold' is not .* swept; use one of 'reduce'"):
        gpuopt.sweep("fold")
    with pytest.raises(TypeError, match="dtype: 'int8'"):
        gpuopt.sweep("reduce", dtype="int8", device="cpu")
    with pytest.raises(ValueError, match=r"family: \['reduce'\] is not a family that"):
        gpuopt.sweep(["reduce"])
    for n in (0, [5, -1], [1.5], True, "12", [None], np.float32(3)):
        with pytest.raises(ValueError, match="n: must be numbers of items"):
            gpuopt.sweep("reduce", n, device="cpu")


@needs_sim
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [*workloads.DTYPES, "int16", "uint64"])
def test_a_result_along_an_axis_has_all_its_bytes(dtype, axis):
    """Every dtype of the kernels is swept; bfloat16 is passed as its bits."""
    for shape in ((16, 300), (7, 5), (3, 1)):
        try:
            problem = sweep._along_axis(shape, axis, dtype, "sim")
        except (KeyError, TypeError, ValueError) as error:  # no kernel of that dtype
            assert dtype not in workloads.DTYPES, error
            pytest.skip(f"the ladder has no {dtype}")
        got = problem.bench.run()
        item = np.dtype(workloads._numpy_name(workloads.result_dtype("sum", dtype))).itemsize
        assert got.dtype != bool or dtype == "bool"
        assert got.nbytes % item == 0 and got.nbytes >= item * shape[1 - axis]
        problem.error(None, got)  # raises where the values are others


@needs_sim
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_result_of_other_items_than_the_input_has_all_its_bytes(n):
    """Positions are int64, whatever the items are: odd numbers of them are no whole complex128."""
    x = np.random.default_rng(1).integers(-99, 99, (n, 40)).astype(np.int8)
    work = axis_plan.axis_kernel("argmin", x.dtype, np.dtype(np.int64), 40)
    one = axis_plan.pass_of(work, [(n, 40, False)], (40, 1), [(1, 1, False)])
    problem = Problem(*one.kernel, (x.reshape(-1).view(work.items),), (n,), one.dtype, one.numbers)
    got = _core.Workbench(cases.with_output(problem), device="sim").run()
    assert got.nbytes == 8 * n
    assert got.view(np.int64).tolist() == x.argmin(axis=1).tolist()
