"""Compile csrc/kernels/*.cu into what the extension embeds; setup.py calls Build.

The result is a folder with

* kernels.xz: the kernels' PTX and their source text, and machine code for every chosen
  architecture, as xz streams of some kernels each;
* images.def: the table of all, which csrc/image.c includes.

The driver compiles the PTX on GPUs that no machine code is for, and simulated GPUs run it, with its
line numbers: that for compute_90 on GPUs of 9.0 and newer, that for compute_75 on all others. An
sdist carries kernels.xz under csrc/kernels/prebuilt, with a hash of all that it depends on; where
the hash is right, no nvcc is needed.
"""

import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from gpus_here import capabilities_by_driver, capabilities_by_smi
from split_ptx import Archive, module, split, without_lines

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
KERNELS = ROOT / "csrc" / "kernels"
PREBUILT = KERNELS / "prebuilt"

ALL = ("75", "80", "86", "89", "90", "100", "110", "120")
FRONT_ENDS = (75, 80, 90)  # compute capabilities at which the kernels' source chooses otherwise
LEAST = 75
# The PTX version that the target's kernels need. Drivers from CUDA 12.4 on read 8.4. Instructions
# need 6.5 (mma.m16n8k8) and 8.0 (mbarrier, bulk copies), and the transpose's .pragma
# "used_bytes_mask" needs 8.3.
PTX_TARGETS = {75: "8.3", 90: "8.3"}
LEAST_TOOLKIT = (13, 0)
CUDA_HEADERS = ["nvidia-cuda-runtime==13.0.96"]
CUDA_WHEELS = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    *CUDA_HEADERS,
    "nvidia-cuda-cccl==13.0.85",
]
NVCC_OPTIONS = ["-std=c++17", "-O3", "-Xcompiler=-w"]
IMAGE = 1 << 20  # bytes of PTX for 7.5 of the kernels whose machine code is one module
RUN = 4  # images of one file whose machine code is compressed together: a seventh less than alone
SMALLEST = 9 | lzma.PRESET_EXTREME
# A native build, which stays where it is, saves 10 CPU s for 0.7 MB.
PRESET, NATIVE_PRESET = SMALLEST, 2
# Instructions have 16 bytes, in which the same fields lie at the same places: 5% fewer bytes.
CODE = {"dict_size": 8 << 20, "lc": 0, "lp": 4, "pb": 4}
CODE_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": SMALLEST, **CODE}]


class Failure(SystemExit):
    """A build that cannot go on; its text is all that a person sees."""

    def __init__(self, text):
        super().__init__(f"gpuopt: {text}")


class Choice(NamedTuple):
    """The architectures to build machine code for, as in ("75", "90"), and the reason."""

    codes: tuple
    why: str
    native: bool = True


class Toolkit(NamedTuple):
    """An nvcc, how it was found, and its version as in (13, 0, "13.0.88")."""

    nvcc: Path
    how: str
    version: tuple

    @property
    def name(self):
        """Return the compiler of the kernels as users read it."""
        return f"nvcc {self.version[2]}"


class Images(NamedTuple):
    """The result of a build: its folder, the architectures built, the compiler and the reason."""

    folder: Path
    codes: tuple
    why: str
    compiler: str


def say(text):
    """Print a line of progress; pip -v shows it."""
    print(f"gpuopt: {text}", flush=True)


class timed:
    """Report a step and its seconds when it ends."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        self.begin = time.monotonic()

    def __exit__(self, kind, value, trace):
        if kind is None:
            say(f"{self.text} ({time.monotonic() - self.begin:.1f} s)")


@contextmanager
def workers():
    """Provide the pool of all compilers, a task per core at a time; an error cancels the rest."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


# --- the choice of architectures


def native():
    """Return the choice for the GPUs that are present."""
    found = capabilities_by_smi()
    if found is None:
        found = capabilities_by_driver()
    served = sorted({each for each in found if int(each) >= LEAST}, key=int)
    old = sorted({each for each in found if int(each) < LEAST}, key=int)
    if served:
        return Choice(tuple(served), "the GPUs present")
    if old:
        return Choice((), f"no GPU of compute capability {LEAST} or more, only of {', '.join(old)}")
    return Choice((), "no GPU found")


