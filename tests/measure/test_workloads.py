"""The works of a benchmark: their titles and bars, their data, and the check of a result."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import on

from gpuopt.families import oracle, registry
from gpuopt.measure import bench, peer_libraries, workloads
from gpuopt.util import parts

QUICK = workloads.works("cpu", quick=True)
TINY = list(
    {work.title: work for each in QUICK for work in [each.shrunk(1 << 13, 1 << 17)]}.values()
)
FLOAT32 = [each for each in TINY if each.dtype == "float32"]
MANY = ("axis", "layout")


def of(works, *groups):
    return [each for each in works if each.group in groups]


def title(work):
    return work.title


# --- works


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("quick", [False, True])
def test_works_have_titles_of_their_own_and_every_group_and_dtype(kind, quick):
    works = workloads.works(kind, quick=quick)
    assert len({each.title for each in works}) == len(works)
    assert {each.group for each in works} == set(workloads.GROUPS) - (
        {"host"} if kind == "cpu" else set()
    )
    assert {each.dtype for each in of(works, "axis")} == set(workloads.DTYPES)
    limit = workloads.BYTES_MOST[kind, quick]
    assert all(each.input_bytes <= limit for each in works)
    assert all(each.touched >= each.input_bytes for each in works)


def test_on_a_gpu_the_works_are_those_that_the_bars_name():
    works = workloads.works("cuda", quick=False)
    titles = [each.title for each in works]
    for wanted in ("sum of 2^30 float32", "argmax along axis 0 of (16777216, 3) int8",
                   "sum along axis 1 of (8192, 8192) bfloat16, [:, ::3]",
                   "transpose of 16384 x 16384 float32", "transpose of 5000 x 7001 float32",
                   "permute (2, 0, 1) of (256, 1024, 1024) float32",
                   "stencil of radius 64 on 2^28 float32", "matrix product of 8192 x 8192 float32",
                   "sum of 2^10 float32, as a number",
                   "sum of 2^28 float32, as a number, from the host"):  # fmt: skip
        assert wanted in titles


def test_every_bar_belongs_to_a_work():
    unused = list(workloads.BARS)
    for kind in ("cpu", "cuda"):
        for work in workloads.works(kind, quick=False):
            for bar in workloads.bars(work.title, kind, "NVIDIA H200", work.touched):
                if bar in unused:
                    unused.remove(bar)
    assert not unused, unused


def test_bars_depend_on_device_size_and_work():
    def told(*arguments):
        return [str(each) for each in workloads.bars(*arguments)]

    axis = "sum along axis 0 of (8192, 8192) float32"
    assert told(axis, "cuda", "NVIDIA H200", 1 << 28) == ["4,100 GB/s", "0.97x PyTorch/CuPy"]
    assert told(axis, "cuda", "NVIDIA H200", 1 << 27) == ["0.97x PyTorch/CuPy"]
    assert told(axis, "cuda", "NVIDIA A100", 1 << 28) == ["0.97x PyTorch/CuPy"]
    assert told(axis, "cpu", "AMD", 1 << 28) == []
    other = "max along axis 1 of (3, 16777216) float64"
    assert told(other, "cuda", "NVIDIA H200", 3 << 27)[0] == "3,000 GB/s"
    assert told("sum of 2^25 float32", "cpu", "AMD", 1 << 27) == ["1.9x NumPy"]


def test_shrinking_halves_the_longest_axis():
    work = workloads.Workload("axis", peer_libraries.Task("reduce", axis=0), ((3, 1 << 20),))
    assert work.shrunk(3 << 12, 1).shapes == ((3, 1 << 10),)
    square = workloads.Workload("transpose", peer_libraries.Task("transpose"), ((512, 512),))
    assert square.shrunk(512 * 256 * 4, 1).shapes == ((256, 512),)
    product = workloads.Workload("matmul", peer_libraries.Task("matmul"), ((512, 512),) * 2)
    small = product.shrunk(1 << 30, 2 * 128**3)
    assert small.shapes == ((128, 128),) * 2 and small.flops == 2 * 128**3


def test_words_choose_works():
    works = workloads.works("cpu", quick=True)
    chosen = bench._chosen(works, ["axis float16 sum"])
    assert chosen and all(each.dtype == "float16" and each.group == "axis" for each in chosen)
    assert all(each.task.op == "sum" for each in chosen)
    assert bench._chosen(works, ["sum"]) == of(works, "sum")
    assert bench._chosen(works, [works[7].title]) == [works[7]]
    assert bench._chosen(works, None) == works
    both = bench._chosen(works, ["call", "sum", "call"])
    assert both == of(works, "sum") + of(works, "call"), "in their own order, once"


# --- correct and wrong results


def answer(work, arguments):
    """Return NumPy's answer."""
    task = work.task
    if task.family == "reduce":
        (view,) = task.viewed(arguments)
        wide = {"dtype": np.float64} if task.op == "sum" and view.dtype.kind in "fV" else {}
        found = getattr(np, task.op)(view, axis=task.axis, **wide)
        return np.asarray(found).astype(workloads.numpy_dtype(task.dtype))
    if task.family == "stencil1d":
        return np.convolve(arguments[0].astype("f8"), np.ones(2 * task.radius + 1), "same").astype(
            "f4"
        )
    return np.asarray(peer_libraries._like_numpy(np, task)(*arguments))


