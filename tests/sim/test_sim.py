"""The simulated GPU by itself: its runner is compiled once, and every tests/ptx/*.ptx says what has to come out."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "csrc" / "sim"
PTX = [
    each for folder in ("ptx", "sim") for each in sorted((ROOT / "tests" / folder).glob("*.ptx"))
]
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def objects_of(sources, folder, *flags):
    """Compile C files, two at a time; return the objects."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")

    def compiled(source):
        target = folder / f"{source.stem}.o"
        subprocess.run(["gcc", *flags, "-c", source, "-o", target], check=True)
        return target

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compiled, sources))


def compile_runner(folder, objects, *flags):
    out, source = folder / "runner", ROOT / "tests/sim/runner.c"
    command = ["gcc", *FLAGS, *flags, source, *objects, "-o", out, "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    return out


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The simulator's objects, with the flags that gpuopt_ptx.h names."""
    flags = [*FLAGS, "-O1", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden"]
    return objects_of(sorted(SOURCES.rglob("*.c")), tmp_path_factory.mktemp("objects"), *flags)


@pytest.fixture(scope="session")
def runner(tmp_path_factory, library):
    return compile_runner(tmp_path_factory.mktemp("sim"), library)


def run(runner, path, *options):
    return subprocess.run(
        [runner, *options, path],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        errors="replace",
    )


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("path", PTX, ids=lambda p: p.stem)
def test_every_ptx_file_gives_its_expected_results(runner, path, threads):
    done = run(runner, path, "-t", threads)
    assert done.returncode == 0, done.stderr[-4000:]


def test_a_wrong_expectation_fails(runner, tmp_path):
    text = (ROOT / "tests/ptx/reduce.ptx").read_text()
    assert "expect: ho[0] 384" in text
    bad = tmp_path / "bad.ptx"
    bad.write_text(text.replace("expect: ho[0] 384", "expect: ho[0] 385"))
    assert run(runner, bad).returncode == 1


HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body, before=""):
    return f"{HEADER}{before}\n.visible .entry k()\n{{\n{body}\n}}\n"


LAUNCH = "// launch: k 1 32 0\n"

# `if (i >= 35) return;`, a branch among the others, and a barrier, as nvcc lays it out. The rest of
# the leaving lanes' code decides.
EARLY_RETURN = (
    "\t.reg .b32 %r;\n\t.reg .pred %p, %q;\n\tmov.u32 %r, %tid.x;\n\tsetp.ge.u32 %p, %r, 35;\n"
    "\t@%p bra DONE;\n\tsetp.lt.u32 %q, %r, 8;\n\t@%q bra BOTH;\n\tadd.u32 %r, %r, 1;\n"
    "BOTH:\n\tbar.sync 0;\n\tadd.u32 %r, %r, 1;\nDONE:\n"
)

# name: (text, directives). Every one is an error with a place, or runs to a defined end.
HOSTILE = {
    "constant_expression_overflow": (
        kernel("\t.reg .b64 %a;\n\tmov.u64 %a, (-9223372036854775807-1)/-1;\n\tret;"),
        LAUNCH,
    ),
    "constant_division_by_zero": (
        kernel("\t.reg .b64 %a;\n\tmov.u64 %a, 1/0;\n\tret;"),
        LAUNCH + "// fails: SYNTAX line 8, column",
    ),
    "nested_parentheses": (
        kernel("\t.reg .b64 %a;\n\tmov.u64 %a, " + "(" * 10000 + "1" + ")" * 10000 + ";\n\tret;"),
        LAUNCH + "// fails: LIMIT nests deeper",
    ),
    "nested_braces": (kernel("{" * 10000 + "}" * 10000), LAUNCH + "// fails: LIMIT nest deeper"),
    "nested_initialiser": (
        kernel("ret;", ".global .u32 g[4] = " + "{" * 10000 + "1" + "}" * 10000 + ";"),
        "// fails: LIMIT nest deeper",
    ),
    "too_many_registers": (
        kernel("\t.reg .b32 %r<4000000000>;\n\tret;"),
        LAUNCH + "// fails: LIMIT registers",
    ),
    "huge_shared": (
        kernel("\t.shared .b8 s[9223372036854775808];\n\tret;"),
        LAUNCH + "// fails: LIMIT too large",
    ),
    "huge_global": (
        kernel("ret;", ".global .b8 g[9223372036854775808];"),
        "// fails: LIMIT larger",
    ),
    "array_overflow": (
        kernel("ret;", ".global .b8 g[4294967296][4294967296];"),
        "// fails: LIMIT 2^64",
    ),
    "long_identifier": (kernel("\t.reg .b32 " + "x" * 1000000 + ";\n\tret;"), LAUNCH),
    "embedded_nul": (kernel("\tret;\x00"), LAUNCH + "// fails: SYNTAX"),
    "unterminated_comment": (kernel("\tret;") + "/* ", "// fails: SYNTAX comment"),
    "unterminated_string": (HEADER + '.file 1 "abc', "// fails: SYNTAX string"),
    "unterminated_body": (HEADER + ".visible .entry k()\n{ ret;", "// fails: SYNTAX never ends"),
    "truncated_float": (
        kernel("\t.reg .f32 %f;\n\tmov.f32 %f, 0f3F80;\n\tret;"),
        LAUNCH + "// fails: SYNTAX 8 hexadecimal",
    ),
    "huge_integer": (
        kernel("\t.reg .b64 %a;\n\tmov.u64 %a, 99999999999999999999;\n\tret;"),
        LAUNCH + "// fails: SYNTAX 64 bits",
    ),
    "endless_loop": (
        "// limit: steps 1000000\n" + kernel("L: bra L;"),
        LAUNCH + "// fails: STEPS does not end\n// finding: ENDLESS warp instructions",
    ),
    "endless_empty_loop": (
        "// limit: steps 1000000\n" + kernel("L: { bra L; }"),
        LAUNCH + "// fails: STEPS\n// finding: ENDLESS",
    ),
    "recursion": (
        HEADER
        + ".func f()\n{\n\tcall f;\n\tret;\n}\n.visible .entry k()\n{\n\tcall f;\n\tret;\n}\n",
        LAUNCH + "// finding: STACK nest",
    ),
    "barrier_16": (kernel("\tbar.sync 16;\n\tret;"), LAUNCH + "// fails: SYNTAX barrier 16"),
    "barrier_register": (
        kernel("\t.reg .b32 %r;\n\tmov.u32 %r, 77;\n\tbarrier.sync %r;\n\tret;"),
        LAUNCH + "// finding: BAD_BARRIER 77",
    ),
    "deadlock": (
        kernel(
            "\t.reg .b32 %r;\n\t.reg .pred %p;\n\tmov.u32 %r, %tid.x;\n\tsetp.lt.u32 %p, %r, 32;\n\t@%p bra A;\n\tbar.sync 1, 64;\n\tret;\nA:\n\tbar.sync 2, 64;\n\tret;"
        ),
        "// launch: k 1 64 0\n// finding: DEADLOCK barrier",
    ),
    "barrier_and_warp_sync": (
        kernel(
            "\t.reg .b32 %r;\n\t.reg .pred %p;\n\tmov.u32 %r, %tid.x;\n\tsetp.lt.u32 %p, %r, 8;\n\t@%p bra A;\n\tbar.sync 1;\n\tret;\nA:\n\tshfl.sync.idx.b32 %r, %r, 0, 31, 4294967295;\n\tret;"
        ),
        "// launch: k 2 40 0\n// finding: DIVERGENT_BARRIER\n// finding: DEADLOCK barrier 1 has",
    ),
    "early_way_out": (
        kernel(EARLY_RETURN + "\tadd.u32 %r, %r, 1;\n\tret;"),
        "// launch: k 3 64 0\n// finding: DIVERGENT_BARRIER 3 of the warp's 32\n",
    ),
    "shift_counts": (
        kernel(
            "\t.reg .b32 %r<4>;\n\tmov.u32 %r0, 4294967295;\n\tshl.b32 %r1, %r0, %r0;\n\tshr.s32 %r2, %r0, 33;\n\tret;"
        ),
        LAUNCH,
    ),
    "division_by_zero": (
        kernel(
            "\t.reg .b32 %r<4>;\n\t.reg .pred %p;\n\tmov.u32 %r0, 0;\n\tdiv.s32 %r1, %r0, %r0;\n"
            "\trem.u32 %r1, %r0, %r1;\n\trem.u32 %r1, %r1, %r0;\n\tsetp.eq.u32 %p, %r1, 0;\n"
            "\t@%p bra DONE;\nDONE:\tret;"
        ),
        LAUNCH + "// finding: DIVISION PTX",
    ),
    "unsupported": (
        kernel("\twgmma.fence.sync.aligned;\n\tret;"),
        LAUNCH + "// fails: UNSUPPORTED line 7, column 2: unsupported instruction 'wgmma",
    ),
    "unsupported_elsewhere": (
        kernel("\tret;") + ".visible .entry other()\n{\n\twgmma.fence.sync.aligned;\n\tret;\n}\n",
        LAUNCH,
    ),
    "unknown_register": (
        kernel("\tmov.u32 %r1, 5;\n\tret;"),
        LAUNCH + "// fails: SYNTAX unknown register",
    ),
    "unknown_label": (kernel("\tbra NOWHERE;\n"), LAUNCH + "// fails: SYNTAX no label"),
    "branch_index": (
        kernel(
            "\t.reg .b32 %r;\n\tmov.u32 %r, 9;\nT: .branchtargets A, B;\n\tbrx.idx %r, T;\nA:\n\tret;\nB:\n\tret;"
        ),
        LAUNCH + "// finding: BAD_CALL index 9",
    ),
    "empty": ("", "// fails: OK"),
    "only_commas": (HEADER + ",,,,", "// fails: SYNTAX"),
    "call_pointer": (
        kernel(
            "\t.reg .b64 %p;\nP: .callprototype _ ();\n\tmov.u64 %p, 0;\n\tcall %p, (), P;\n\tret;"
        ),
        LAUNCH + "// finding: BAD_CALL null pointer",
    ),
    "address_of_a_function": (
        kernel(
            "\t.reg .b64 %p;\n\t.param .b32 q;\nP: .callprototype (.param .b32 _) _ ();\n"
            "\tmov.u64 %p, f;\n\tcall (q), %p, (), P;\n\tret;",
            ".func f() { ret; }",
        ),
        LAUNCH + "// finding: BAD_CALL another type",
    ),
    "call_malloc_of_two": (
        kernel(
            "\t.param .b64 p;\n\t.param .b64 q;\n\tst.param.b64 [p], 4;\n\tcall (q), malloc, (p, p);\n\tret;",
            ".extern .func (.param .b64 r) malloc(.param .b64 n);",
        ),
        LAUNCH + "// fails: SYNTAX 'malloc' takes one argument",
    ),
    "call_without_a_body": (
        kernel("\tcall g, ();\n\tret;", ".extern .func g();"),
        LAUNCH + "// fails: UNSUPPORTED which has no body",
    ),
    "assertion_without_places": (
        kernel("\tcall __assertfail, ();\n\tret;", ".extern .func __assertfail();"),
        LAUNCH + "// fails: SYNTAX __assertfail takes",
    ),
    "assertion_of_nothing": (
        kernel(
            "\t.param .b64 p0;\n\t.param .b64 p1;\n\t.param .b32 p2;\n\t.param .b64 p3;\n\t.param .b64 p4;\n"
            "\tst.param.b64 [p0], 0;\n\tst.param.b64 [p1], -1;\n"
            "\tst.param.b32 [p2], 7;\n\tcall __assertfail, (p0, p1, p2, p3, p4);\n\tret;",
            ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);",
        ),
        LAUNCH + "// finding: ASSERT device assertion failed: , at :7",
    ),
    "call_kernel": (kernel("\tcall k;\n\tret;"), LAUNCH + "// fails: UNSUPPORTED kernel"),
    "too_much_shared": (
        kernel("\t.shared .b8 s[1000000];\n\tret;"),
        LAUNCH + "// fails: ARGUMENT shared",
    ),
    "grid_larger_than_the_gpu": (
        HEADER
        + ".global .u32 flag;\n.visible .entry k()\n{\n\t.reg .b32 %r;\n\t.reg .pred %p;\n"
        + "L:\tld.volatile.global.u32 %r, [flag];\n\tsetp.eq.u32 %p, %r, 0;\n\t@%p bra L;\n\tret;\n}\n",
        "// gpu: g80\n// launch: k 1000 256 0\n// finding: DEADLOCK 48 fit at once",
    ),
    "warp_sync_never": (
        kernel(
            "\t.reg .b32 %r;\n\t.reg .pred %p;\n\tmov.u32 %r, %tid.x;\n\tsetp.lt.u32 %p, %r, 16;\n\t@%p bra A;\n\tbar.warp.sync 4294967295;\n\tret;\nA:\n\tshfl.sync.idx.b32 %r, %r, 0, 31, 4294967295;\n\tret;"
        ),
        LAUNCH + "// finding: WARP_SYNC never come",
    ),
    "tile_sync_never": (
        kernel(
            "\t.reg .b32 %r, %m, %n;\n\t.reg .pred %p;\n\tmov.u32 %r, %tid.x;\n\tmov.u32 %n, 65535;\n\tand.b32 %m, %r, 16;\n"
            "\tshl.b32 %m, %n, %m;\n\tsetp.gt.u32 %p, %r, 24;\n\t@%p bra A;\n"
            "\tshfl.sync.idx.b32 %r, %r, 0, 31, %m;\n\tret;\nA:\n\tbar.warp.sync %m;\n\tret;"
        ),
        LAUNCH + "// finding: WARP_SYNC lanes 0x01ff0000 wait here for lanes 0xfe000000",
    ),
}


