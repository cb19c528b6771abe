"""The decks' experiments: verified everywhere, counted on simulated GPUs, timed on real ones."""

import dataclasses
import doctest
import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import on

import gpuopt
from gpuopt import _core, experiments, models
from gpuopt.experiments import EXPERIMENTS, _lab
from gpuopt.experiments.register_pressure import CAPS, SPILLED
from gpuopt.families import oracle

# Where a simulated GPU needs no more than the default; the others are cut down to a second.
SMALL = {
    "ilp": {"chains": (1, 3, 8), "warps": (1, 2, 6)},
    "low_occupancy_copy": {"resident": (1, 32)},
}
ELSEWHERE = ("texture", "host_link", "overlap", "launch_overhead")  # test_experiments_host.py
HERE = [name for name in EXPERIMENTS if name not in ELSEWHERE]
ON_CUDA = pytest.mark.skipif(not gpuopt.available("cuda"), reason="needs a GPU")


def run(name, device, **more):
    """Run an experiment, with small sizes on a device that executes lane by lane."""
    small = SMALL.get(name, {}) if device.startswith("sim") else {}
    return EXPERIMENTS[name](device=device, **(small | more))


@pytest.fixture(scope="module")
def on_cuda():
    """Return an experiment's result on the GPU; each is measured once."""
    found = {}

    def get(name):
        if name not in found:
            found[name] = run(name, "cuda")
        return found[name]

    return get


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("device", [on("sim", "sim", id="sim"), on("cuda", "cuda", id="cuda")])
def test_every_experiment_runs_and_reports(name, device, on_cuda):
    found = on_cuda(name) if device == "cuda" else run(name, device)
    assert found.name == name and found.device.name.startswith(device) and found.rows
    text, page = str(found), found._repr_html_()
    assert found.device.name in text and page.count("<tr>") == 1 + len(found.rows)
    for row in found.rows:
        assert row.name in text and row.reading in text and row.reading
        assert row.share is None or 0 < row.share < 10
        assert row.deck in text
        assert all(np.isfinite(value) for value in row.values.values() if value is not None)
    shown = {column.key for column in found.columns}
    assert shown & {key for row in found.rows for key in row.values}
    back = json.loads(json.dumps(found.to_dict()))
    assert [row["name"] for row in back["rows"]] == [row.name for row in found.rows]
    assert len({row.name for row in found.rows}) == len(found.rows), "each row by its name"
    assert found[found.rows[0].name] is found.rows[0]
    with pytest.raises(KeyError, match="is not a row of"):
        found["no such row"]


def test_every_kernel_is_launched_by_its_experiment():
    kernels = {}
    for symbol, experiment, idea in _core.probes():
        assert idea.strip()
        kernels.setdefault(experiment, set()).add(symbol)
    assert set(kernels) - {""} <= set(EXPERIMENTS)  # "": of no experiment
    full = {"low_occupancy_copy": {"resident": [1]}}
    for name in HERE:
        with gpuopt.profile() as profiled:
            run(name, "sim", **full.get(name, {}))
            for chains in range(1, 9) if name == "ilp" else ():  # with and without fma
                run(name, "sim", chains=[chains], warps=[1])
        launched = {launch.kernel for launch in profiled.launches}
        # PTX has no cap to run against: those are a GPU's
        capped = {f"micro_registers_cap_{cap}" for cap in CAPS}
        own = kernels.get(name, set())  # several_gpus runs the library's
        assert own - launched == (capped if name == "register_pressure" else set()), name
    lab = _lab.Lab(gpuopt.catalog.devices.device("sim:h200"))
    for kernel in sorted(capped):
        x = np.random.default_rng(0).random(32, np.float32)
        spilled = np.empty_like(x)
        lab.module["micro_registers_spilled_8"](1, 32, x, spilled, 32, 3)
        got = np.empty_like(x)
        lab.module[kernel](1, 32, x, got, 32, 3)
        assert np.allclose(got, spilled, rtol=1e-5)


# --- the decks' numbers, on the GPUs that the decks used and on today's


