"""gpuopt.load_ptx: launches and texts that are wrong."""

import time

import numpy as np
import pytest
from conftest import KINDS
from ptx_texts import ADD, EMPTY, HEADER, MUL, everywhere

import gpuopt
from gpuopt.ptx.entries import entries


@everywhere
def test_wrong_launches(device):
    module = gpuopt.load_ptx(ADD, device)
    kernel = module["add"]
    x = np.ones(100, np.float32)
    with pytest.raises(KeyError, match="'sub' is not a kernel of this module; it has 'add'"):
        module["sub"]
    for count in (0, 3, 5):
        with pytest.raises(
            TypeError, match=rf"add has 4 parameters \(.u64, .u64, .u64, .u32\), but {count}"
        ):
            kernel(1, 128, *[x] * count)
    for name, bad, error in (
        ("grid", 0, ValueError),
        ("grid", -1, ValueError),
        ("grid", 2**31, ValueError),
        ("grid", (1, 65536), ValueError),
        ("grid", (1, 1, 65536), ValueError),
        ("grid", (), ValueError),
        ("grid", (1, 1, 1, 1), ValueError),
        ("grid", 1.0, TypeError),
        ("grid", "1", TypeError),
        ("grid", None, TypeError),
        ("block", 0, ValueError),
        ("block", 1025, ValueError),
        ("block", (1, 1, 65), ValueError),
        ("block", (1, None), TypeError),
        ("shared", -1, ValueError),
        ("shared", 2**31, ValueError),
        ("shared", 1.0, TypeError),
    ):
        given = {"grid": 1, "block": 128, "shared": 0} | {name: bad}
        with pytest.raises(error, match=f"^{name}: "):
            kernel(given["grid"], given["block"], x, x, x, 100, shared=given["shared"])
    for block in (257, (32, 32), (16, 16, 2)):  # the kernel itself says 256 at most
        with pytest.raises(gpuopt.UnfitError, match="threads per block are more than the 256"):
            kernel(1, block, x, x, x, 100)
    with pytest.raises(ValueError, match=r"argument 4: 4294967296 does not fit into \.u32"):
        kernel(1, 128, x, x, x, 1 << 32)
    assert (x == 1).all()
    kernel(np.int64(1), (np.int8(100), 1), x, x.copy(), x, 100)
    assert (x == 2).all()


@everywhere
def test_kernel_with_reqntid_accepts_only_its_block(device):
    text = f"{HEADER}.visible .entry k() .reqntid 8, 4\n{{\n\tret;\n}}\n"
    kernel = gpuopt.load_ptx(text, device)["k"]
    kernel(1, (8, 4))
    for block in (32, (4, 8), (8, 2), (8, 4, 2)):
        with pytest.raises((ValueError, gpuopt.DeviceError)):
            kernel(1, block)


@everywhere
@pytest.mark.parametrize(
    "text, line",
    [
        (ADD.replace("mul.wide.u32", "mul.widest.u32"), MUL),
        (ADD.replace("%i0, 4;", "%nobody, 4;"), MUL),
        (ADD + "\nnonsense", 0),
        (".version 8.0\n.target sm_75\n.address_size 64\n,", 4),
        ("not PTX\nat all", 0),
    ],
    ids=["instruction", "register", "statement", "comma", "no-PTX"],
)
def test_malformed_ptx_is_refused_with_its_line(device, text, line):
    def load():
        return gpuopt.load_ptx(text, device)["add"]  # sim reads a kernel when it is asked for

    with pytest.raises(gpuopt.PTXError) as caught:
        load()
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error.line, int)
    assert isinstance(error.column, int)
    if line:
        assert error.line == line and (device == "cuda" or error.column > 0), str(error)
    x = np.ones(4, np.float32)
    gpuopt.load_ptx(ADD, device)["add"](1, 4, x, x, x, 4)
    assert (x == 2).all()