# texts that are right, and were not taken for it
RIGHT = {
    "label_after_an_inlined_place": (
        HEADER + ".visible .entry k()\n{\n\tbra $L;\n\t.loc 1 2 3, function_name $L_info+8, "
        'inlined_at 1 2 3\n$L:\n\tret;\n}\n.file 1 "a.cu"\n',
        LAUNCH,
    ),
    "early_return": (kernel(EARLY_RETURN + "\tret;"), "// launch: k 3 64 0\n"),
    "labels_one_after_another": (kernel("\tbra L2;\nL1:\nL2: L3:\n\tret;\nL4:"), LAUNCH),
}


@pytest.mark.parametrize("name", HOSTILE | RIGHT)
def test_hostile_ptx_is_an_error(runner, tmp_path, name):
    text, directives = (HOSTILE | RIGHT)[name]
    path = tmp_path / "hostile.ptx"
    # what an unterminated text would swallow comes before it
    parts = [directives, text] if name.startswith("unterminated") else [text, directives]
    path.write_bytes("\n".join(parts).encode("latin-1"))
    done = run(runner, path)
    assert done.returncode == 0, done.stderr[-4000:]


def test_every_failing_allocation_is_an_error(tmp_path):
    """Nothing crashes, leaks or goes wrong silently, whichever allocation of the library fails."""
    flags = ["-std=c11", "-O0", "-g", "-fsanitize=address"]
    wrapped = ",".join(
        f"--wrap={name}" for name in ("malloc", "calloc", "realloc", "aligned_alloc", "free")
    )
    driver = ROOT / "tests/sim/alloc_failure.c"
    objects = objects_of([driver, *sorted(SOURCES.rglob("*.c"))], tmp_path, *flags)
    program = tmp_path / "alloc_failure"
    subprocess.run(
        ["gcc", *flags, *objects, f"-Wl,{wrapped}", "-o", program, "-lm", "-lpthread"], check=True
    )
    done = subprocess.run(
        [program],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout) > 100, "hardly anything was failed"


