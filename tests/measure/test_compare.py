"""References of known devices, and the comparison of two files of results."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpuopt
from gpuopt.measure import compare, ladder, reference_times


@pytest.fixture(autouse=True)
def small_copy(monkeypatch):
    monkeypatch.setitem(ladder.COPY_BYTES, "cpu", 1 << 20)


@pytest.fixture
def reference(tmp_path, monkeypatch, timed):
    monkeypatch.setattr(reference_times, "FOLDER", tmp_path)
    reference_times._known.cache_clear()
    name = reference_times.file_name(timed.device.description)
    told = {"kind": "reference", "roofline": {}, "ladders": [timed.to_dict()]}
    (tmp_path / name).write_text(json.dumps(told))
    yield tmp_path / name
    reference_times._known.cache_clear()


def test_a_rung_without_a_reference_has_no_share_of_it(timed):
    mine = gpuopt.Ladder.from_dict(timed.to_dict())
    mine.rows[0].reference = (1e-5, mine.rows[0].cold.median)
    table = str(mine)
    lines = table.splitlines()
    heads = next(at for at, line in enumerate(lines) if "of ref." in line)
    end = lines[heads].index("of ref.") + len("of ref.")
    rows = lines[heads + 1 : heads + 1 + len(mine.rows)]
    assert [line[end - 9 : end].strip() for line in rows] == ["100%"] + [""] * (len(rows) - 1)


def test_a_known_device_has_a_reference(reference, timed):
    mine = gpuopt.Ladder.from_dict(timed.to_dict())
    for row in mine.rows:
        row.cold = ladder.Timing([each * 2 for each in row.cold.samples])
    reference_times.compare_with(mine)
    assert [row.reference for row in mine.rows] == [
        (row.warm.median, row.cold.median) for row in timed.rows
    ]
    assert "of ref." in str(mine) and " 50%" in str(mine)
    assert gpuopt.Ladder.from_dict(mine.to_dict()).rows[0].reference == mine.rows[0].reference
    other = gpuopt.Ladder.from_dict(timed.to_dict())
    other.n += 1
    reference_times.compare_with(other)
    assert all(row.reference is None for row in other.rows) and "of ref." not in str(other)


def test_reference_files_are_named_by_device():
    assert reference_times.file_name("NVIDIA H200") == "nvidia-h200.json"
    assert (
        reference_times.file_name("NVIDIA GeForce RTX 4090 (x)") == "nvidia-geforce-rtx-4090-x.json"
    )


def test_shipped_references_can_be_read():
    for path in reference_times.FOLDER.glob("*.json"):
        found = compare.load(path)
        assert len(found.roofs) == 1 and found.ladders
        assert path.name == reference_times.file_name(found.roofs[0].device.description)
        assert all(each.timed for each in found.ladders)


def write(path, told):
    path.write_text(json.dumps(told))
    return path


def test_compare_flags_changes_beyond_the_spread(timed, tmp_path):
    slower = gpuopt.Ladder.from_dict(timed.to_dict())
    slower.rows[0].cold = ladder.Timing([1.2 * each for each in slower.rows[0].cold.samples])
    slower.rows[1].warm = ladder.Timing([0.5 * each for each in slower.rows[1].warm.samples])
    noisy = [2e-6, 20e-6, 30e-6, 55e-6]
    slower.rows[2].warm = ladder.Timing(noisy)
    old, new = write(tmp_path / "a", timed.to_dict()), write(tmp_path / "b", [slower.to_dict()])
    found = compare.compare(old, new)
    lines = {line.split()[1]: line for line in found.sections[0].lines()[3:]}
    assert lines["interleaved"].endswith("slower") and "1.200" in lines["interleaved"]
    assert "faster" in lines["consecutive"] and "0.500" in lines["consecutive"]
    for name in ("sequential", "first-add", "cascading"):
        assert "slower" not in lines[name] and "faster" not in lines[name]
    told = json.loads(json.dumps(found.to_dict()))
    section, counters = told["sections"]
    assert counters["unit"] == "count"
    assert section["rows"]["1 interleaved"]["cold"]["verdict"] == "slower"
    assert section["rows"]["2 consecutive"]["warm"]["ratio"] == pytest.approx(0.5)
    assert section["rows"]["2 consecutive"]["warm"]["new"] == slower.rows[1].warm.median


def test_a_change_of_less_than_a_hundredth_is_none_however_small_the_spread():
    assert compare._verdict(0.008, 0.0) == compare._verdict(-0.008, 0.0) == ""
    assert compare._verdict(0.012, 0.0) == "slower" and compare._verdict(-0.012, 0.0) == "faster"


def test_compare_counts_and_ceilings(counted, tmp_path):
    roof = gpuopt.roofline("sim:h200")
    told = {"kind": "reference", "roofline": roof.to_dict(), "ladders": [counted.to_dict()]}
    text = str(compare.compare(write(tmp_path / "a", told), write(tmp_path / "b", told)))
    assert "without a change in any counter" in text and "DRAM" in text and "1.000" in text


def on_gpu(measured, name, description, factor=1.0):
    """Return a timed ladder as another GPU gives it."""
    told = measured.to_dict()
    told["device"] |= {"kind": "cuda", "name": name, "description": description}
    for row in told["rows"]:
        row["warm"] = [factor * each for each in row["warm"]]
    return told


def test_compare_tells_devices_of_a_kind_apart(timed, tmp_path):
    first, second = ("cuda:0", "NVIDIA H200"), ("cuda:1", "NVIDIA A100")
    old = write(tmp_path / "a", [on_gpu(timed, *first), on_gpu(timed, *second, 3.0)])
    new = write(tmp_path / "b", [on_gpu(timed, *second, 3.0), on_gpu(timed, *first)])
    found = compare.compare(old, new)
    sections = [each for each in found.sections if each.unit == "s"]
    assert [each.title.split(", ")[1] for each in sections] == [
        "NVIDIA A100 -> NVIDIA A100", "NVIDIA H200 -> NVIDIA H200"
    ]  # fmt: skip
    ratios = [row["warm"].ratio for each in sections for row in each.rows.values()]
    assert ratios == pytest.approx([1.0] * len(ratios))
    # One of a kind on either side is compared with it; of two, nobody knows with which.
    other = write(tmp_path / "c", on_gpu(timed, "cuda:0", "NVIDIA B200", 0.5))
    alone = write(tmp_path / "d", on_gpu(timed, *first))
    section = compare.compare(alone, other).sections[0]
    assert section.title.endswith("NVIDIA H200 -> NVIDIA B200")
    for pair in ((old, other), (other, old)):
        with pytest.raises(ValueError, match="no measurement of the same work"):
            compare.compare(*pair)


def test_compare_tells_rooflines_of_a_kind_apart(tmp_path):
    fermi, hopper = (gpuopt.roofline(f"sim:{name}").to_dict() for name in ("m2090", "h200"))
    old, new = write(tmp_path / "a", [fermi, hopper]), write(tmp_path / "b", [hopper, fermi])
    sections = compare.compare(old, new).sections
    assert len(sections) == 2
    assert all(
        change.ratio == 1
        for each in sections
        for row in each.rows.values()
        for change in row.values()
    )


def edit(told, *path, value):
    """Change a value deep in what a file tells."""
    *way, last = path
    inner = told
    for key in way:
        inner = inner[key]
    inner[last] = value
    return told


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("rows", 0, "warm"), [0.0, 1e-6]),
        (("rows", 0, "cold"), [-1e-6]),
        (("rows", 0, "warm"), ["1e-6"]),
        (("rows", 0, "warm"), [float("nan")]),
        (("rows", 0, "warm"), [10**400]),
        (("rows", 0, "warm"), 3),
        (("rows", 0, "algorithm_bytes"), "many"),
        (("rows", 0, "rung", "name"), 7),
        (("rows", 0, "counted", "launches", 0, "counters", "warp_instructions"), "many"),
        (("rows", 0, "counted", "launches", 0, "counters", "warp_instructions"), -1),
        (("rows", 0, "counted", "launches", 0, "occupancy"), "full"),
        (("peers", 0, "warm", "samples"), [0]),
        (("peers", 0, "name"), None),
        (("device", "description"), 5),
        (("device",), "cuda:0"),
        (("copy_bandwidth",), "fast"),
        (("copy_bandwidth",), float("inf")),
        (("n",), 1.5),
        (("title",), ["sum"]),
        (("rows",), None),
    ],
)
def test_edited_files_are_refused_by_name(path, value, timed, tmp_path):
    good = write(tmp_path / "good.json", timed.to_dict())
    told = json.loads(json.dumps(timed.to_dict()))
    bad = write(tmp_path / "bad.json", edit(told, *path, value=value))
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(ValueError, match=r"bad\.json: is not a gpuopt result file"):
            compare.compare(*pair)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("ceilings", 0, "rate"), 0.0),
        (("ceilings", 0, "rate"), "4 TB/s"),
        (("ceilings", 0, "spread"), None),
        (("ceilings", 0, "name"), 3),
        (("ceilings",), 3),
        (("device",), []),
        (("quick",), "no"),
    ],
)
def test_edited_rooflines_are_refused_by_name(path, value, tmp_path):
    told = gpuopt.roofline("sim:h200").to_dict()
    bad = write(tmp_path / "bad.json", edit(told, *path, value=value))
    with pytest.raises(ValueError, match=r"bad\.json: is not a gpuopt result file"):
        compare.compare(bad, bad)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"kind": "reference"}', "\0"])
def test_compare_refuses_other_files(text, tmp_path, timed):
    other = tmp_path / "other.json"
    other.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json"):
        compare.compare(write(tmp_path / "a", timed.to_dict()), other)


def test_compare_refuses_disjoint_results(timed, tmp_path):
    other = gpuopt.Ladder.from_dict(timed.to_dict())
    other.n += 1
    with pytest.raises(ValueError, match="no measurement of the same work"):
        compare.compare(
            write(tmp_path / "a", timed.to_dict()), write(tmp_path / "b", other.to_dict())
        )


# --- profiles, kernels, and Nsight Compute's reports

ROWS = """__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * n];
}"""


def test_two_profiles_are_compared_by_kernel_and_line():
    x = np.arange(4096, dtype=np.int32)
    second, third = (gpuopt.profile(gpuopt.reduce, x, variant=each) for each in (2, 3))
    found = gpuopt.compare(second, third)
    rows = found.sections[0].rows.values()
    changes = [row["bank_conflicts"] for row in rows if "bank_conflicts" in row]
    difference = third.difference(second)
    assert sum(each.new - each.old for each in changes) == difference["bank_conflicts"] < 0
    assert {each.verdict for each in changes} <= {"fewer", ""}
    more = gpuopt.profile(gpuopt.reduce, np.arange(8192, dtype=np.int32), variant=2)
    lines = gpuopt.compare(second, more).sections[1]
    assert "lines" in lines.title and len(lines.rows) > 2
    assert all(".cu:" in each or ".cuh:" in each for each in lines.rows)
    assert "bank conflicts" in str(found)


def test_profiles_in_files_and_in_memory_agree(tmp_path):
    x = np.arange(4096, dtype=np.int32)
    second, third = (gpuopt.profile(gpuopt.reduce, x, variant=each) for each in (2, 3))
    path = tmp_path / "second.json"
    path.write_text(json.dumps(second.to_dict()))
    assert gpuopt.compare(path, third).sections == gpuopt.compare(second, third).sections


def test_two_kernels_run_on_copies_of_the_same_arguments(nvrtc):
    far = gpuopt.compile(ROWS, device="sim:t4")["k"]
    near = gpuopt.compile(ROWS.replace("i * n", "i").replace("k(", "near("), device="sim:t4")[
        "near"
    ]
    x, y = np.ones(256 * 32, np.float32), np.zeros(256, np.float32)
    found = gpuopt.compare(far, near, 1, 256, x, y, 32)
    assert (found.old, found.new) == ("k", "near")
    assert not y.any()
    change = found.sections[0].rows["k -> near"]["global_load_sectors"]
    assert (change.old, change.new, change.verdict) == (256, 32, "fewer")
    assert "kernel.cu:3" in found.sections[1].rows


def test_two_functions_are_profiled():
    x = np.arange(2048, dtype=np.int32)
    found = gpuopt.compare(lambda: gpuopt.reduce(x, variant=2), lambda: gpuopt.reduce(x, variant=3))
    assert found.verdict != "no change"


LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
RAW = f"""==PROF== Connected to process 7
"ID","Kernel Name","Block Size","CC","dram__bytes_read.sum","{LOADS}","smsp__inst_executed.sum"
"","","","","Mbyte","sector","inst"
"0","k(const float *, int)","(256, 1, 1)","9.0","1.05","1,256","2,400"
"1","k(const float *, int)","(256, 1, 1)","9.0","0.95","1,256","n/a"
"""
BY_METRIC = f""""ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","k","Command line profiler metrics","smsp__inst_executed.sum","inst","1,200"
"0","k","Command line profiler metrics","{LOADS}","sector","32"
"0","k","Launch Statistics","Registers Per Thread","register/thread","16"
"""


EXACT = {
    f"{space}_{access}_{what}"
    for space in ("global", "shared", "local")
    for access in ("load", "store")
    for what in ("requests", "sectors", "wavefronts", "conflicts")
} | {"warps", "divergent_branches"}


def test_memory_counters_equal_those_that_nsight_compute_read_from_a_gpu():
    """The file is ncu's text on transposes 1 and 5 of 256 x 256 float32, on an H100."""
    hardware = compare.load(Path(__file__).parent / "h100_transposes.csv").profiles
    x = np.ones((256, 256), np.float32)
    for variant, (name, read) in zip((1, 5), hardware.items(), strict=True):
        counted = gpuopt.profile(gpuopt.transpose, x, variant=variant)
        assert counted.launches[0].kernel == name
        for counter in read.keys() & EXACT:
            assert getattr(counted.counters, counter) == read[counter], counter
        assert len(read.keys() & EXACT) == 12