def chosen():
    """Return the choice that GPUOPT_CUDA_ARCHS names: native (unset), all, none or a list."""
    named = (os.environ.get("GPUOPT_CUDA_ARCHS") or "native").strip().lower()
    if named == "native":
        return native()
    why = f"GPUOPT_CUDA_ARCHS={named}"
    if named == "none":
        return Choice((), why, False)
    if named == "all":
        return Choice(ALL, why, False)
    codes = re.split(r"[\s,;]+", named)
    for name in codes:
        if not re.fullmatch(r"\d{2,3}[af]?", name) or int(re.match(r"\d+", name)[0]) < LEAST:
            raise Failure(
                f"GPUOPT_CUDA_ARCHS: {name!r} is not a compute capability of {LEAST} or more; "
                'write for example GPUOPT_CUDA_ARCHS="80 90", or all, native or none'
            )
    return Choice(tuple(dict.fromkeys(codes)), why, False)


def ptx_targets(choice):
    """Return the targets of the PTX: a native build leaves out what its machine cannot use.

    PTX for newer GPUs comes with the machine code for one, and wherever GPUOPT_CUDA_ARCHS says what
    to build; an sdist carries it as well.
    """
    newest = max(PTX_TARGETS)
    if choice.native and not any(front_end(code) >= str(newest) for code in choice.codes):
        return (min(PTX_TARGETS),)
    return tuple(PTX_TARGETS)


def front_end(code):
    """Return the virtual architecture from which machine code is made: one pass serves many."""
    if not code.isdigit():  # 90a has its own
        return code
    return str(max(each for each in FRONT_ENDS if each <= int(code)))


def relatives(code):
    """Return a number that is equal for architectures whose machine code is compressed together.

    Code for one major version, or for 10.0 and 11.0, differs little: the second architecture adds a
    third of its own bytes to the stream, and as little time to the decompression. Code for 12.0 has
    nothing in common with theirs.
    """
    major = int(code.rstrip("af")) // 10
    return {11: 10}.get(major, major)


# --- the toolkit


def candidates():
    """Yield (nvcc, how it was found) in order of preference."""
    if os.environ.get("GPUOPT_NVCC"):
        yield Path(os.environ["GPUOPT_NVCC"]), "GPUOPT_NVCC"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", "nvcc"), variable
    if shutil.which("nvcc"):
        yield Path(shutil.which("nvcc")), "PATH"
    for folder in sys.path:
        yield Path(folder, "nvidia", "cu13", "bin", "nvcc"), "CUDA wheels"
    yield Path("/usr/local/cuda/bin/nvcc"), "/usr/local/cuda"


def nvcc_here(build_folder):
    """Return (nvcc, how it was found), or None where there is none on this machine."""
    for nvcc, how in candidates():
        if os.access(nvcc, os.X_OK) and not nvcc.is_dir():
            return nvcc.resolve(), how
        if how == "GPUOPT_NVCC":
            raise Failure(f"{how} is set, but {nvcc} is not a program; correct or unset it")
    fetched = build_folder / "cuda-wheels" / "nvidia" / "cu13" / "bin" / "nvcc"
    return (fetched.resolve(), "CUDA wheels fetched by setup.py") if fetched.exists() else None