SOME = [each for each in TINY if each.group not in MANY]
SOME += [each for each in TINY if each.group in MANY][::7]


@pytest.mark.parametrize("work", SOME, ids=title)
def test_check_accepts_only_correct_results(work):
    if work.dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    arguments = workloads.draw(work)
    check = workloads.check_of(work, arguments)
    right = answer(work, arguments)
    assert check(right, True) == check(right, False) == ""
    wrong = right.copy().reshape(-1)
    at = wrong.size // 2
    if right.dtype.kind == "b":
        wrong[at] = not wrong[at]
    else:
        wrong[at] = wrong[at] ^ 1 if wrong.dtype.kind in "iu" else wrong[at] + 8 + abs(wrong[at])
    if work.task.op == "argmax":
        wrong[at] = 0 if right.reshape(-1)[at] else 1
    for strict in (True, False):
        told = check(wrong.reshape(right.shape), strict)
        if work.dtype == "bool" and work.task.op == "argmax" and not strict:
            continue  # another true element may be there
        assert told, f"strict={strict}"
    if right.dtype.kind in "f" and work.task.op != "argmax":
        wrong = right.copy()
        wrong[...] = np.nan
        assert check(wrong, True) and check(wrong, False)
    assert check(right.reshape(-1)[:-1], True), "a shape that is not the result's"