@pytest.mark.parametrize("preset", ["g80", "gt200", "m2090", "k40", "h200"])
def test_coalescing_agrees_with_the_models(preset):
    found = run("coalescing", f"sim:{preset}")
    halves = 2 if models.gpu(preset).bank_lanes == 16 else 1
    for row in found.rows:
        if "mask" not in row.parameters:
            continue
        mask, stride, offset = (row.parameters[key] for key in ("mask", "stride", "offset"))
        costs = []
        for first in range(0, 3072 // stride, 32):
            k = np.arange(first, first + 32)
            words = ((k ^ mask) * stride + offset)[k < 3072 // stride]
            costs.append(models.transactions(preset, [4 * int(word) for word in words]))
        assert row.values["transactions"] * halves == pytest.approx(
            sum(cost.count for cost in costs) / len(costs)
        ), row.name
        moved = 2 * sum(cost.moved for cost in costs)
        if preset == "m2090":  # its stores move sectors, its loads lines
            assert moved / 2 < row.values["moved"] <= moved, row.name
        else:
            assert row.values["moved"] == moved, row.name


def test_coalescing_on_the_decks_gpus():
    """Compute capability 1.0: 16 transactions or 1. 1.3: what lies in a segment is free."""
    old, newer, today = (run("coalescing", f"sim:{each}") for each in ("g80", "gt200", "h200"))
    each = {row.name: row.values["transactions"] for row in old.rows}
    assert {name for name, count in each.items() if count == 1} == {
        "coalesced", "idle threads", "misaligned by 16", "float3, shared memory",
        "structure of arrays", "float", "float2",
    }  # fmt: skip
    assert each["permuted"] == each["misaligned by 1"] == each["stride 2"] == each["float3"] == 16
    assert each["float4"] == each["structures aligned to 16"] == 2
    aligned = ("array of structures", *(f"structures aligned to {k}" for k in (8, 16)))
    assert [today[name].share for name in aligned] == [1 / 4, 1 / 2, 1]
    assert [old[name].values["requests"] for name in aligned] == [192, 96, 48]
    assert newer["permuted"].values["transactions"] == 1
    assert newer["misaligned by 1"].values["transactions"] <= 2
    assert newer["float3"].share == today["float3"].share == pytest.approx(1 / 3)
    assert today["permuted"].share == today["misaligned by 8"].share == 1
    assert today["misaligned by 1"].share == pytest.approx(0.8, abs=0.01)
    assert today["stride 8"].share == today["stride 32"].share == 1 / 8
    assert old["coalesced"].deck == "356 us" and "3,494 us" in str(old)


@pytest.mark.parametrize("preset", ["g80", "m2090", "h200"])
def test_banks_agree_with_the_models(preset):
    found = run("banks", f"sim:{preset}")
    banks = models.gpu(preset).banks
    for stride in range(1, 34):
        row = found[f"stride {stride}"]
        passes = models.bank_conflicts(preset, [4 * stride * lane for lane in range(32)])
        assert row.values["wavefronts"] == row.values["requests"] * passes.passes
        assert row.parameters["ways"] == passes.ways == np.gcd(stride, banks)
        assert row.share == 1 / passes.ways
    for name in ("permuted", "broadcast", "tile column, padded"):
        assert found[name].share == 1 and found[name].values["conflicts"] == 0
    assert found["tile column"].parameters["ways"] == banks


def test_divergence_splits_lanes_and_not_warps():
    found = run("divergence", "sim")
    least = found["1 way by lane"].values["warp_instructions"]
    for ways in (2, 4, 8, 16, 32):
        row = found[f"{ways} ways by lane"]
        assert row.values["divergent"] == 16 * ways  # each of 16 warps, at each path
        assert row.values["warp_instructions"] > 0.5 * ways * least and row.share < 0.75
    for row in found.rows:
        if "by warp" in row.name:
            assert row.values["divergent"] == 0 and row.share == 1
    assert found["threadIdx.x > 2"].values["divergent"] > 0
    assert found["threadIdx.x / 32 > 2"].values["divergent"] == 0


def test_ilp_and_littles_law():
    """Deck D2 on a G80: 6 warps with one chain, or 2 warps with 3, fill the pipeline."""
    found = experiments.ilp((1, 2, 3), (2, 4, 6), device="sim:g80", steps=8)
    assert found["6 warps x 1"].share == found["2 warps x 3"].share == 1
    assert found["4 warps x 1"].share == found["2 warps x 2"].share == pytest.approx(2 / 3)
    assert "192 in flight" in found.title
    fused, plain = found["6 warps x 3"], found["6 warps x 3, no fma"]
    assert plain.share == 0.5
    assert fused.values["instructions"] == plain.values["instructions"]
    # half the operations with as many instructions; the additions at both ends are the rest
    assert 1.5 < fused.values["operations"] / plain.values["operations"] < 2
    today = experiments.ilp((1, 4), (1, 4, 16), device="sim:h200", steps=8)
    assert today["16 warps x 1"].share == today["4 warps x 4"].share == 1
    assert today["1 warp x 4"].share == 0.25, "one warp has one of four schedulers"


def test_low_occupancy_copy_has_the_decks_occupancy():
    found = run("low_occupancy_copy", "sim")
    few = found["float4 x 16, 1 block"]
    assert few.values["occupancy"] == pytest.approx(0.042, abs=0.001)
    assert few.values["in_flight"] == 2 * 32 * 16 * 16 and few.deck == "84% at 0.042"
    assert found["float x 1, 32 blocks"].values["occupancy"] == pytest.approx(1 / 3)  # 8 blocks
    assert found["float x 1, 1 block"].values["requests"] == 4 * few.values["requests"]
    assert all(row.share == 1 for row in found.rows)


def test_intrinsics_are_fewer_instructions():
    found = run("intrinsics", "sim")
    for accurate, fast in zip(found.rows[::2], found.rows[1::2], strict=True):
        assert accurate.name.endswith("accurate") and fast.name.endswith("fast")
        assert fast.values["instructions"] <= accurate.values["instructions"]
        assert accurate.values["ulp"] <= 9 and fast.values["error"] > accurate.values["error"]
    assert found["sin, fast"].share == 1 and found["sin, wide, accurate"].share < 0.5
    assert found["sqrt, accurate"].values["ulp"] <= 0.5
    assert "2 bits lost" in found["sin, fast"].reading


def test_a_double_literal_converts():
    found = run("double_literal", "sim")
    double, single = found["2.5, 64 steps"].values, found["2.5f, 64 steps"].values
    assert single["f64"] == 0 < double["f64"] and double["f32"] == 0
    assert double["convert"] > 10 * single["convert"]


def test_register_pressure_trades_occupancy_for_local_memory():
    found = run("register_pressure", "sim")
    registers = [row.values["registers"] for row in found.rows]
    occupancy = [row.values["occupancy"] for row in found.rows]
    loads = [row.values["local_loads"] for row in found.rows]
    assert registers == sorted(registers, reverse=True) and occupancy == sorted(occupancy)
    assert occupancy[-1] >= 2 * occupancy[0]
    warps, steps = 8, 4
    assert loads == [warps * (steps + 1) * k for k in SPILLED]


def test_block_sizes_and_the_decks_rules():
    found = run("block_size", "sim")
    assert found["copy, blocks of 48"].values["lanes"] == pytest.approx(0.75, abs=0.01)
    assert found["copy, blocks of 16"].values["lanes"] == pytest.approx(0.5, abs=0.01)
    assert "not a multiple of the warp" in found["copy, blocks of 48"].reading
    assert "fewer than 64" in found["copy, blocks of 32"].reading
    assert "keeps the rules" in found["copy, blocks of 128"].reading
    small, large = (found[f"copy, blocks of {block}"].values for block in (32, 512))
    assert small["occupancy"] <= 8 / 24 < large["occupancy"], (
        "8 blocks per multiprocessor, of 24 warps"
    )
    assert "no more blocks than the 16" in found["copy, 16 blocks of 256"].reading
    assert found["reduce cascading, blocks of 128"].values["barriers"] > 0


# --- what today's hardware still teaches, with wide margins


@ON_CUDA
def test_coalescing_in_time(on_cuda):
    rows = {row.name: row.values["bandwidth"] for row in on_cuda("coalescing").rows}
    assert on_cuda("coalescing")["coalesced"].share > 0.6
    assert rows["stride 32"] < rows["coalesced"] / 4
    assert rows["stride 8"] < rows["stride 2"] < rows["coalesced"]
    assert rows["permuted"] > 0.8 * rows["coalesced"], "sectors forgive an order"
    assert rows["misaligned by 1"] > 0.6 * rows["coalesced"]
    assert rows["float4"] > 0.8 * rows["float"]


@ON_CUDA
def test_bank_conflicts_in_time(on_cuda):
    rows = on_cuda("banks")
    assert rows["stride 32"].share < 1 / 8
    assert rows["stride 2"].share < 0.85
    for name in ("stride 33", "stride 31", "permuted", "broadcast", "tile column, padded"):
        assert rows[name].share > 0.8, name


@ON_CUDA
def test_divergence_in_time(on_cuda):
    rows = on_cuda("divergence")
    assert rows["32 ways by lane"].share < 1 / 8
    assert rows["2 ways by lane"].share < 0.75
    assert rows["32 ways by warp"].share > 0.4


@ON_CUDA
def test_ilp_in_time(on_cuda):
    rows = on_cuda("ilp")
    flops = {row.name: row.values["flops"] for row in rows.rows}
    assert flops["1 warp x 4"] > 2 * flops["1 warp x 1"]
    assert flops["8 warps x 1"] > 4 * flops["1 warp x 1"]
    assert max(row.share for row in rows.rows) > 0.5
    assert flops["32 warps x 8, no fma"] < 0.65 * flops["32 warps x 8"]
    assert 2 < rows["1 warp x 1"].values["cycles"] < 12


@ON_CUDA
def test_low_occupancy_copy_in_time(on_cuda):
    rows = on_cuda("low_occupancy_copy")
    band = {row.name: row.values["bandwidth"] for row in rows.rows}
    assert band["float4 x 8, 1 block"] > 4 * band["float x 1, 1 block"]
    assert rows["float4 x 4, 32 blocks"].share > 0.7
    assert rows["float4 x 16, 4 blocks"].share > 0.5, "a quarter of the occupancy and less"
    assert rows["float4 x 16, 1 block"].values["occupancy"] < 0.07


@ON_CUDA
def test_intrinsics_in_time(on_cuda):
    rows = on_cuda("intrinsics")
    for name in ("sin", "cos", "pow", "sincos"):
        accurate, fast = rows[f"{name}, accurate"], rows[f"{name}, fast"]
        assert fast.values["seconds"] < 0.8 * accurate.values["seconds"], name
        assert fast.values["ulp"] > accurate.values["ulp"], name


@ON_CUDA
def test_double_literal_in_time(on_cuda):
    rows = on_cuda("double_literal")
    assert rows["2.5, 64 steps"].values["seconds"] > 1.3 * rows["2.5f, 64 steps"].values["seconds"]


@ON_CUDA
def test_register_pressure_on_a_gpu(on_cuda):
    rows = on_cuda("register_pressure").rows
    for row, cap in zip(rows, CAPS, strict=True):
        assert row.values["registers"] <= cap
    assert rows[-1].values["local_bytes"] > rows[0].values["local_bytes"]
    assert rows[-1].values["occupancy"] > rows[0].values["occupancy"]
    assert rows[-1].values["seconds"] > rows[0].values["seconds"], "spills cost more than they give"


@ON_CUDA
def test_block_sizes_in_time(on_cuda):
    rows = on_cuda("block_size")
    few = min(row.parameters["blocks"] for row in rows.rows if row.name.startswith("copy, "))
    assert rows[f"copy, {few:,} blocks of 256"].share < 0.5 * rows["copy, blocks of 256"].share
    assert rows["copy, blocks of 16"].share < 0.8 * rows["copy, blocks of 256"].share


def test_work_is_divided_between_gpus():
    """Each GPU loads its chunk, and only the sums are copied back."""
    n = 1 << 16
    found = run("several_gpus", "sim", n=n)
    assert found.device.name == "sim:h200"
    for gpus, name in ((1, "1 GPU"), (2, "2 GPUs"), (4, "4 GPUs")):
        whole, tasks = found[f"sum, {name}"], found[f"4 tasks, {name}"]
        assert 4 * n / gpus <= whole.values["loads"] <= 1.01 * 4 * n / gpus
        assert whole.values["back"] == 8 * gpus and tasks.values["back"] == 32
        assert whole.share > 0.99 and tasks.share > 0.99
        assert 0.9 < whole.values["speedup"] <= gpus  # the start of a kernel is not divided
    assert [row.parameters["gpus"] for row in run("several_gpus", "sim", n=3).rows] == [1, 2, 1, 2]


def test_the_gpu_that_is_named_is_the_first_of_several(monkeypatch):
    asked = []

    def asarray(items, device):
        asked.append(device)
        return items

    module = sys.modules["gpuopt.experiments.several_gpus"]
    machine = dataclasses.replace(gpuopt.available("cpu"), kind="cuda", count=2, reason="2 devices")
    described = dataclasses.replace(
        gpuopt.catalog.devices.device("cpu"), name="cuda:1", kind="cuda", description="the second"
    )
    monkeypatch.setattr(module, "available", lambda kind: machine)
    monkeypatch.setattr(module._lab, "choose", lambda device, preset: described)
    monkeypatch.setattr(module, "asarray", asarray)
    monkeypatch.setattr(module, "SAMPLE_SECONDS", 1e-4)
    found = experiments.several_gpus(4096, device="cuda:1")
    assert found.device is described
    assert [row.parameters["gpus"] for row in found.rows] == [1, 2, 1, 2]
    # for the sum and for the tasks: one GPU (the table's), then two
    assert asked == ["cuda:1", "cuda:1", "cuda:0"] * 2


@ON_CUDA
def test_all_gpus_of_the_machine():
    found = experiments.several_gpus(1 << 22, device="cuda")
    assert found.rows[-1].parameters["gpus"] == gpuopt.available("cuda").count
    assert found["sum, 1 GPU"].share == 1 and all(row.values["seconds"] > 0 for row in found.rows)


# --- the table, the command line, mistakes


def test_the_table_and_the_command_line(tmp_path):
    def command(*arguments):
        line = [sys.executable, "-m", "gpuopt", "experiment", *arguments]
        return subprocess.run(line, capture_output=True, text=True, timeout=300)

    page = tmp_path / "README.md"
    page.write_text("a\n<!-- experiments: written by nobody -->\n<!-- end of experiments -->\n")
    done = command("--write-readme", str(page))
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(EXPERIMENTS)
    assert all(line in done.stdout for line in experiments.summary().values())
    assert done.stdout in page.read_text()
    done = command("double_literal", "--device", "sim:a100", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"]["name"] == "sim:a100"
    done = command("divergence", "--device", "sim")
    assert done.returncode == 0 and "on simulated GeForce 8800 GTX" in done.stdout
    done = command("alchemy")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "'alchemy' is not an experiment; use one of 'coalescing', 'banks'" in done.stderr


def test_every_experiment_has_an_example_that_runs():
    for name in ["run", "summary", *EXPERIMENTS]:
        function = getattr(experiments, name)
        found = doctest.DocTestFinder(recurse=False).find(function, name, module=False)
        runner = doctest.DocTestRunner(verbose=False)
        for test in found:
            test.globs = {"gpuopt": gpuopt, "np": np}
            failed = []
            assert runner.run(test, out=failed.append).attempted, f"{name} has no example"
            assert not failed, "".join(failed)
        for section in ("Parameters", "Returns", "Raises"):
            assert name == "summary" or f"{section}\n" in function.__doc__, (name, section)


def test_the_default_device(monkeypatch):
    monkeypatch.setenv("GPUOPT_DEVICE", "sim:t4")
    assert experiments.double_literal(32).device.name == "sim:t4"
    assert experiments.double_literal(32, device="sim:k40").device.name == "sim:k40"
    monkeypatch.delenv("GPUOPT_DEVICE")
    expected = "cuda" if gpuopt.available("cuda") else "sim:g80"
    assert _lab.choose(None, "g80").name.startswith(expected)
    assert _lab.choose("sim", "m2090").name == "sim:m2090"


@pytest.mark.parametrize("name", HERE)
def test_unsupported_devices_raise(name):
    with pytest.raises(ValueError, match=r"device: 'cpu' runs no kernels.*'sim:g80'"):
        EXPERIMENTS[name](device="cpu")
    with pytest.raises(ValueError, match="'abacus'"):
        EXPERIMENTS[name](device="abacus")


@pytest.mark.parametrize(
    ("name", "more", "error", "text"),
    [
        ("coalescing", {"n": 0}, ValueError, "n: must be at least 1, not 0"),
        ("coalescing", {"n": 2.5}, TypeError, "n: must be an int"),
        ("low_occupancy_copy", {"n": True}, TypeError, "n: must be an int"),
        ("low_occupancy_copy", {"resident": [0]}, ValueError, "resident: must be at least 1"),
        ("low_occupancy_copy", {"resident": []}, ValueError, "resident: give at least one"),
        ("block_size", {"n": -3}, ValueError, "n: must be at least 1"),
        ("banks", {"rounds": 257}, ValueError, "rounds: must be at most 256"),
        ("divergence", {"steps": "many"}, TypeError, "steps: must be an int"),
        ("ilp", {"chains": [9]}, ValueError, "chains: must be 1 to 8, not 9"),
        ("ilp", {"warps": [0]}, ValueError, "warps: must be at least 1"),
        ("ilp", {"warps": [33]}, ValueError, "warps: must be 1 to 32"),
        ("ilp", {"chains": 3}, TypeError, "chains: must be a list of ints, not 3"),
        ("ilp", {"warps": "12"}, TypeError, "warps: must be a list of ints, not '12'"),
        ("ilp", {"warps": None}, TypeError, "warps: must be a list of ints, not None"),
        ("low_occupancy_copy", {"resident": 4}, TypeError, "resident: must be a list of ints"),
        ("ilp", {"warps": []}, ValueError, "chains, warps: give at least one"),
        ("ilp", {"warps": [32]}, ValueError, "chains, warps: give at least one"),  # a G80's block
        ("intrinsics", {"steps": 0}, ValueError, "steps: must be at least 1"),
        ("register_pressure", {"n": None, "steps": 0}, ValueError, "steps: must be at least 1"),
    ],
)
def test_bad_input(name, more, error, text):
    with pytest.raises(error, match=text):
        EXPERIMENTS[name](device="sim", **more)


def test_unknown_experiment_raises():
    for name in ("alchemy", ["banks"], None):
        with pytest.raises(ValueError, match=r"name: .* is not an experiment; use one of 'coal"):
            experiments.run(name)


def test_odd_sizes():
    assert len(experiments.coalescing(1, device="sim").rows) == 22
    assert experiments.double_literal(257, device="sim").rows
    assert experiments.register_pressure(257, steps=1, device="sim").rows
    assert experiments.block_size(33, device="sim").rows
    assert experiments.intrinsics(1, steps=1, device="sim").rows
    assert experiments.ilp([2], [1], steps=1, device="sim").rows


def test_wrong_result_raises_verification_error():
    """Unwritten output is poison, and a NaN fails every check."""
    lab = _lab.Lab(gpuopt.catalog.devices.device("sim:h200"))
    data = np.ones(32, np.float32)

    def trial(threads, check):
        arguments = (data, _lab.Output(32), threads)
        return _lab.Probe("t", "micro_grid_stride", 1, 32, arguments, check)

    lab.run(trial(32, lambda got: oracle.wrong(got, data)))
    with pytest.raises(
        gpuopt.VerificationError, match=r"1 wrong items.*number 31: .*nan.* instead"
    ):
        lab.run(trial(31, lambda got: oracle.wrong(got, data, np.full(32, 1e30))))
    with pytest.raises(gpuopt.VerificationError, match="kernel micro_grid_stride gave it"):
        lab.measure([trial(32, lambda got: "it")], cold=True)
    assert oracle.wrong(np.array([np.nan]), np.array([np.nan]), 1.0)


@pytest.mark.parametrize("n", [2, 3, 1000, 4096])
def test_trees_have_the_steps_of_the_theory(n):
    found = experiments.trees(n, device="sim:g80")
    for row in found.rows[2:]:
        degree = int(row.name.split()[1])
        tree = models.tree_reduction(n, degree)
        assert row.values["launches"] == tree.steps
    one = found["one thread"].values
    assert (one["launches"], one["threads"], one["depth"]) == (1, 1, n - 1)
    with pytest.raises(ValueError, match="n: must be at least 2"):
        experiments.trees(1, device="sim")