def fetch(wheels, folder, purpose):
    """Install wheels into a folder; a failure leaves no folder behind."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--target", str(folder), *wheels]
    # Without pip's own PYTHONPATH an isolated build finds the pip that runs it.
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with timed(f"fetched {purpose} from the package index: {len(wheels)} wheel(s)"):
        if subprocess.run(command, env=outside).returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise Failure(
                f"{purpose} is not on this machine (looked in GPUOPT_NVCC, CUDA_HOME, CUDA_PATH, "
                "PATH, CUDA wheels on sys.path, /usr/local/cuda), and the package index did not "
                "provide it. Install the CUDA toolkit 13.0 and set CUDA_HOME, or run:\n    "
                "pip install " + " ".join(wheels)
            )


def toolkit(build_folder):
    """Return the toolkit; fetch the wheels where there is none."""
    found = nvcc_here(build_folder)
    if not found:
        folder = build_folder / "cuda-wheels"
        say("no nvcc on this machine")
        fetch(CUDA_WHEELS, folder, "nvcc")
        for program in (folder / "nvidia" / "cu13" / "bin").iterdir():
            program.chmod(program.stat().st_mode | 0o111)  # pip may drop the execute bit
        found = nvcc_here(build_folder)
    nvcc, how = found
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    except OSError as error:
        raise Failure(f"{nvcc} ({how}) does not start: {error}; set GPUOPT_NVCC") from None
    version = re.search(r"release (\d+)\.(\d+), V([\d.]+)", text)
    if not version:
        raise Failure(f"{nvcc} ({how}) does not tell its version; set GPUOPT_NVCC to CUDA's nvcc")
    version = (int(version[1]), int(version[2]), version[3])
    if version[:2] < LEAST_TOOLKIT:
        raise Failure(
            f"{nvcc} ({how}) is of CUDA {version[0]}.{version[1]}; gpuopt needs CUDA "
            f"{'.'.join(map(str, LEAST_TOOLKIT))} or later. Set GPUOPT_NVCC or CUDA_HOME to one, "
            "or install the wheels: pip install " + " ".join(CUDA_WHEELS)
        )
    return Toolkit(nvcc, how, version)


def check_codes(tools, codes):
    """Fail where nvcc cannot make machine code for one of the architectures."""
    listed = subprocess.run([tools.nvcc, "--list-gpu-code"], capture_output=True, text=True).stdout
    known = set(re.findall(r"sm_(\w+)", listed))
    unknown = [code for code in codes if code.rstrip("af") not in known]
    if unknown:
        raise Failure(
            f"GPUOPT_CUDA_ARCHS: {tools.nvcc} (CUDA {tools.version[2]}) makes no machine code for "
            f"{', '.join(unknown)}; it knows {', '.join(sorted(known, key=int))}. Choose among "
            "these, or GPUOPT_CUDA_ARCHS=none: the driver then compiles the PTX"
        )


def header_folder(build_folder):
    """Return the folder of cuda.h and cudaTypedefs.h: a toolkit's, or a fetched wheel's."""
    found = nvcc_here(build_folder)
    homes = [found[0].parent.parent] if found else []
    homes += [Path(folder, "nvidia", "cu13") for folder in sys.path]
    homes.append(build_folder / "cuda-headers" / "nvidia" / "cu13")
    for _ in range(2):
        for home in homes:
            for folder in (home / "include", *sorted(home.glob("targets/*/include"))):
                if (folder / "cudaTypedefs.h").exists():
                    return folder
        fetch(CUDA_HEADERS, build_folder / "cuda-headers", "cudaTypedefs.h")
    raise Failure("no cudaTypedefs.h, not even in the wheel; install cudart's headers")


# --- compiling


def host_compiler_advice(text):
    """Return the remedy for a host compiler that nvcc does not accept, "" if that is not it."""
    if re.search(r"unsupported (GNU|clang) version|unsupported.*host compiler", text, re.I):
        newest = re.search(r"gcc versions later than (\d+)", text)
        name = f"g++-{newest[1] if newest else 14}"
        return (
            f". This nvcc accepts no host compiler as new as this one: install {name} or an older "
            f"one, and set NVCC_CCBIN={name}"
        )
    if "No space left on device" in text or shutil.disk_usage(ROOT).free < 1 << 24:
        return ". The disk is full: free some space, or set TMPDIR to another disk"
    return ""


SHOWN, SHOWING = set(), Lock()  # threads compile several files


def show(text):
    """Print a compiler's message, once if several files cause it."""
    with SHOWING:
        if text not in SHOWN:
            print(text, file=sys.stderr)
        SHOWN.add(text)