LARGE = {  # each of several parts
    "transpose": (peer_libraries.Task("transpose"), ((701, 900),), "float32"),
    "transpose, wide": (
        peer_libraries.Task("transpose", dtype="complex128"),
        ((600, 513),),
        "complex128",
    ),
    "permute": (peer_libraries.Task("transpose", axes=(2, 0, 1)), ((6, 300, 400),), "float32"),
    "stencil": (peer_libraries.Task("stencil1d", radius=16), ((700_001,),), "float32"),
    "x + y": (peer_libraries.Task("add"), ((700_001,),) * 2, "float32"),
    "a * x + y": (peer_libraries.Task("saxpy"), ((700_001,),) * 2, "float32"),
    "matmul": (peer_libraries.Task("matmul"), ((640, 640),) * 2, "float32"),
    "sum": (peer_libraries.Task("reduce"), ((700_001,),), "float32"),
    "sums": (peer_libraries.Task("reduce", axis=1), ((350_001, 2),), "float32"),
    "int sums": (peer_libraries.Task("reduce", dtype="int64", axis=1), ((350_001, 2),), "int8"),
    "max": (peer_libraries.Task("reduce", "max", "float16", 1), ((350_001, 2),), "float16"),
    "argmax": (peer_libraries.Task("reduce", "argmax", "int64", 0), ((2, 350_001),), "float32"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_one_wrong_element_anywhere_is_found(kind):
    task, shapes, dtype = LARGE[kind]
    work = workloads.Workload("", task, shapes, dtype)
    arguments = workloads.draw(work)
    right, check = answer(work, arguments), workloads.check_of(work, arguments)
    assert check(right, True) == check(right, False) == ""
    part, last = parts.PART, right.size - 1
    places = {0, 1, 255, 256, part - 1, part, part + 1, 2 * part, right.size // 2, last - 1, last}
    for at in sorted(place for place in places if 0 <= place <= last):
        bad = [1 - right.flat[at]] if task.op == "argmax" else [right.flat[at] + 2]
        bad += [np.nan] if right.dtype.kind == "f" else []
        for value in bad:
            wrong = right.copy()
            wrong.flat[at] = value
            told = check(wrong, True), check(wrong, False)
            # Rounding is allowed for in a sum of many: a little one passes for others'.
            assert told[0] and (told[1] or kind == "sum"), f"item {at}: {told}"
            if right.size > 1 and task.family not in ("transpose", "matmul"):
                assert told[0].startswith(f"1 wrong items, the first of them number {at:,}: ")


def test_a_row_of_a_product_is_held_to_its_own_rounding(monkeypatch):
    """An error that the product with a vector of signs allows for, in a row that is looked at."""
    monkeypatch.setattr(oracle, "WHOLE_PRODUCT", 0)
    work = workloads.Workload("", peer_libraries.Task("matmul"), ((64, 64),) * 2)
    a, b = arguments = workloads.draw(work)
    right, check = a @ b, workloads.check_of(work, arguments)
    assert check(right, True) == ""
    found = 0
    for row in range(64):
        wrong = right.copy()
        wrong[row, 5] += 500 * np.finfo(np.float32).eps
        found += bool(check(wrong, True))
    assert 0 < found <= oracle.CHECKED_ROWS


@pytest.mark.parametrize("seed", range(20))
def test_a_wide_product_of_few_terms_passes_its_check(seed):
    """The check's own sums of 15,511 elements round more than the product does."""
    rng = np.random.default_rng(seed)
    a = oracle.draw(46, np.dtype("f8"), rng).reshape(23, 2)
    b = oracle.draw(31_022, np.dtype("f8"), rng).reshape(2, 15_511)
    check, right = oracle.product(a, b), a @ b
    assert check(right) == ""
    right[7, 15_000] += 1e-8
    assert "wrong items" in check(right)


@pytest.mark.parametrize("name", (*workloads.DTYPES, "complex128"))
def test_random_data_does_not_depend_on_earlier_draws(name, monkeypatch):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(oracle, "TILE", 1009)
    few, many = (
        workloads.Workload("", peer_libraries.Task("reduce"), ((n,),), name) for n in (600, 5000)
    )
    workloads.forget()
    (first,) = workloads.draw(few)
    (items,) = workloads.draw(many)
    assert items.tobytes() == np.resize(items[:1009], 5000).tobytes()
    assert len(np.unique(items[:1009].view(np.uint8))) > 1
    (again,) = workloads.draw(few)
    assert np.shares_memory(again, items), "what is there is not drawn again"
    assert first.tobytes() == again.tobytes() == items[:600].tobytes()


def test_ties_of_other_libraries_are_right():
    work = workloads.Workload(
        "axis", peer_libraries.Task("reduce", "argmax", "int64", 0), ((4,),), "int8"
    )
    check = workloads._check_places(np.array([1, 7, 7, 3], np.int8), 0, "argmax")
    assert check(np.asarray(2), False) == "" and check(np.asarray(2), True)
    assert check(np.asarray(3), False) and check(np.asarray(9), False)
    assert work.title == "argmax along axis 0 of 2^2 int8"


def test_own_results_have_a_tighter_bound():
    work = workloads.Workload("sum", peer_libraries.Task("reduce"), ((1 << 12,),))
    (x,) = arguments = workloads.draw(work)
    check = workloads.check_of(work, arguments)
    exact = x.sum(dtype=np.float64)
    near = np.asarray(np.float32(exact + 1e-4))
    assert check(near, True) and check(near, False) == ""


# --- ours


@pytest.mark.parametrize("work", [*of(FLOAT32, *MANY)[::9], *of(TINY, "sum", "transpose",
                         "stencil", "matmul", "vector", "call")], ids=title)  # fmt: skip
@pytest.mark.parametrize("device", [on("cpu", "cpu"), on("sim", "sim"), on("cuda", "cuda")])
def test_own_output_is_correct_in_first_and_later_runs(work, device):
    if device == "sim" and work.task.views:
        pytest.skip("the CUDA array interface is a GPU's")
    arguments = workloads.draw(work)
    ours = bench._ours(work, arguments, bench.describe_device(device))
    got = ours.run()
    assert got.dtype.name == work.task.dtype
    assert workloads.check_of(work, arguments)(got, True) == ""
    assert workloads.check_of(work, arguments)(ours.run(), True) == "", "once more"
    assert ours.time(2, False) > 0 and ours.time(2, True) > 0


@pytest.mark.parametrize("device", [on("cpu", "cpu"), on("sim", "sim"), on("cuda", "cuda")])
def test_a_result_that_is_not_written_is_found(device, monkeypatch):
    """A call that leaves `out` as it was must not pass on what a call before it wrote."""
    work = next(each for each in FLOAT32 if each.group == "transpose")
    arguments = workloads.draw(work)
    check = workloads.check_of(work, arguments)
    ours = bench._ours(work, arguments, bench.describe_device(device))
    assert check(ours.run(), True) == ""
    monkeypatch.setattr(registry, "transpose", lambda a, out=None, device=None: out)
    got = ours.run()
    assert check(got, True) and set(got.tobytes()) == {0xFF}, "each run begins with poison"


# --- arguments that works share


def test_works_share_arguments_that_are_the_same():
    host = workloads.Workload(
        "host", peer_libraries.Task("reduce", as_number=True, from_host=True), ((64,),)
    )
    sum_ = workloads.Workload("sum", peer_libraries.Task("reduce"), ((64,),))
    assert sum_.has_arguments_of(replace(sum_, task=replace(sum_.task, op="max", axis=0)))
    for other in (host, replace(sum_, shapes=((32, 2),)), replace(sum_, dtype="int32")):
        assert not sum_.has_arguments_of(other)
    add = workloads.Workload("vector", peer_libraries.Task("add"), ((64,),) * 2)
    assert not add.has_arguments_of(replace(add, task=peer_libraries.Task("saxpy"))), (
        "it has a factor"
    )
