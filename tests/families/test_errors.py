"""Errors: the type, a message that names the argument and the fix, and no side effects."""

import contextlib
import inspect
import os
import pickle

import numpy as np
import pytest
from conftest import KINDS, device_rungs, kinds, on, run_python, rungs_of

import gpuopt

ARRAY = np.arange(10.0)
DATES = np.array(["2010-09-21"], "M8[D]")


def test_exceptions_derive_from_the_standard_ones():
    assert issubclass(gpuopt.DeviceError, RuntimeError)
    assert issubclass(gpuopt.DeviceLost, gpuopt.DeviceError)
    assert issubclass(gpuopt.DeviceMemoryError, MemoryError)
    assert issubclass(gpuopt.UnfitError, ValueError)
    for each in (
        gpuopt.DeviceError,
        gpuopt.DeviceLost,
        gpuopt.DeviceMemoryError,
        gpuopt.UnfitError,
    ):
        assert each.__module__ == "gpuopt" and each.__doc__


# --- arrays

UNSUPPORTED = {
    "object": np.array([1, None]),
    "None": None,
    "dict": {1: 2},
    "str": np.array(["a"]),
    "bytes": np.array([b"a"]),
    "a str": "abc",
    "datetime": DATES,
    "timedelta": DATES - DATES,
    "structured": np.zeros(2, [("a", "i4")]),
    "void": np.zeros(2, "V4"),
    "longdouble": np.zeros(2, np.longdouble),
    "clongdouble": np.zeros(2, np.clongdouble),
    "empty object": np.array([], object),
}
if np.dtype(np.longdouble).itemsize == 8:
    del UNSUPPORTED["longdouble"], UNSUPPORTED["clongdouble"]


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("array", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_unsupported_dtypes(device, array):
    for variant in (None, rungs_of(device)[0].variant):
        with pytest.raises(TypeError, match=r"^array: dtype .* is not supported; use .*float64"):
            gpuopt.reduce(array, variant=variant, device=device)


@pytest.mark.parametrize("device", kinds())
def test_masked_arrays(device):
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    for each in (masked, masked[1:2], masked.reshape(3, 1), np.ma.masked):
        with pytest.raises(TypeError, match=r"^array: masked .*compressed\(\)"):
            gpuopt.reduce(each, device=device)


@pytest.mark.parametrize("device, rung", device_rungs())
def test_dtype_without_a_kernel_raises(device, rung):
    taken = {items for op, items, _ in rung.signatures if op == "sum"}
    for dtype in ("int8", "uint16", "uint32", "float16", "complex64", "complex128"):
        if dtype in taken:
            continue
        with pytest.raises(TypeError, match=rf"^array: .*int32.* not {dtype}.*cpu"):
            gpuopt.reduce(np.ones(3, dtype), variant=rung.variant, device=device)
    for op in ("and", "or", "xor"):
        with pytest.raises(TypeError, match=rf"^array: .*int32.*op='{op}', not float64"):
            gpuopt.reduce(ARRAY, op, variant=rung.variant, device=device)


@pytest.mark.parametrize("op", ["min", "max"])
def test_complex_numbers_have_no_order_here(op):
    with pytest.raises(TypeError, match=rf"^array: .*op='{op}', not complex128"):
        gpuopt.reduce(np.ones(3, complex), op, device="cpu")


# --- op, variant, block, device, dtype, out


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("op", ["median", "", "SUM", "sum ", "add", "su", "summ"])
def test_unknown_operations(device, op):
    with pytest.raises(ValueError, match=r"^op: .*'sum', 'prod', 'min', 'max', 'and', 'or'"):
        gpuopt.reduce(ARRAY, op, device=device)


def test_a_nul_does_not_end_a_name():
    for argument, names in {
        "device": {"device": "cpu\0"},
        "variant": {"variant": "serial\0x"},
    }.items():
        with pytest.raises(ValueError, match=rf"^{argument}: .*NUL character"):
            gpuopt.reduce(ARRAY, **names)
    with pytest.raises(ValueError, match=r"^op: 'sum\\x00' is not an operation"):
        gpuopt.reduce(ARRAY, op="sum\0")
    with pytest.raises(ValueError, match="NUL character"):
        gpuopt.available("cpu\0")


@pytest.mark.parametrize("op", [None, 3, b"sum", ["sum"], np.add])
def test_operation_must_be_a_string(op):
    with pytest.raises(TypeError, match=r"^op: must be a string"):
        gpuopt.reduce(ARRAY, op, device="cpu")


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize(
    "variant", [0, 14, 99, -1, -2, 2**31, 10**30, -(10**30), "", "9", "Serial"]
)
def test_unknown_variants(device, variant):
    names = ".*".join(f"'{rung.name}'" for rung in rungs_of(device, historical=True))
    with pytest.raises(ValueError, match=rf"^variant: .* is not a rung of reduce.*use .*{names}"):
        gpuopt.reduce(ARRAY, variant=variant, device=device)
    everything = ".*".join(f"'{rung.name}'" for rung in gpuopt.rungs("reduce"))
    with pytest.raises(ValueError, match=rf"^variant: .*use one of .*{everything}"):
        gpuopt.reduce(ARRAY, variant=variant)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: gpuopt.reduce(ARRAY, "prd", device="cpu"), "prod"),
        (lambda: gpuopt.reduce(ARRAY, "argmx", axis=0), "argmax"),
        (lambda: gpuopt.reduce(ARRAY, variant="sequental"), "sequential"),
        (lambda: gpuopt.reduce(ARRAY, device="sim:fermi2090"), "sim:m2090"),
        (lambda: gpuopt.reduce(ARRAY, device="h200"), "sim:h200"),
        (lambda: gpuopt.reduce(ARRAY, device="cudda"), "cuda"),
        (lambda: gpuopt.rungs("trnaspose"), "transpose"),
        (lambda: gpuopt.stencil1d(ARRAY, 1, mode="miror"), "mirror"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(call, meant):
    with pytest.raises(ValueError, match=rf"; did you mean '{meant}'\?$"):
        call()


def test_a_name_like_no_other_gets_no_suggestion():
    for call in (
        lambda: gpuopt.reduce(ARRAY, "zzz", device="cpu"),
        lambda: gpuopt.reduce(ARRAY, variant=99),
        lambda: gpuopt.reduce(ARRAY, device="cpu:7"),
    ):
        with pytest.raises(ValueError, match="use") as raised:
            call()
        assert "did you mean" not in str(raised.value)


def test_a_rung_of_another_device():
    with pytest.raises(ValueError, match=r"^variant: 7 .*on cpu; use .*'serial', 'openmp'"):
        gpuopt.reduce(ARRAY, variant=7, device="cpu")
    with pytest.raises(ValueError, match=r"^variant: 'serial' .*on cuda; use .*'cascading'"):
        gpuopt.reduce(ARRAY, variant="serial", device="cuda")


@pytest.mark.parametrize("variant", [1.0, [1], b"serial", object(), np.float32(7), 1j])
def test_a_variant_of_a_wrong_type(variant):
    with pytest.raises(TypeError, match=r"^variant: must be a rung's number or name"):
        gpuopt.reduce(ARRAY, variant=variant, device="cpu")


@pytest.mark.parametrize("device, rung", device_rungs())
def test_block_sizes_out_of_range_are_refused(device, rung):
    for block in (0, 1, 16, 31, 33, 100, 129, 1025, 2048, -128, 2**32 + 128, 2**40, 10**30):
        with pytest.raises(ValueError, match=r"^block: "):
            gpuopt.reduce(ARRAY, variant=rung.variant, block=block, device=device)
    if rung.host:
        with pytest.raises(ValueError, match=rf"^block: rung '{rung.name}' .*leave it out"):
            gpuopt.reduce(ARRAY, variant=rung.variant, block=128, device=device)
        return
    sizes = [
        size for size in map((2).__pow__, range(11)) if rung.block_min <= size <= rung.block_max
    ]
    wanted = rf"^block: 100 .*'{rung.name}'; use one of {', '.join(map(str, sizes))}"
    with pytest.raises(ValueError, match=wanted):
        gpuopt.reduce(ARRAY, variant=rung.variant, block=100, device=device)
    for block in (128.0, "128", [128]):
        with pytest.raises(TypeError, match=r"^block: must be an integer"):
            gpuopt.reduce(ARRAY, variant=rung.variant, block=block, device=device)
    gpuopt.reduce(ARRAY, variant=rung.variant, block=np.uint16(sizes[-1]), device=device)


WRONG_DEVICES = [
    "gpu",
    "CPU",
    "cpu ",
    "cpux",
    "cpu:1",
    "cpu:-1",
    "cpu:x",
    "cpu:00x",
    ":0",
    "cud",
]


@pytest.mark.parametrize("device", WRONG_DEVICES, ids=repr)
def test_unknown_devices(device):
    with pytest.raises(ValueError, match=r"^device: .*is not a device; use .*cpu"):
        gpuopt.reduce(ARRAY, device=device)


@pytest.mark.parametrize("device", [3, b"cpu", {"cpu"}, object()])
def test_device_must_be_a_string(device):
    with pytest.raises(TypeError, match=r"^device: must be a string"):
        gpuopt.reduce(ARRAY, device=device)


def test_gpuopt_device(monkeypatch):
    monkeypatch.setenv("GPUOPT_DEVICE", "toaster")
    with pytest.raises(ValueError, match=r"^GPUOPT_DEVICE: 'toaster' is not a device; use .*'cpu'"):
        gpuopt.reduce(ARRAY)
    assert gpuopt.reduce(ARRAY, device="cpu") == 45  # the argument comes first
    monkeypatch.setenv("GPUOPT_DEVICE", "cpu")
    assert gpuopt.reduce(ARRAY) == 45
    with pytest.raises(ValueError, match=r"^variant: 7 is not a rung of reduce on cpu"):
        gpuopt.reduce(ARRAY, variant=7)
    monkeypatch.setenv("GPUOPT_DEVICE", "")
    assert gpuopt.reduce(np.ones(3, np.int8)) == 3
    if KINDS["cuda"]:
        monkeypatch.setenv("GPUOPT_DEVICE", "cuda")
        with pytest.raises(gpuopt.DeviceError, match="device='cpu'"):
            gpuopt.reduce(ARRAY)


@pytest.mark.parametrize("device", [on("cuda", "cuda", id="cuda")])
def test_missing_gpu_raises(device):
    count = gpuopt.available("cuda").count
    for number in (count, count + 1, 10**6, 2**32):
        with pytest.raises(ValueError, match=rf"^device: 'cuda:{number}' .*'cuda:{count - 1}'"):
            gpuopt.reduce(ARRAY, device=f"cuda:{number}")
    assert gpuopt.reduce(ARRAY, device=f"cuda:{count - 1}") == 45


@pytest.mark.parametrize(
    "dtype", [object, "U3", "S3", "M8[s]", "m8[s]", "V4", [("a", "i4")], np.longdouble], ids=str
)
def test_unsupported_result_dtypes(dtype):
    with pytest.raises(TypeError, match=r"^dtype: .* is not supported; use bool.*complex128"):
        gpuopt.reduce(ARRAY, dtype=dtype, device="cpu")


def test_invalid_dtype_raises():
    for dtype in ("nope", 3, object()):
        with pytest.raises(TypeError):
            np.dtype(dtype)
        with pytest.raises(TypeError):
            gpuopt.reduce(ARRAY, dtype=dtype, device="cpu")


@pytest.mark.parametrize("device", kinds())
def test_wrong_outs(device):
    fixed = np.zeros(())
    fixed.flags.writeable = False
    for out, error, text in (
        ([1], TypeError, "out: .*ArrayType"),
        (3.0, TypeError, "out: .*ArrayType"),
        (np.float64(3), TypeError, "out: .*ArrayType"),
        ((np.zeros(()),), TypeError, "out: .*ArrayType"),
        (np.zeros(1), ValueError, r"out: has shape \(1,\), but the result has \(\)"),
        (np.zeros((1, 1)), ValueError, r"out: has shape \(1, 1\)"),
        (np.zeros(0), ValueError, r"out: has shape \(0,\)"),
        (fixed, ValueError, "out: .*read-only"),
        (np.array(None), TypeError, "out: dtype object is not supported"),
        (np.array("abc"), TypeError, "out: dtype .*U3 is not supported"),
        (np.zeros((), "M8[s]"), TypeError, "out: dtype datetime.* is not supported"),
        (np.zeros((), [("a", "i4")]), TypeError, "out: dtype .* is not supported"),
    ):
        before = repr(out)
        with pytest.raises(error, match="^" + text):
            gpuopt.reduce(ARRAY, out=out, device=device)
        assert repr(out) == before
    out = np.array(5)
    with pytest.raises(TypeError, match=r"^out: cannot cast .*float64 to int64 .*same_kind"):
        gpuopt.reduce(ARRAY, dtype=np.float64, out=out, device=device)
    assert out == 5


# --- calls


def test_the_signature():
    with pytest.raises(TypeError, match="array"):
        gpuopt.reduce()
    with pytest.raises(TypeError, match="positional"):
        gpuopt.reduce(ARRAY, "sum", 7)
    with pytest.raises(TypeError, match="axes"):
        gpuopt.reduce(ARRAY, axes=0)
    assert "unknown" not in inspect.signature(gpuopt.reduce).parameters
    assert gpuopt.reduce(array=ARRAY, op="max", variant=None, dtype=None, out=None, block=None) == 9


NAMED = [
    each
    for owner in (gpuopt, gpuopt.models, gpuopt.experiments)
    for name in sorted(getattr(owner, "__all__", vars(owner)))
    if inspect.isroutine(each := getattr(owner, name))
    and each.__module__.startswith("gpuopt") and not name.startswith("_")
    and any(len(word) > 3 for word in inspect.signature(each).parameters)
    and name not in ("load_ipython_extension", "whole", "unknown_name")
]  # fmt: skip


@pytest.mark.parametrize("each", NAMED, ids=lambda each: each.__name__)
def test_misspelt_keyword_gets_a_suggestion(each):
    parameters = inspect.signature(each).parameters.values()
    named = [
        word for word in parameters if word.kind not in (word.VAR_POSITIONAL, word.VAR_KEYWORD)
    ]
    name = next(word.name for word in reversed(named) if len(word.name) > 3)
    wrong = name[:2] + name[3:]
    required = [
        lambda x: x
        for word in named
        if word.default is word.empty or (word.name, each.__name__) == ("function", "profile")
    ]
    with pytest.raises(TypeError, match=f"argument {wrong!r}; did you mean {name!r}"):
        each(*required, **{wrong: None})


def test_misspelt_keyword_that_is_passed_on_gets_a_suggestion():
    ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    kernel = gpuopt.load_ptx(ptx, device="sim")["k"]
    for call in (gpuopt.profile, gpuopt.check, gpuopt.explain, gpuopt.trace, gpuopt.predict):
        with pytest.raises(TypeError, match="'shard'; did you mean 'shared'"):
            call(kernel, 1, 32, shard=4)
        with pytest.raises(TypeError, match="'devise'; did you mean 'device'"):
            call(kernel, 1, 32, devise="sim")
        call(lambda **anything: kernel(1, 32), devise="sim")
    with pytest.raises(TypeError, match="'shard'; did you mean 'shared'"):
        kernel(1, 32, shard=4)
    with pytest.raises(TypeError, match="zzz'; it accepts array, op, axis"):
        gpuopt.reduce(ARRAY, zzz=1)
    with pytest.raises(TypeError, match="vraint; did you mean 'variant'"):
        gpuopt.trace("reduce", vraint=2)
    with pytest.raises(TypeError, match="did you mean 'annotate'"):
        gpuopt.source("reduce", 2, anotate=True)


def test_available_and_rungs():
    for kind in ("tpu", "", "CPU", "cpu:0", "cpu:7"):
        with pytest.raises(ValueError, match=r"^kind: .* device"):
            gpuopt.available(kind)
    for family in ("nope", "", "Reduce"):
        with pytest.raises(ValueError, match=r"^family: .*'reduce', .*'roofline'"):
            gpuopt.rungs(family)
    for wrong in (3, None, b"cpu"):
        with pytest.raises(TypeError, match="must be a string"):
            gpuopt.available(wrong)
        with pytest.raises(TypeError, match=r"^family: must be a string"):
            gpuopt.rungs(wrong)
    found = gpuopt.available("cpu")
    assert found and found.count == 1 and found.kind == "cpu" and found.reason == "1 device"


@pytest.mark.parametrize("device, rung", device_rungs())
def test_min_and_max_of_empty_array_raise(device, rung):
    for op, ufunc in (("min", "minimum"), ("max", "maximum")):
        with pytest.raises(
            ValueError, match=f"zero-size array to reduction operation {ufunc}.*initial"
        ):
            gpuopt.reduce([], op, variant=rung.variant, device=device)
    with pytest.raises(ValueError, match=r"zero-size array to reduction operation add"):
        gpuopt.reduce([], initial=None, variant=rung.variant, device=device)


@pytest.mark.parametrize("device", kinds())
def test_an_empty_array_is_checked_like_any_other(device):
    """An error does not depend on the number of elements."""
    empty = np.empty(0)
    for arguments, error in (
        ({"op": "nope"}, ValueError),
        ({"op": "and"}, TypeError),
        ({"variant": 99}, ValueError),
        ({"block": 100}, ValueError),
        ({"dtype": object}, TypeError),
        ({"out": np.zeros(1)}, ValueError),
    ):
        with pytest.raises(error):
            gpuopt.reduce(empty, device=device, **arguments)


@pytest.mark.parametrize("device", kinds())
def test_a_failed_call_changes_nothing(device):
    """`out` keeps its value, and the next call works."""
    rung = rungs_of(device)[0]
    for array, arguments in (
        (ARRAY, {"op": "nope"}),
        (ARRAY, {"op": "xor"}),
        (ARRAY, {"variant": 99}),
        (ARRAY, {"variant": rung.variant, "block": 100}),
        (ARRAY, {"device": "nope"}),
        (ARRAY, {"dtype": "nope"}),
        (ARRAY, {"dtype": complex}),
        (ARRAY, {"initial": "x"}),
        (ARRAY, {"initial": object()}),
        (ARRAY[:0], {"op": "max"}),
        (ARRAY[:0], {"initial": "x"}),
        (np.array([None]), {}),
        (["a"], {}),
        ([[1], [1, 2]], {}),
    ):
        out = np.array(7.5)
        with pytest.raises((TypeError, ValueError)):
            gpuopt.reduce(array, **{"out": out, "device": device, **arguments})
        assert out == 7.5 and out.dtype == np.float64
        assert gpuopt.reduce(ARRAY, out=out, device=device) == 45
        assert gpuopt.reduce(ARRAY[::-2], "prod", device=device) == 945


def test_the_cpu_out_of_memory():
    """If the room to read a strided array does not fit, DeviceMemoryError reports the sizes."""
    run_python(
        """
        import resource
        import numpy as np, gpuopt
        array = np.broadcast_to(np.float64(1), 2**40)  # a sum per 2**16: 128 MB
        out, small = np.array(7.0), np.ones(2000)[::2]
        gpuopt.reduce(small, device="cpu")
        pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages + (4 << 20), limits[1]))
        try:
            gpuopt.reduce(array, variant="serial", out=out, device="cpu")
        except gpuopt.DeviceMemoryError as error:
            assert error.bytes_asked >= 2**22, error.bytes_asked
            assert error.bytes_free > 0, error.bytes_free
            assert "cpu" in str(error), error
        else:
            raise AssertionError("there was enough memory")
        assert out == 7
        assert gpuopt.reduce(small, device="cpu") == 1000
        resource.setrlimit(resource.RLIMIT_AS, limits)
        assert gpuopt.reduce(array[: 2**23], out=out, device="cpu") == 2**23
        """
    )


def test_numpys_error_state_is_unchanged():
    """NumPy's error state and warning filters survive a call, failed or not."""
    before = np.geterr()
    with contextlib.suppress(ValueError):
        gpuopt.reduce(ARRAY, "nope", device="cpu")
    gpuopt.reduce(ARRAY[::2], dtype=np.float32, device="cpu")
    assert np.geterr() == before
    assert os.environ.get("GPUOPT_DEVICE") is None


# --- a table of errors in one argument

BYTES = np.array([1, 2], np.uint8)
NO_ROWS = np.zeros((0, 3))


def of_device(array):
    return gpuopt.asarray(array, "sim")


class Interface:
    def __init__(self, told):
        self.__cuda_array_interface__ = told


WRONG = {
    "a dtype of no bytes": (TypeError, "dtype: .*V0", lambda: reduce(ARRAY, axis=0, dtype="V")),
    "on a device": (TypeError, "dtype: .*S0", lambda: gpuopt.reduce(of_device(ARRAY), dtype="S")),
    "no dtype": (TypeError, "dtype: 'abc' is not a dtype", lambda: reduce(ARRAY, dtype="abc")),
    "items of no bytes": (TypeError, "array: dtype", lambda: reduce(np.zeros(3, []), "any")),
    "initial too small": (
        OverflowError, "initial: ", lambda: reduce(BYTES, "max", axis=0, initial=-1)),
    "initial too large": (OverflowError, "initial: ", lambda: reduce(BYTES, "max", initial=300)),
    "initial on a device": (
        OverflowError, "initial: ", lambda: gpuopt.reduce(of_device(BYTES), "max", initial=-1)),
    "initial NaN": (ValueError, "initial: ", lambda: reduce(BYTES, axis=0, initial=np.nan)),
    "initial complex": (TypeError, "initial: ", lambda: reduce(ARRAY, axis=0, initial=1j)),
    "initial text": (ValueError, "initial: ", lambda: reduce(ARRAY, initial="abc")),
    "and of no floats": (TypeError, "array: op='and'", lambda: reduce(NO_ROWS, "and", axis=0)),
    "on a device, too": (
        TypeError, "array: op='and'", lambda: gpuopt.reduce(of_device(NO_ROWS), "and", axis=0)),
    "axis a bool": (TypeError, "axis: must be", lambda: reduce(NO_ROWS, axis=True)),
    "axes with a bool": (TypeError, "axis: must be", lambda: reduce(NO_ROWS, axis=(0, True))),
    "axes in a list": (TypeError, "axis: must be", lambda: reduce(NO_ROWS, axis=[0, 1])),
    "op in a list": (TypeError, "op: must be", lambda: reduce(ARRAY, ["sum"], axis=0)),
    "no op": (TypeError, "op: must be", lambda: reduce(ARRAY, None, axis=0)),
    "out of no dtype": (
        TypeError, "out: dtype", lambda: reduce(NO_ROWS, axis=0, out=np.zeros(3, object))),
    "out masked": (TypeError, "out: ", lambda: reduce(ARRAY, out=np.ma.array(0.0))),
    "half a character": (ValueError, "variant: ", lambda: reduce(ARRAY, variant="\ud800")),
    "ragged": (ValueError, "array: ", lambda: reduce([[1], [1, 2]])),
    "ragged matrix": (ValueError, "a: ", lambda: gpuopt.transpose([[1], [1, 2]])),
    "a name cut in a character": (
        ValueError, "device: ", lambda: gpuopt.reduce(ARRAY, device="x" + "\u00e9" * 40)),
    "a long name of a device": (
        ValueError, "device: ", lambda: gpuopt.reduce(ARRAY, device="cpu:" + "0" * 31 + "5")),
    "an interface that is a number": (
        TypeError, "array: its CUDA", lambda: gpuopt.reduce(Interface(3))),
    "an interface without data": (
        TypeError, "array: its CUDA", lambda: gpuopt.reduce(Interface({"data": None}))),
    "more bytes than there are": (
        ValueError, "shape: ", lambda: gpuopt.empty((2**40, 2**40), device="sim")),
    "more than there are, but for one of none": (
        ValueError, "shape: ", lambda: gpuopt.empty((0, 2**70), device="sim")),
    "too many axes": (ValueError, "shape: ", lambda: gpuopt.empty((1,) * 65, device="sim")),
    "a shape in letters": (TypeError, "shape: ", lambda: gpuopt.empty("3", device="sim")),
    "asarray of strings": (TypeError, "x: dtype", lambda: gpuopt.asarray(["a"], "sim")),
    "asarray of wide floats": (
        TypeError, "x: dtype", lambda: gpuopt.asarray(np.ones(2, "G"), "sim")),
    "a pickled array": (TypeError, r"call its .get\(\)", lambda: pickle.dumps(of_device(ARRAY))),
    "a rung in an array": (
        ValueError, "variant: ", lambda: gpuopt.source("reduce", np.array([1, 2]))),
    "no function": (TypeError, "function: must be callable", lambda: gpuopt.profile(3)),
    "no device that counts": (
        ValueError, "device: 'cpu'", lambda: gpuopt.check(gpuopt.reduce, ARRAY, device="cpu")),
    "no device": (TypeError, "device: must be", lambda: gpuopt.profile(device=None)),
    "nothing checked": (ValueError, "function: launched no", lambda: gpuopt.check(lambda: 1)),
    "a ladder of no items": (ValueError, "n: must be", lambda: gpuopt.ladder(n=0)),
    "of half an item": (TypeError, "n: must be", lambda: gpuopt.ladder(n=1.5)),
    "of no rounds": (ValueError, "rounds: must be", lambda: gpuopt.ladder(rounds=0)),
    "of another dtype": (
        TypeError, "dtype: saxpy does not support int32; use float32, float64",
        lambda: gpuopt.ladder("saxpy", dtype=np.int32)),
    "of another operation": (ValueError, "op: 'mean'", lambda: gpuopt.ladder(op="mean")),
    "of an operation": (
        ValueError, "op: transpose has no", lambda: gpuopt.ladder("transpose", op="max")),
    "of blocks": (ValueError, "block: matmul's", lambda: gpuopt.ladder("matmul", block=256)),
    "half a thread": (
        TypeError, "threads: must be", lambda: gpuopt.models.occupancy("m2090", 256.5)),
    "half an item": (TypeError, "n: must be", lambda: gpuopt.models.tree_reduction(2.5)),
}  # fmt: skip


def reduce(*arguments, **keywords):
    return gpuopt.reduce(*arguments, **keywords, device="cpu")


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("there", [False, True])
def test_arrays_and_strange_values_as_options_are_refused_by_name(device, there):
    if there and device == "cpu":
        pytest.skip("its arrays are on the host")
    host = np.ones((4, 4), np.float32)
    a = gpuopt.asarray(host, device) if there else host
    more = {} if there else {"device": device}
    calls = {
        gpuopt.reduce: ((a,), ("op", "axis", "keepdims", "variant", "dtype", "block", "device")),
        gpuopt.transpose: ((a,), ("axes", "variant", "block", "device")),
        gpuopt.stencil1d: (
            (a, 1), ("mode", "axis", "origin", "cval", "variant", "block", "device")),
        gpuopt.add: ((a, a), ("variant", "block", "device")),
        gpuopt.saxpy: ((2.0, a, a), ("variant", "block", "device")),
        gpuopt.matmul: ((a, a), ("variant", "device")),
    }  # fmt: skip
    strange = (host, host[:0], np.zeros((4, 4), "V3"), gpuopt.asarray(host.astype(int), "sim"),
               memoryview(host), object(), 1j, b"x")  # fmt: skip
    for function, (given, names) in calls.items():
        for name in names:
            for value in strange:
                array = isinstance(value, np.ndarray | gpuopt.DeviceArray)
                if name == "keepdims" and not array:
                    continue  # true or false
                if name == "dtype" and isinstance(value, gpuopt.DeviceArray):
                    continue  # as NumPy, by its attribute `dtype`
                out = np.full((4, 4), 7, np.float32)
                with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
                    function(*given, **{**more, name: value})
                if name != "keepdims" and not there and function is not gpuopt.reduce:
                    with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
                        function(*given, **{**more, name: value}, out=out)
                    assert (out == 7).all()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_the_argument_is_named(wrong):
    error, match, call = wrong
    with pytest.raises(error, match="^" + match if "get" not in match else match):
        call()


def test_an_interrupt_in_an_argument_is_not_lost():
    class Interrupts:
        def __index__(self):
            raise KeyboardInterrupt

    for name in ("variant", "block"):
        with pytest.raises(KeyboardInterrupt):
            gpuopt.reduce(ARRAY, **{"variant": 1, name: Interrupts()})


def test_unknown_devices_take_no_pool():
    """A pool keeps a device open between calls, and there are not many of them."""
    code = """
        import time
        import numpy as np, gpuopt
        def call_seconds():
            begin = time.perf_counter()
            for _ in range(300):
                gpuopt.reduce(items, device="cpu:0")
            return (time.perf_counter() - begin) / 300
        items = np.arange(10.0)
        for number in range(1, 50):
            try:
                gpuopt.reduce(items, device=f"cpu:{number}")
            except ValueError:
                pass
        print(min(call_seconds() for _ in range(20)) < 1e-5)
    """
    assert run_python(code).stdout == "True\n"