def run_tool(command, output, cwd=ROOT):
    """Run a compiler that writes one file; the file appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".part-") as part:
        made = Path(part, output.name)
        command = [str(each) for each in (*command, "-o", made)]
        try:
            done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
        except OSError as error:
            raise Failure(f"{command[0]} does not start: {error}") from None
        if done.returncode or not made.exists():
            text = (done.stdout + done.stderr).strip()
            show(text)
            name = next(Path(each).name for each in command if Path(each).name != "ccache")
            raise Failure(f"{name} failed; its message is above{host_compiler_advice(text)}")
        os.replace(made, output)


INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def text_of(file, found=None):
    """Return {path: text} of a file and of all that it includes, in order."""
    found = {} if found is None else found
    if file not in found:
        found[file] = file.read_bytes()
        for name in INCLUDE.findall(found[file]):
            text_of((file.parent / os.fsdecode(name)).resolve(), found)
    return found


class Compiler:
    """nvcc and its tools over one folder of results; a result is made again when it has to be."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder

    def cached(self, output, key, make):
        """Make the output unless it was made from the same key."""
        record = output.with_name(output.name + ".key")
        digest = hashlib.sha256(repr((self.tools.version, key)).encode()).hexdigest()
        if output.exists() and record.exists() and record.read_text() == digest:
            return output
        make()
        record.write_text(digest)
        return output

    def ptx(self, source, front, newer_only):
        """Compile one file for a virtual architecture; return the text's path.

        With newer_only, kernels that do not differ from compute_75's are left out.
        """
        output = self.folder / f"{source.stem}.{front}.ptx"
        line_info = ["-lineinfo"] if front in map(str, PTX_TARGETS) else []
        options = [*NVCC_OPTIONS, "--ptx", *line_info, f"-arch=compute_{front}"]
        options += ["-DGPUOPT_NEWER_ONLY"] if newer_only else []

        def make():
            with timed(f"{source.name}: PTX for compute_{front}"):
                run_tool([*self.launcher(), *options, source.relative_to(ROOT)], output)

        return self.cached(output, (options, *text_of(source).values()), make)

    def launcher(self):
        """Return nvcc, behind ccache where that is installed."""
        ccache = shutil.which("ccache")
        return [ccache, self.tools.nvcc] if ccache else [self.tools.nvcc]

    def machine_code(self, name, text, code):
        """Assemble a PTX text, named by its first kernel, for an architecture; return the path."""
        output = self.folder / f"{name}.{code}.cubin"
        command = [self.tools.nvcc.parent / "ptxas", f"-arch=sm_{code}", "-m64"]

        def make():
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".part-") as part:
                source = Path(part, f"{name}.ptx")
                source.write_text(text)
                run_tool([*command, source], output)

        return self.cached(output, (code, text), make)

    def stream(self, name, cubins):
        """Compress the machine code of related architectures; return the stream's path."""
        output = self.folder / f"{name}.xz"
        code = b"".join(cubin.read_bytes() for cubin in cubins)

        def make():
            output.write_bytes(lzma.compress(code, filters=CODE_FILTERS))

        return self.cached(output, (CODE_FILTERS, code), make)


def sources():
    """Return the files of kernels, the longest with its headers first."""
    return sorted(KERNELS.glob("*.cu"), key=lambda path: -sum(map(len, text_of(path).values())))


def start_all(pool, compiler, codes, fronts):
    """Begin to compile all files for the virtual architectures: {(stem, architecture): task}."""
    if not shutil.which("g++") and not os.environ.get("NVCC_CCBIN"):
        raise Failure("nvcc needs g++; install it (Debian: apt-get install g++) or set NVCC_CCBIN")
    assembled = {*map(front_end, codes)}
    newer_only = {front: front != "75" and front not in assembled for front in fronts}
    return {
        (file.stem, front): pool.submit(compiler.ptx, file, front, newer_only[front])
        for file in sources() for front in fronts
    }  # fmt: skip


def results(tasks):
    """Return {key: result} of {key: task}."""
    return {key: task.result() for key, task in tasks.items()}


def texts_of(tasks):
    """Return {key: text} of the tasks of start_all."""
    return {key: path.read_text() for key, path in results(tasks).items()}


def assemble(pool, compiler, texts, table, codes):
    """Make the machine code of every image.

    Returns [([(image's number, architecture, bytes of its code)], their stream)]: a stream for each
    run of images of one file and each group of related architectures.
    """
    names = [[] for _ in table["images"]]
    for name, number, _ in table["kernels"]:
        names[number].append(name)
    related = {}
    for code in codes:
        related.setdefault(relatives(code), []).append(code)
    images, files = [(number, stem) for number, (stem, _) in enumerate(table["images"])], {}
    for number, stem in images:
        files.setdefault(stem, []).append(number)
    keys = [
        tuple((number, code) for number in numbers[first : first + RUN] for code in members)
        for numbers in files.values()
        for first in range(0, len(numbers), RUN)
        for members in related.values()
    ]

    def make(number, stem, code):
        common, kernels = split(texts[stem, front_end(code)], PTX_TARGETS[LEAST])
        text = module(common, [kernels[name] for name in names[number]])
        return compiler.machine_code(names[number][0], text, code)

    with timed(f"machine code for {' '.join(codes)}"):
        tasks = {
            (number, code): pool.submit(make, number, stem, code)
            for code in codes for number, stem in images
        }  # fmt: skip
        cubins = results(tasks)
        streams = {
            key: pool.submit(
                compiler.stream,
                f"{names[key[0][0]][0]}.{relatives(key[0][1])}",
                [cubins[each] for each in key],
            )
            for key in keys
        }
        streams = results(streams)
    return [
        ([(number, code, cubins[number, code].stat().st_size) for number, code in key],
         path.read_bytes())
        for key, path in streams.items()
    ]  # fmt: skip