# Every word is written, and after a barrier read by another thread and written again: the most that
# the race detector ever has to remember of a word.
MEMORY = 96 << 20
MEMORY_KERNEL = """
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<6>;
	.reg .b32 %r<12>;
	ld.param.u64 	%rd1, [p];
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r2, %ctaid.x;
	mov.u32 	%r3, %ntid.x;
	mad.lo.u32 	%r4, %r2, %r3, %r1;
	mad.wide.u32 	%rd2, %r4, 16, %rd1;
	st.global.v4.u32 [%rd2], {%r4, %r3, %r2, %r1};
	bar.sync 	0;
	xor.b32 	%r5, %r4, 33;
	mad.wide.u32 	%rd3, %r5, 16, %rd1;
	ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd3];
	bar.sync 	0;
	st.global.v4.u32 [%rd3], {%r9, %r8, %r7, %r6};
	ret;
}
"""


@pytest.mark.parametrize(
    ("options", "factor"), [(["--no-races", "--no-uninit"], 2), ([], 4)], ids=["counters", "checks"]
)
def test_memory_is_bounded(runner, tmp_path, options, factor):
    """At most twice the simulated allocations and 64 MiB; four times with all checks."""
    path = tmp_path / "memory.ptx"
    blocks = MEMORY // 16 // 256
    path.write_text(
        f"// buffer: x u32 {MEMORY // 4} none\n// launch: k {blocks} 256 0 x\n"
        f"// expect: x[132] 33 0 256 33\n{HEADER}{MEMORY_KERNEL}"
    )
    done = run(runner, path, "-v", *options)
    assert done.returncode == 0, done.stderr[-4000:]
    peak = 1024 * int(re.search(r"peak memory (\d+) kB", done.stdout)[1])
    assert MEMORY < peak <= factor * MEMORY + (64 << 20)