def test_texts_and_paths(tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(ADD)
    for source in (ADD, ADD.encode(), path, str(path), ADD.replace("\n", "\r\n"), ADD + "\0"):
        assert gpuopt.load_ptx(source, "sim").kernels == ["add"]
    with pytest.raises(FileNotFoundError):
        gpuopt.load_ptx(tmp_path / "none.ptx", "sim")
    with pytest.raises(FileNotFoundError):
        gpuopt.load_ptx("none.ptx", "sim")
    for bad in (None, 3, ["x"]):
        with pytest.raises(TypeError, match="text_or_path"):
            gpuopt.load_ptx(bad, "sim")
    with pytest.raises(gpuopt.PTXError, match="line 2: holds a NUL") as caught:
        gpuopt.load_ptx(b".version 8.0\n\0.target", "sim")
    assert caught.value.line == 2
    path.write_bytes(b"\x7fELF\2\1\1\0\0\0\0\1")
    with pytest.raises(gpuopt.PTXError, match="NUL"):
        gpuopt.load_ptx(path, "sim")
    text = ADD.replace("two inputs", "deux entrées").replace("[n]", "[n]ß")
    with pytest.raises(gpuopt.PTXError, match=r"line 14, column 26"):
        gpuopt.load_ptx(text, "sim")["add"]
    assert gpuopt.load_ptx(text.replace("ß", "").encode("latin-1"), "sim")["add"]


def test_cuda_source_is_distinguished_from_ptx(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text('#include <cstdint>\nextern "C" __global__ void k(float *x) { x[0] = 1; }\n')
    for given in (path, str(path), path.read_text(), path.read_bytes()):
        with pytest.raises(gpuopt.PTXError, match=r"not PTX: pass it to gpuopt.compile"):
            gpuopt.load_ptx(given, "sim")


def test_a_module_names_its_device(monkeypatch):
    assert gpuopt.load_ptx(EMPTY, "sim").device == "sim:h200"
    assert gpuopt.load_ptx(EMPTY, "sim:g80").device == "sim:g80"
    assert gpuopt.load_ptx(EMPTY).device == ("sim:h200" if KINDS["cuda"] else "cuda:0")
    with gpuopt.profile(device="sim:k40"):
        assert gpuopt.load_ptx(EMPTY).device == "sim:k40"
        assert gpuopt.load_ptx(EMPTY, "sim:a100").device == "sim:a100"
    monkeypatch.setenv("GPUOPT_DEVICE", "sim:gt200")
    assert gpuopt.load_ptx(EMPTY).device == "sim:gt200"
    monkeypatch.setenv("GPUOPT_DEVICE", "gpu")
    with pytest.raises(ValueError, match="GPUOPT_DEVICE: 'gpu' is not a device"):
        gpuopt.load_ptx(EMPTY)
    with pytest.raises(ValueError, match="'cpu' runs no PTX; use 'cuda' or 'sim'"):
        gpuopt.load_ptx(EMPTY, "cpu")
    with pytest.raises(TypeError, match="device"):
        gpuopt.load_ptx(EMPTY, 3)
    if KINDS["cuda"]:
        with pytest.raises(gpuopt.DeviceError):
            gpuopt.load_ptx(EMPTY, "cuda")


def test_too_many_threads_for_an_old_gpu():
    module = gpuopt.load_ptx(EMPTY, "sim:g80")
    module["nothing"](1, 512)
    with pytest.raises(
        gpuopt.UnfitError, match=r"a block of \(1024, 1, 1\) threads; .* allows .*\(512, 512, 64\)"
    ):
        module["nothing"](1, 1024)


HEADERS = {
    "(.param .align 16 .b8 a[2][3], .param .f64 b)": [(".b8", 6), (".f64", 8)],
    "(.param .u64 .ptr.const.align 16 a)": [(".u64", 8)],
    '(.param .b8 /* ) { */ a[0x10]) // {\n.reqntid 32 .pragma "no{"; .minnctapersm 2': [
        (".b8", 16)
    ],
    "()": [],
    "": [],
    "(.param .u32 %a,\n.param .s16 $b_1)": [(".u32", 4), (".s16", 2)],
    "(.param.u32 a, .param.align 8.b8 b[8U])": [(".u32", 4), (".b8", 8)],
}


@pytest.mark.parametrize("header", HEADERS)
def test_parameters_as_the_text_has_them(header):
    text = (
        f'{HEADER}// .entry comment()\n.file 1 "a .entry string() {{"\n.entry declared();\n'
        f".func helper() {{ .reg .b32 %r; {{ ret; }} }}\n.entry k{header} {{ {{ret;}} }}"
        f"\n.global .b32 entry[2] = {{1, 2}};\n.entry last() {{ ret; }}"
    )
    found = entries(text.encode())
    assert found == {"k": HEADERS[header], "last": []}


@pytest.mark.parametrize(
    "text",
    [
        b'"' * 3_000_000,
        b"/*" * 1_500_000,
        b"/" + b"*" * 3_000_000,
        b".entry " * 400_000,
        b'"' + b"\\a" * 1_500_000,
        b"{" * 1_500_000,
        b".entry k(" + b"/*" * 1_000_000,
        b".entry k(" + b".param .u32 x, " * 100_000,
        b".entry k(.param .u32 x" + b"[2]" * 3000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_texts_fail_quickly(text):
    start = time.perf_counter()
    try:
        entries(text)
    except gpuopt.PTXError as error:
        assert error.line and error.column and f"PTX line {error.line}" in str(error)
    assert time.perf_counter() - start < 20
    with pytest.raises((gpuopt.PTXError, KeyError)):
        gpuopt.load_ptx(HEADER + text.decode(), "sim")["k"]


@pytest.mark.parametrize("tail", ["\xef", "/* never closed", '"never closed'])
def test_a_bad_token_outside_of_kernels_ends_the_search_for_them(tail):
    text = f".version 8.0\n.target sm_80\n.address_size 64\n{tail}".encode("latin-1")
    with pytest.raises(gpuopt.PTXError):
        entries(text)
    with pytest.raises(gpuopt.PTXError):
        gpuopt.load_ptx(text, "sim")


ADDS_ONE = """.func (.param .b32 r) f(.param .b32 a) {{ .reg .b32 %v;
ld.param.u32 %v, [a]; add.u32 %v, %v, 1; {0} st.param.u32 [r], %v; ret; }}
.entry k(.param .u64 o) {{ .reg .b32 %x, %y; .reg .pred %p; .param .b32 in; .param .b32 back;
mov.u32 %x, 3; setp.eq.u32 %p, %x, 3;
{1} st.param.b32 [in], %x; call (back), f, (in); {2} ld.param.b32 %y, [back]; ret; }}"""


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (("", "", ""), None),
        (("st.param.u32 [a], %v;", "", ""), "a store to a parameter that the function receives"),
        (("ld.param.u32 %v, [r];", "", ""), "a load of a parameter that the function returns"),
        (("", "@%p", ""), "a predicate on the access to a call's parameter"),
        (("", "", "@!%p"), "a predicate on the access to a call's parameter"),
    ],
)
def test_parameters_are_used_as_ptxas_allows(parts, problem):
    text = HEADER + ADDS_ONE.format(*parts)
    module = gpuopt.load_ptx(text, "sim")
    if problem is None:
        module["k"](1, 1, 0)
        return
    with pytest.raises(gpuopt.PTXError, match=problem):
        module["k"]


@pytest.mark.parametrize("load", ["ld.param.b64 x, [b];", "ld.param.v2.b32 {y, z}, [a + 4];"])
def test_misaligned_load_of_a_parameter_is_refused(load):
    text = f"{HEADER}.visible .entry k(.param .u32 a, .param .u32 b, .param .u64 c) {{ .reg .b64 x;"
    text += f".reg .b32 y, z; {load} ret; }}"
    with pytest.raises(gpuopt.PTXError, match="a load of 8 bytes at the parameters' byte 4"):
        gpuopt.load_ptx(text, "sim")["k"]


@pytest.mark.parametrize("second", ["", "7", '"sm_90"', ",", "{", "\x00"])
def test_a_target_that_is_none_raises(second):
    text = f".version 8.0\n.target sm_75\n.target {second}"
    with pytest.raises((gpuopt.PTXError, ValueError)):
        gpuopt.load_ptx(text, "sim")


def test_the_last_target_counts():
    text = ".version 8.0\n.target sm_75\n.target sm_80\n.address_size 64\n.entry k() { ret; }"
    gpuopt.load_ptx(text, "sim:a100")["k"](1, 1)