# --- the archive of texts and machine code


def archive(texts, preset=PRESET):
    """Return (archive's bytes, table) of {(file's stem, virtual architecture): PTX}.

    A kernel has one text if its PTX is the same for both targets, or if only one was compiled. An
    image is a run of kernels of one file, of at most IMAGE bytes of PTX.
    """
    packed, table, none = Archive(), {"images": [], "kernels": []}, [0, 0, 0]
    for stem in sorted({stem for stem, _ in texts}):
        parts = {
            target: split(texts[stem, str(target)], version)
            if (stem, str(target)) in texts
            else ("", {})
            for target, version in PTX_TARGETS.items()
        }
        rows = packed.add(*(common for common, _ in parts.values()))
        image, room = [stem, [row if row[-1] else none for row in rows]], 0
        (_, first), (_, newer) = parts.values()
        if not newer.keys() <= first.keys():
            raise Failure(f"{stem}.cu has a kernel for newer GPUs alone; give it an older form")
        for name, parts in sorted(first.items()):
            text, other = "".join(parts), "".join(newer.get(name, ())) or None
            same = other is None or without_lines(other) == without_lines(text)
            rows = [*packed.add(text), none] if same else packed.add(text, other)
            if len(text) > room:
                table["images"].append(image)
                room = IMAGE
            room -= len(text)
            table["kernels"].append([name, len(table["images"]) - 1, rows])
    table["kernels"].sort()
    streams, table["blocks"] = packed.compressed(preset)
    return streams, table


def listing():
    """Return the text of every rung's file, for gpuopt.source: a form feed, its name, its lines."""
    listed = sorted(KERNELS.glob("*.cu")) + sorted(KERNELS.rglob("*.cuh"))
    listed += sorted((ROOT / "csrc" / "devices" / "cpu").rglob("cpu_*.[ch]"))
    return "".join(f"\f{path.name}\n{path.read_text()}" for path in listed)


def write(path, content):
    """Write a file if that changes it: a new time stamp means a new build."""
    if isinstance(content, str):
        content = content.encode()
    if not path.exists() or path.read_bytes() != content:
        part = path.with_name(f".part-{path.name}")
        part.write_bytes(content)
        os.replace(part, path)


def write_table(folder, packed, table, codes=(), machine_code=()):
    """Write kernels.xz and images.def."""

    def braced(rows):
        return ", ".join(f"{{{first}, {second}, {third}}}" for first, second, third in rows)

    source = listing().encode()
    blocks, streams = [*table["blocks"]], [packed]
    codes_of = [[[0, 0, 0] for _ in codes or "-"] for _ in table["images"]]

    def append(stream, size):
        blocks.append([sum(map(len, streams)), len(stream), size])
        streams.append(stream)
        return len(blocks) - 1

    sources = [append(lzma.compress(source), len(source)), 0, len(source)]
    for content, stream in machine_code:
        offsets = [*accumulate((size for _, _, size in content), initial=0)]
        block = append(stream, offsets[-1])
        for (number, code, size), offset in zip(content, offsets, strict=False):
            codes_of[number][codes.index(code)] = [block, offset, size]
    lines = [
        "/* Made by csrc/build_kernels.py: images, their kernels by name, the source's text. */"
    ]
    lines += [f"CODE({code.rstrip('af')}, {int(code.endswith('a'))})" for code in codes]
    lines += [
        f"IMAGE({stem}, {{{braced(common)}}}, {{{braced(code)}}})"
        for (stem, common), code in zip(table["images"], codes_of, strict=True)
    ]
    lines += [f"KERNEL({name}, {number}, {braced(r)})" for name, number, r in table["kernels"]]
    lines += [f"SOURCES({braced([sources])})", *(f"BLOCK({braced([row])})" for row in blocks)]
    write(folder / "kernels.xz", b"".join(streams))
    write(folder / "images.def", "\n".join(lines) + "\n")


