"""The build of the kernels (csrc/build_kernels.py): choices, splitting, sdist, errors."""

import importlib.util
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpuopt
from gpuopt import _core

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "csrc" / "build_kernels.py"

if not FILE.exists():
    pytest.skip("needs the source tree", allow_module_level=True)


@pytest.fixture
def build(monkeypatch):
    """The module, fresh: tests replace parts of it."""
    monkeypatch.syspath_prepend(FILE.parent)
    spec = importlib.util.spec_from_file_location("build_kernels", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(folder, name, script):
    """Write an executable shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def nvcc(folder, version="13.0", rest=""):
    return program(
        folder, "nvcc",
        f'case "$1" in --version) echo "release {version}, V{version}.88";; '
        f"--list-gpu-code) echo 'sm_75 sm_90 sm_120';; *) {rest or 'exit 1'};; esac",
    )  # fmt: skip


# --- the choice of architectures


def test_native_means_the_gpus_that_nvidia_smi_lists(build, monkeypatch, tmp_path):
    program(tmp_path, "nvidia-smi", "echo 9.0; echo 8.6; echo 9.0; echo 12.0; echo 7.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for unset in (None, "", "native", "Native"):
        monkeypatch.delenv("GPUOPT_CUDA_ARCHS", raising=False)
        if unset is not None:
            monkeypatch.setenv("GPUOPT_CUDA_ARCHS", unset)
        assert build.chosen() == (("86", "90", "120"), "the GPUs present", True)


def test_native_asks_the_driver_where_nvidia_smi_fails(build, monkeypatch):
    monkeypatch.setattr(build, "capabilities_by_smi", lambda: None)
    monkeypatch.setattr(build, "capabilities_by_driver", lambda: ["100", "75"])
    assert build.native() == (("75", "100"), "the GPUs present", True)


@pytest.mark.parametrize("script", ["exit 9", "echo N/A", "echo '[Not Found]'", "true"])
def test_an_nvidia_smi_that_knows_nothing_is_no_answer(build, monkeypatch, tmp_path, script):
    program(tmp_path, "nvidia-smi", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert build.capabilities_by_smi() is None


def test_native_without_a_gpu_or_with_old_ones_is_ptx_alone(build, monkeypatch):
    monkeypatch.setattr(build, "capabilities_by_smi", lambda: ["61", "70"])
    codes, why, _ = build.native()
    assert codes == () and "61, 70" in why
    monkeypatch.setattr(build, "capabilities_by_smi", lambda: None)
    monkeypatch.setattr(build, "capabilities_by_driver", lambda: [])
    assert build.native() == ((), "no GPU found", True)


@pytest.mark.parametrize(
    ("named", "codes"),
    [
        ("all", ("75", "80", "86", "89", "90", "100", "110", "120")),
        ("none", ()),
        ("80 90", ("80", "90")),
        ("90a,75;90a", ("90a", "75")),
    ],
)
def test_named_architectures_are_taken_as_they_are(build, monkeypatch, named, codes):
    monkeypatch.setenv("GPUOPT_CUDA_ARCHS", named)
    assert build.chosen() == (codes, f"GPUOPT_CUDA_ARCHS={named}", False)


@pytest.mark.parametrize("named", ["sm_90", "9.0", "70", "hopper", "90 x", "9"])
def test_a_name_that_is_no_capability_is_refused(build, monkeypatch, named):
    monkeypatch.setenv("GPUOPT_CUDA_ARCHS", named)
    with pytest.raises(SystemExit, match=r"GPUOPT_CUDA_ARCHS: .* write for example"):
        build.chosen()


def test_each_architecture_is_assembled_from_the_nearest_front_end(build):
    fronts = {code: build.front_end(code) for code in (*build.ALL, "90a", "87")}
    assert fronts == {
        "75": "75", "80": "80", "86": "80", "87": "80", "89": "80", "90": "90", "100": "90",
        "110": "90", "120": "90", "90a": "90a",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("codes", "native", "targets"),
    [
        ((), True, (75,)),
        (("75", "89"), True, (75,)),
        (("86", "120"), True, (75, 90)),
        ((), False, (75, 90)),
        (("80",), False, (75, 90)),
    ],
)
def test_a_native_build_leaves_out_ptx_that_its_machine_cannot_use(build, codes, native, targets):
    assert build.ptx_targets(build.Choice(codes, "", native)) == targets


# --- the toolkit: every failure names the remedy


def test_a_variable_that_names_no_program_is_refused(build, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUOPT_NVCC", str(tmp_path / "none"))
    with pytest.raises(SystemExit, match=r"GPUOPT_NVCC is set, but .* correct or unset"):
        build.nvcc_here(tmp_path)


@pytest.mark.parametrize(
    ("version", "text"), [("12.8", "needs CUDA 13.0 or later"), ("", "does not tell its version")]
)
def test_an_old_or_foreign_nvcc_is_refused(build, monkeypatch, tmp_path, version, text):
    monkeypatch.setenv("GPUOPT_NVCC", str(nvcc(tmp_path / "with space", version)))
    with pytest.raises(SystemExit, match=text):
        build.toolkit(tmp_path)


def test_an_architecture_that_nvcc_lacks_is_refused(build, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUOPT_NVCC", str(nvcc(tmp_path)))
    tools = build.toolkit(tmp_path)
    build.check_codes(tools, ("75", "90"))
    with pytest.raises(SystemExit, match=r"no machine code for 999; it knows 75, 90, 120"):
        build.check_codes(tools, ("90", "999"))


def test_without_nvcc_and_index_the_remedy_is_named_and_nothing_stays(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "candidates", lambda: iter(()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SystemExit, match="set CUDA_HOME, or run") as caught:
        build.toolkit(tmp_path)
    assert "pip install nvidia-cuda-nvcc==" in str(caught.value) and not [*tmp_path.iterdir()]


def compile_with(build, monkeypatch, tmp_path, rest):
    monkeypatch.setenv("GPUOPT_NVCC", str(nvcc(tmp_path / "bin", rest=rest)))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == "g++" else None)
    folder = tmp_path / "out"
    folder.mkdir()
    compiler = build.Compiler(build.toolkit(tmp_path), folder)
    with pytest.raises(SystemExit) as caught, build.workers() as pool:
        build.texts_of(build.start_all(pool, compiler, (), ["75"]))
    assert not [*folder.iterdir()], "a failed compilation leaves nothing"
    return str(caught.value)


def test_a_host_compiler_that_is_too_new_is_explained(build, monkeypatch, tmp_path, capfd):
    message = "error: -- unsupported GNU version! gcc versions later than 15 are not supported!"
    text = compile_with(build, monkeypatch, tmp_path, f'echo "{message}" >&2; exit 1')
    assert "nvcc failed" in text and "NVCC_CCBIN=g++-15" in text
    assert capfd.readouterr().err.count(message) == 1, "one message for all files"


def test_files_that_fail_at_once_share_one_message(build, monkeypatch):
    shown = []

    def slow_print(text, **_):
        time.sleep(0.05)
        shown.append(text)

    monkeypatch.setattr(build, "print", slow_print, raising=False)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(build.show, ["the same"] * 8))
    assert shown == ["the same"]


def test_a_full_disk_is_explained(build, monkeypatch, tmp_path):
    text = compile_with(
        build, monkeypatch, tmp_path, 'echo "x.ii: No space left on device" >&2; exit 1'
    )
    assert "disk is full" in text and "TMPDIR" in text


def test_a_full_disk_is_noticed_where_no_message_names_it(build, monkeypatch):
    assert build.host_compiler_advice("Segmentation fault") == ""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    assert "disk is full" in build.host_compiler_advice("Segmentation fault")


def test_without_a_host_compiler_the_package_is_named(build, monkeypatch, tmp_path):
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs g\+\+; install it"):
        build.start_all(None, None, (), ["75"])


def test_a_result_is_made_again_only_when_its_inputs_change(build, tmp_path):
    compiler = build.Compiler(build.Toolkit(Path("nvcc"), "", (13, 0, "13.0.88")), tmp_path)
    made = []

    def make():
        made.append(1)
        (tmp_path / "x").write_text("x")

    for key, count in ((1, 1), (1, 1), (2, 2), (2, 2)):
        compiler.cached(tmp_path / "x", key, make)
        assert len(made) == count
    compiler.tools = build.Toolkit(Path("nvcc"), "", (13, 1, "13.1.1"))
    compiler.cached(tmp_path / "x", 2, make)
    assert len(made) == 3


# --- PTX, kernel by kernel

PTX = """//
// Generated by NVIDIA NVVM Compiler
.version 9.0
.target sm_75
.address_size 64

\t// .globl\tfirst
.func  (.param .b32 func_retval0) _Z4helpi
(
\t.param .b32 _Z4helpi_param_0
)
;
.extern .shared .align 16 .b8 bytes[];
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

.visible .entry first(
\t.param .u64 first_param_0
)
.maxntid 256, 1, 1
{
\t.loc\t1 10 0
\t.loc\t2 5 1, function_name $L__info_string0, inlined_at 1 10 3
\tmov.u32 \t%r1, %tid.x; // a comment
\t.loc\t3 7 1, function_name $L__info_string1, inlined_at 1 11 3
\tret;
}
\t// .globl\tsecond
.visible .entry second()
{
\t{
\tcall.uni (retval0), _Z4helpi, (param0);
\t}
\tret;
}
.func  (.param .b32 func_retval0) _Z4helpi(
\t.param .b32 _Z4helpi_param_0
)
{
\tret;
}
\t.file\t1 "/home/somebody/a copy/csrc/kernels/reduce.cu"
\t.file\t2 "/home/somebody/a copy/csrc/kernels/../kernels/common.cuh"
\t.file\t3 "/opt/cuda/bin/../targets/x86_64-linux/include/sm_30_intrinsics.hpp"
\t.section\t.debug_str
\t{
$L__info_string0:
.b8 95
\t}
"""


def split(build, ptx):
    common, kernels = build.split(ptx, "8.3")
    return common, {name: "".join(parts) for name, parts in kernels.items()}


def test_each_kernel_has_only_the_functions_it_calls(build):
    common, kernels = split(build, PTX)
    assert [*kernels] == ["first", "second"]
    assert common.startswith(".version 8.3\n.target sm_75\n.address_size 64\n")
    assert "bytes[];" in common and "table[8]" in common and "_Z4helpi" not in common
    assert "_Z4helpi" not in kernels["first"]
    assert kernels["second"].count(".func") == 2  # declared, then defined
    assert kernels["second"].index(";") < kernels["second"].index("{")


def test_a_function_that_is_defined_before_its_callers_needs_no_declaration(build):
    ptx = PTX.replace(
        ".visible .entry first(",
        ".func inner()\n{\n\tret;\n}\n.func outer()\n{\n\tcall.uni inner, ();\n\tret;\n}\n"
        ".visible .entry first(",
        1,
    ).replace("\tmov.u32 \t%r1, %tid.x;", "\tcall.uni outer, ();")
    _, kernels = split(build, ptx)
    assert kernels["first"].index(".func inner") < kernels["first"].index(".func outer")


def test_lines_and_paths_stay_relative_and_those_of_the_toolkit_go(build):
    common, kernels = split(build, PTX)
    assert re.findall(r'\.file (\d) "(.*)"', common) == [
        ("1", "csrc/kernels/reduce.cu"),
        ("2", "csrc/kernels/common.cuh"),
        ("3", "cuda/targets/include/sm_30_intrinsics.hpp"),
    ]
    assert re.findall(r"\.loc\t(.*)", kernels["first"]) == ["2 5 1"]
    assert "//" not in kernels["first"] and "info_string" not in common + kernels["first"]


def test_machine_code_is_made_from_text_without_lines_and_with_each_function_once(build):
    common, kernels = build.split(PTX, "8.3")
    text = build.module(common, [kernels["second"], kernels["first"], kernels["second"]])
    assert ".loc" not in text and ".file" not in text and "info_string0:" not in text
    assert text.startswith(common[:20]) and re.findall(r"\.entry (\w+)", text) == [
        "second",
        "first",
    ]
    assert text.count(".func") == kernels["second"][0].count(".func") + 1


def test_the_archive_holds_every_text_as_it_was(build):
    newer = PTX.replace("sm_75", "sm_90").replace("ret;", "exit;")
    texts = {("one", "75"): PTX, ("one", "90"): newer}
    packed, table = build.archive(texts)

    def text_of(row):
        block, offset, size = row
        start, count, whole = table["blocks"][block]
        text = lzma.decompress(packed[start : start + count])
        assert len(text) == whole
        return text[offset : offset + size].decode()

    kernels = {name: rows for name, _, rows in table["kernels"]}
    for target, number in ((75, 0), (90, 1)):
        common, split = build.split(texts["one", str(target)], build.PTX_TARGETS[target])
        for name, text in split.items():
            assert text_of(kernels[name][number]) == "".join(text)
        assert text_of(table["images"][0][1][number]) == common


def test_blocks_of_the_archive_are_bounded_and_keep_a_kernel_s_texts_together(build):
    archive = build.Archive()
    sizes = [100, archive.BLOCK - 100, 1, 3 * archive.BLOCK, 5]
    rows = [row for size in sizes for row in archive.add("a" * size, "b")]
    assert [row[0] for row in rows] == [0, 0, 1, 1, 1, 1, 2, 2, 3, 3]
    streams, blocks = archive.compressed(6)
    for (block, offset, size), text in zip(rows[::2], sizes, strict=True):
        start, count, _ = blocks[block]
        assert lzma.decompress(streams[start : start + count])[offset:][:size] == b"a" * text


def test_every_image_s_machine_code_is_found_in_its_stream(build, tmp_path, monkeypatch):
    fronts = ("75", "80", "90", "90a")
    texts = {("one", front): PTX.replace("sm_75", f"sm_{front}") for front in fronts}
    monkeypatch.setattr(build, "IMAGE", 1)  # a kernel each
    packed, table = build.archive(texts)
    assert [stem for stem, _ in table["images"]] == ["one", "one"]
    compiler = build.Compiler(build.Toolkit(Path("nvcc"), "", (13, 0, "13.0.88")), tmp_path)

    def assembled(command, output):
        code, text = command[1].partition("sm_")[2], command[-1].read_text()
        output.write_text(f"{code} {text.count('.entry')} {text}")

    monkeypatch.setattr(build, "run_tool", assembled)
    codes = ("75", "80", "86", "90a", "100", "110", "120")
    with build.workers() as pool:
        made = build.assemble(pool, compiler, texts, table, codes)
    assert sorted([code for number, code, _ in content if number] for content, _ in made) == [
        ["100", "110"], ["120"], ["75"], ["80", "86"], ["90a"],
    ]  # fmt: skip
    build.write_table(tmp_path, packed, table, codes, made)
    listed = (tmp_path / "images.def").read_text()
    shown = ["75, 0", "80, 0", "86, 0", "90, 1", "100, 0", "110, 0", "120, 0"]
    assert re.findall(r"CODE\((.*)\)", listed) == shown
    numbers = [[int(each) for each in re.findall(r"\d+", line)] for line in listed.split("\n")]
    lines = list(zip(listed.split("\n"), numbers, strict=True))
    blocks = [found for line, found in lines if line.startswith("BLOCK")]
    whole = (tmp_path / "kernels.xz").read_bytes()
    for image, kernel in enumerate(("first", "second")):
        row = [found for line, found in lines if line.startswith("IMAGE")][image]
        for number, code in enumerate(codes):
            block, offset, size = row[6 + 3 * number :][:3]
            start, count, content = blocks[block]
            stream = lzma.decompress(whole[start : start + count])
            assert len(stream) == content
            text = stream[offset : offset + size].decode()
            assert text.startswith(f"{code} 1 .version 8.3") and f".entry {kernel}" in text
    monkeypatch.setattr(build, "run_tool", lambda *_: pytest.fail("made again without a change"))
    with build.workers() as pool:
        assert build.assemble(pool, compiler, texts, table, codes) == made


def test_a_kernel_that_is_the_same_for_newer_gpus_is_stored_once(build):
    newer = re.sub(r"(?m)^\t\.loc.*\n", "", PTX.replace("sm_75", "sm_90")).replace(
        "\tcall.uni", "\tgriddepcontrol.wait;\n\tcall.uni"
    )
    _, table = build.archive({("one", "75"): PTX, ("one", "90"): newer})
    stored = {name: rows[1] != [0, 0, 0] for name, _, rows in table["kernels"]}
    assert stored == {"first": False, "second": True}
    without = (
        newer[: newer.index(".visible .entry first")] + newer[newer.index("\t// .globl\tsecond") :]
    )
    texts = {("one", "75"): PTX, ("one", "90"): without}
    assert build.archive(texts)[1]["kernels"] == table["kernels"]


def test_an_archive_of_one_target_serves_newer_gpus_too(build):
    packed, table = build.archive({("one", "75"): PTX})
    assert [rows[1] for _, _, rows in table["kernels"]] == [[0, 0, 0], [0, 0, 0]]
    assert table["images"][0][1][1] == [0, 0, 0] and len(packed) > 100


def test_a_kernel_for_newer_gpus_alone_is_refused(build):
    with pytest.raises(SystemExit, match="give it an older form"):
        build.archive({("one", "75"): PTX, ("one", "90"): PTX.replace("second", "third")})


def test_the_extension_holds_no_path_of_the_machine_that_built_it():
    for name in _core.kernels():
        for target in (75, 90):
            paths = re.findall(r'"(/[^"]*)"', _core.kernel_ptx(name, target))
            assert not paths, (name, target, paths)
    extension = Path(_core.__file__).read_bytes()
    if b"__asan_init" not in extension:  # sanitizers name source files
        assert os.fsencode(ROOT) not in extension


@pytest.mark.parametrize(
    ("machine", "platform", "text"),
    [
        ("aarch64", "linux-x86_64", "compiles for aarch64, but the extension is for x86_64"),
        ("x86_64", "linux-aarch64", "set _PYTHON_HOST_PLATFORM=linux-x86_64, else unset CC"),
        (None, "linux-x86_64", "does not start .* set CC to one"),
    ],
)
def test_a_compiler_that_does_not_fit_is_refused(tmp_path, machine, platform, text):
    pytest.importorskip("setuptools", minversion="77")  # pyproject.toml's
    compiler = tmp_path / "cc"
    if machine:
        program(tmp_path, "cc", f"echo {machine}-linux-gnu")
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    command += [f"--build-lib={tmp_path / 'lib'}", f"--build-temp={tmp_path / 'temp'}"]
    changed = {**os.environ, "CC": str(compiler), "_PYTHON_HOST_PLATFORM": platform}
    done = subprocess.run(command, cwd=ROOT, env=changed, capture_output=True, text=True)
    assert done.returncode == 1 and re.search(f"(?m)^gpuopt: .*{text}", done.stderr)
    assert "Traceback" not in done.stderr and not (tmp_path / "lib").exists()


# --- what an sdist carries


def carried(build, tmp_path, monkeypatch, **changes):
    monkeypatch.setattr(build, "PREBUILT", tmp_path)
    packed, table = build.archive({("one", "75"): PTX, ("one", "90"): PTX})
    fields = {
        "sources": build.source_hash(), "compiler": "nvcc 13.0.88", "table": table,
        "xz": build.hashlib.sha256(packed).hexdigest(), **changes,
    }  # fmt: skip
    (tmp_path / "kernels.xz").write_bytes(packed)
    (tmp_path / "kernels.json").write_text(json.dumps(fields))
    return packed, table


def test_carried_ptx_is_used_without_nvcc(build, tmp_path, monkeypatch):
    packed, _ = carried(build, tmp_path, monkeypatch)
    monkeypatch.setattr(build, "candidates", lambda: iter(()))
    monkeypatch.setattr(build, "fetch", lambda *_: pytest.fail("nothing is fetched"))
    for capabilities, why in (
        ([], "no GPU found"),
        (["90"], "no nvcc to make machine code for 90"),
    ):
        monkeypatch.delenv("GPUOPT_CUDA_ARCHS", raising=False)
        monkeypatch.setattr(build, "capabilities_by_smi", lambda found=capabilities: found)
        kernels = build.Build(None, tmp_path / "build")
        kernels.finish()
        images = kernels.images
        assert images.codes == () and why in images.why and "nvcc 13.0.88" in images.compiler
        assert (images.folder / "kernels.xz").read_bytes().startswith(packed)
        assert "KERNEL(first, 0, " in (images.folder / "images.def").read_text()


@pytest.mark.parametrize("changes", [{"sources": "other"}, {"xz": "other"}])
def test_a_changed_source_or_a_damaged_archive_is_not_used(build, tmp_path, monkeypatch, changes):
    carried(build, tmp_path, monkeypatch, **changes)
    assert build.prebuilt() is None


def test_the_hash_follows_every_source(build, tmp_path, monkeypatch):
    shutil.copytree(build.KERNELS, tmp_path / "kernels")
    monkeypatch.setattr(build, "KERNELS", tmp_path / "kernels")
    before = build.source_hash()
    with open(tmp_path / "kernels" / "common.cuh", "a") as file:
        file.write("// one more line\n")
    assert build.source_hash() != before


# --- setup.py


def in_setup(code, given=""):
    """Run code that may use the module `setup`, without a build."""
    stub = "import setuptools; setuptools.setup = lambda **_: None; import setup, json, os; "
    done = subprocess.run(
        [sys.executable, "-c", stub + code], input=given, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if "No module named" in done.stderr:
        pytest.skip("needs setuptools")
    return done


def test_names_with_spaces_survive_the_compilers_list():
    code = "print(json.dumps([str(p) for p in setup.listed_inputs(input())]))"
    done = in_setup(code, r"build/a.o: csrc/a.c /home/some\ body/b.h c.h")
    assert json.loads(done.stdout) == ["csrc/a.c", "/home/some body/b.h", "c.h"], done.stderr


def test_a_folder_without_write_permission_is_named_before_the_compilers_start(tmp_path):
    code = f"os.access = lambda path, mode: path != setup.Path({str(tmp_path)!r}); "
    code += f"setup.check_writable([setup.ROOT, setup.Path({str(tmp_path / 'not' / 'yet')!r})])"
    done = in_setup(code)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert f"you may not write to {tmp_path}; build in a folder of your own" in done.stderr


def test_the_configuration_says_what_was_built_and_why(capsys):
    gpuopt.show_config()
    shown = capsys.readouterr().out
    config = _core.config()
    assert config["reason"] in shown and config["kernel_compiler"] in shown
    assert (config["machine_code_bytes"] > 0) == bool(config["architectures"])