# Kernels of the speed bar: name, grid, block, dynamic shared bytes, arguments.
SPEED = [
    *(f"reduce_{n}_sum_int32_int32 8192 128 512 in out u64:1048576" for n in (1, 2, 3)),
    *(f"reduce_{n}_sum_int32_int32 4096 128 512 in out u64:1048576" for n in (4, 5)),
    "reduce_6_sum_int32_int32_b128 4096 128 512 in out u64:1048576",
    "reduce_7_sum_int32_int32_b128 528 128 512 in out u64:1048576",
    *(
        f"transpose_{name}_move_uint32_uint32 32,32 32,32 0 in out u64:1024 u64:1024 u64:1"
        for name in ("2d", "tex", "shared", "padded")
    ),
    "transpose_multi_move_uint32_uint32_b256 32,32 32,8 0 in out u64:1024 u64:1024 u64:1",
    *(
        f"stencil1d_{n}_sum_int32_int32 4096 256 1048 in u64:0 out"
        " u64:1048576 u64:1048576 u64:0 u64:3 u64:0 s32:0 u64:1 u64:7 u64:1048576 u64:1 u64:1"
        for n in (1, 2)
    ),
]


def fast_runner(folder):
    """Compile the runner as the extension is compiled."""
    flags = [*FLAGS, "-O3", "-ffp-contract=off"]
    return compile_runner(folder, objects_of(sorted(SOURCES.rglob("*.c")), folder, *flags))