# --- what an sdist carries


def source_hash():
    """Return a hash of all that the PTX depends on, the compiler apart."""
    digest = hashlib.sha256(repr((NVCC_OPTIONS, sorted(PTX_TARGETS.items()))).encode())
    for path in sorted([*KERNELS.glob("*.cu"), *KERNELS.rglob("*.cuh"), *FOLDER.glob("*.py")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def prebuilt():
    """Return (archive's bytes, table, compiler) of an sdist, or None."""
    try:
        found = json.loads((PREBUILT / "kernels.json").read_text())
        packed = (PREBUILT / "kernels.xz").read_bytes()
    except FileNotFoundError:
        return None
    if found["sources"] != source_hash() or found["xz"] != hashlib.sha256(packed).hexdigest():
        say("the kernels' source differs from what the carried PTX was compiled from")
        return None
    return packed, found["table"], found["compiler"]


def write_prebuilt(folder, build_folder):
    """Write what an sdist carries into a folder."""
    tools = toolkit(build_folder)
    with workers() as pool:
        _, tasks = start_ptx(pool, build_folder, tools)
        packed, table = archive(texts_of(tasks))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.xz").write_bytes(packed)
    fields = {
        "sources": source_hash(), "compiler": tools.name, "table": table,
        "xz": hashlib.sha256(packed).hexdigest(),
    }  # fmt: skip
    (folder / "kernels.json").write_text(json.dumps(fields))


def start_ptx(pool, build_folder, tools, codes=(), targets=tuple(PTX_TARGETS)):
    """Begin to compile the PTX of the targets, and that of which the codes are made.

    Returns the compiler, {(file's stem, virtual architecture): task}.
    """
    folder = build_folder / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    compiler = Compiler(tools, folder)
    fronts = list(dict.fromkeys([*map(str, targets), *map(front_end, codes)]))
    return compiler, start_all(pool, compiler, codes, fronts)


class Build:
    """Make the folder of embedded files, which is kept between builds.

    The constructor chooses the architectures, fetches a missing nvcc and starts the compilers;
    finish() waits for them. All C files but csrc/image.c can be compiled in the meantime.
    """

    def __init__(self, pool, build_folder):
        self.pool, self.choice, self.carried = pool, chosen(), prebuilt()
        codes, why, self.tools = self.decide(build_folder)
        targets = ptx_targets(self.choice) if self.tools else tuple(PTX_TARGETS)
        ptx = " and ".join(f"compute_{target}" for target in targets)
        say(f"kernels: machine code for {' '.join(codes) or 'no GPU'} ({why}), PTX for {ptx}")
        if self.tools:
            name = self.tools.name
            say(f"{name}: {self.tools.nvcc} ({self.tools.how})")
            self.compiler, self.tasks = start_ptx(pool, build_folder, self.tools, codes, targets)
        else:
            name = f"PTX as the sdist carries it, by {self.carried[2]}"
        folder = build_folder / "image" / ("-".join(codes) or "ptx")
        folder.mkdir(parents=True, exist_ok=True)
        self.images = Images(folder, codes, why, name)

    def decide(self, build_folder):
        """Return the architectures, the reason, and the toolkit, None if it is not needed."""
        codes, why, native = self.choice
        if self.carried and codes and native and not nvcc_here(build_folder):
            why = f"no nvcc to make machine code for {' '.join(codes)}, the GPUs present"
            codes = ()
        tools = None if self.carried and not codes else toolkit(build_folder)
        if codes:
            try:
                check_codes(tools, codes)
            except Failure:
                if not native:
                    raise
                why, codes = f"this nvcc makes no machine code for {' '.join(codes)}", ()
        return codes, why, tools

    def finish(self):
        """Wait for the compilers; write the archive and its table."""
        codes, machine_code = self.images.codes, []
        if self.tools:
            texts = texts_of(self.tasks)
            packed, table = archive(texts, NATIVE_PRESET if self.choice.native else PRESET)
            if codes:
                machine_code = assemble(self.pool, self.compiler, texts, table, codes)
        else:
            packed, table, _ = self.carried
        write_table(self.images.folder, packed, table, codes, machine_code)