def test_raw_table_of_nsight_compute_is_read(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text(RAW)
    found = compare.load(path).profiles
    assert found == {
        "k(const float *, int)": {
            "dram_read_bytes": 2_000_000, "global_load_sectors": 2512, "warp_instructions": 2400,
        }
    }  # fmt: skip


def test_nsight_compute_against_a_profile(tmp_path, nvrtc):
    path = tmp_path / "hardware.csv"
    path.write_text(BY_METRIC)
    kernel = gpuopt.compile(ROWS, device="sim")["k"]
    x, y = np.ones(256 * 32, np.float32), np.zeros(256, np.float32)
    profile = gpuopt.profile(kernel, 1, 256, x, y, 32)
    (section,) = gpuopt.compare(path, profile).sections
    row = section.rows["k"]
    assert set(row) == {"warp_instructions", "global_load_sectors"}
    assert (row["global_load_sectors"].old, row["global_load_sectors"].new) == (32, 256)


def test_report_of_nsight_compute_by_its_own_module(tmp_path, monkeypatch):
    """ncu_report as documented: ranges of actions with metrics."""
    metric = SimpleNamespace(value=lambda: 48.0)
    action = SimpleNamespace(
        name=lambda: "k", metric_by_name=lambda name: metric if "op_ld" in name else None
    )
    range_ = SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda i: action)
    context = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda i: range_)
    module = SimpleNamespace(load_report=lambda path: context)
    monkeypatch.setitem(sys.modules, "ncu_report", module)
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"")
    assert compare.load(path).profiles["k"]["global_load_sectors"] == 48
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(ImportError, match="pip install ncu-report"):
        compare.load(path)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda path: gpuopt.compare(3, 4), TypeError, "old: must be a file, a Profile"),
        (lambda path: gpuopt.compare(path, path, 4), TypeError, "old: arguments are for kernels"),
        (lambda path: gpuopt.compare(path, path), ValueError, 'no column "Kernel Name"'),
    ],
)
def test_bad_sides_are_named(tmp_path, call, error, text):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(error, match=text):
        call(path)