def rates(runner, path, *options):
    """Million warp-instructions per second of one core, by kernel; the best of several runs."""
    done = run(runner, path, "-v", "-r", "3", *options)
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.findall(r":\d+ (\w+): ok\n.* ([\d.]+) M warp", done.stdout)
    return {name: float(rate) for name, rate in found}


@pytest.mark.speed
def test_speed_of_the_simulator(tmp_path):
    """`pytest -m speed -s tests/sim` prints the table: counters alone, and with all checks."""
    core = pytest.importorskip("gpuopt._core")
    runner = fast_runner(tmp_path)
    buffers = "// buffer: in s32 1048576 zero\n// buffer: out s32 1048576 zero\n"
    paths = []
    for line in SPEED:
        name = line.split()[0]
        paths.append(tmp_path / f"{name}.ptx")
        paths[-1].write_text(f"{buffers}// launch: {line}\n{core.kernel_ptx(name, 75)}")
    plain: dict[str, float] = {}
    checked: dict[str, float] = {}
    for _ in range(4):  # a disturbed run is no measurement: the best counts
        for best, options in ((plain, ("--no-races", "--no-uninit")), (checked, ())):
            for path in paths:
                for name, rate in rates(runner, path, *options).items():
                    best[name] = max(rate, best.get(name, 0))
        print("\nM warp-instructions per second and core: counters, with all checks")
        for name, rate in plain.items():
            print(f"  {name:40} {rate:6.1f} {checked[name]:6.1f}   1/{rate / checked[name]:.1f}")
        ladder = [name for name in plain if name.startswith("reduce")]
        slow = [name for name in ladder if plain[name] < 50]
        late = [name for name in plain if checked[name] * 3 < plain[name]]
        if not slow and not late:
            return
    pytest.fail(f"below 50 M: {slow}; more than 3 times slower with checks: {late}")


@pytest.mark.speed
def test_speed_of_common_kernels(tmp_path):
    """At least 30 M warp-instructions per second and core without checks, and 15 M with all."""
    runner = fast_runner(tmp_path)
    path = ROOT / "tests" / "sim" / "speed.ptx"
    plain: dict[str, float] = {}
    checked: dict[str, float] = {}
    for _ in range(4):  # a disturbed run is no measurement: the best counts
        for best, options in ((plain, ("--no-races", "--no-uninit")), (checked, ())):
            for name, rate in rates(runner, path, *options).items():
                best[name] = max(rate, best.get(name, 0))
        print("\nM warp-instructions per second and core: counters, with all checks")
        for name, rate in plain.items():
            print(f"  {name:20} {rate:6.1f} {checked[name]:6.1f}")
        slow = [name for name in plain if plain[name] < 30 or checked[name] < 15]
        if not slow:
            return
    assert len(plain) == 20
    pytest.fail(f"below 30 M, or 15 M with checks: {slow}")


def test_the_library_never_prints_or_exits():
    banned = re.compile(r"\b(exit|abort|assert|printf|fprintf|puts|perror)\(")
    for source in (path for path in SOURCES.rglob("*") if path.is_file()):
        assert not banned.search(source.read_text()), source


def test_c_entry_runs_from_a_program_without_python(library, tmp_path):
    """As gpuopt_ptx.h says, but for the library's objects, which the runner has compiled."""
    shared = tmp_path / "libgpuopt_ptx.so"
    command = ["gcc", "-shared", *library, "-o", shared, "-lm", "-pthread"]
    subprocess.run(command, check=True)
    program = tmp_path / "program"
    subprocess.run(
        ["gcc", f"-I{SOURCES}", str(ROOT / "tests/sim/ptx_run.c"), f"-L{tmp_path}",
         "-lgpuopt_ptx", f"-Wl,-rpath,{tmp_path}", "-o", str(program)],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run(["nm", "-D", "--defined-only", shared], capture_output=True, text=True)
    assert {line.split()[-1] for line in shown.stdout.splitlines()} == {
        "gpuopt_ptx_run",
        "gpuopt_ptx_counter_name",
    }
