"""Build gpuopt: the kernels first (csrc/build_kernels.py), then the C extension that embeds them.

GPUOPT_CUDA_ARCHS chooses the machine code: native (the GPUs present, the default), all, none, or
compute capabilities as in "80 90". The PTX is always there: the simulated GPU runs it, and drivers
compile it for other GPUs. GPUOPT_CFLAGS adds flags to the C compiler's and the linker's.
"""

import errno
import logging
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError, LinkError

ROOT = Path(__file__).resolve().parent
SOURCES = Path("csrc")
MACHINES = {"x86_64", "aarch64"}
HEADERS = {".h", ".def", ".cu", ".cuh"}
# gcc's -O3 also interchanges loops, which makes columns of rows, and makes versions of each loop:
# a tenth more time and code, and nothing runs faster.
GCC_OPTIMIZATION = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops"]
# For the simulator, a twentieth less time to compile; it runs as fast. Stencils of the CPU do not.
GCC_UNSCHEDULED = ["-fno-schedule-insns2"]
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

sys.path.insert(0, str(ROOT / SOURCES))
import build_kernels  # noqa: E402
from build_kernels import Failure, say, timed  # noqa: E402

EMBEDDING = str(SOURCES / "image.c")
BUILD = ROOT / "build"  # kept between builds, so that each kernel is compiled once


def newer(output, command, inputs):
    """Return whether the output was made by this command, after the last change of its inputs."""
    record = output.with_suffix(output.suffix + ".command")
    if not output.exists() or not record.exists() or record.read_text() != command:
        return False
    made = output.stat().st_mtime
    return all(path.exists() and path.stat().st_mtime < made for path in inputs)


def cost(source):
    """Return a key that sorts C files by their time, the longest first.

    Arithmetic on vectors, which is compiled for each instruction set, costs most.
    """
    path = Path(source)
    vectors = path.name == "sim_lanes.c" or "cpu" in path.parts
    return (not vectors, -path.stat().st_size)


def listed_inputs(rule):
    """Return the files that a rule of make names after its colon; spaces in them are escaped."""
    words = re.split(r"(?<!\\)\s+", rule.replace("\\\n", " ").strip())
    return [Path(word.replace("\\ ", " ")) for word in words[1:]]


class BuildExtension(build_ext):
    """Compile the kernels, then the extension around them, one file per core at a time."""

    def build_extensions(self):
        """Compile through compile_files, which skips unchanged files."""
        check_compiler(self.compiler.compiler_so[0], self.plat_name)
        self.compile_file = self.compiler.compile
        self.compiler.compile = self.compile_files
        super().build_extensions()

    def compile_files(self, sources, output_dir=None, **options):
        """Compile the files that changed while the kernels are compiled; return all objects."""
        options["depends"] = None  # the compiler lists each file's own
        command = repr((self.compiler.compiler_so, options, GCC_UNSCHEDULED))
        gcc = "-O2" in options["extra_postargs"]

        def compile_changed(source, embedded=()):
            (name,) = self.compiler.object_filenames([source], output_dir=output_dir)
            output = Path(name)
            listed = output.with_suffix(".d")
            inputs = listed_inputs(listed.read_text()) if listed.exists() else [Path(source)]
            if self.every_file or not newer(output, command, [*inputs, *embedded]):
                simulator = gcc and SOURCES / "sim" in Path(source).parents
                extra = [*options["extra_postargs"], *GCC_UNSCHEDULED * simulator]
                chosen = {**options, "extra_postargs": extra}
                self.compile_file([source], output_dir=output_dir, **chosen)
                output.with_suffix(output.suffix + ".command").write_text(command)
            return name

        logging.disable(logging.INFO)  # the command of each file
        try:
            with timed(f"C: {len(sources)} files, beside the kernels"):
                objects = {
                    source: self.pool.submit(compile_changed, source)
                    for source in sorted(sources, key=cost) if source != EMBEDDING
                }  # fmt: skip
                for task in wait([self.embedded, *objects.values()], None, FIRST_EXCEPTION).done:
                    task.result()
                files = [*self.kernels.images.folder.iterdir()]
                objects[EMBEDDING] = self.pool.submit(compile_changed, EMBEDDING, files)
                return [objects[source].result() for source in sources]
        finally:
            logging.disable(logging.NOTSET)

    def build_extension(self, ext):
        """Begin to compile the kernels, and tell the C files about them by macros."""
        # Whether to link is decided by the objects: this build's kernels are not there yet.
        self.every_file, self.force = self.force, True
        waiting = ThreadPoolExecutor(1)
        with build_kernels.workers() as self.pool:
            self.kernels = build_kernels.Build(self.pool, BUILD)
            self.embedded = waiting.submit(self.kernels.finish)
            waiting.shutdown(wait=False)  # an error of C is shown before the kernels are finished
            images, cuda = self.kernels.images, build_kernels.header_folder(BUILD)
            if not any("clang" in word for word in self.compiler.compiler_so[:2]):
                at = ext.extra_compile_args.index("-O3")
                ext.extra_compile_args[at : at + 1] = GCC_OPTIMIZATION
            ext.extra_compile_args += [f"-isystem{cuda}", *same_bytes_anywhere(cuda)]
            ext.define_macros += [
                ("GPUOPT_IMAGE_DIR", quoted(os.path.relpath(images.folder, ROOT))),
                ("GPUOPT_VERSION", quoted(self.distribution.get_version())),
                ("GPUOPT_KERNEL_COMPILER", quoted(images.compiler)),
                ("GPUOPT_ARCHITECTURES", quoted(" ".join(images.codes))),
                ("GPUOPT_REASON", quoted(images.why)),
            ]
            ext.include_dirs.append(os.path.relpath(images.folder, ROOT))
            super().build_extension(ext)

    def run(self):
        """Build; report an error of the operating system in one line."""
        written = [ROOT / "gpuopt"] if self.inplace else [Path(self.build_lib)]
        check_writable([*written, Path(self.build_temp), BUILD / "kernels", BUILD / "image"])
        try:
            super().run()
        except (CompileError, LinkError):
            advice = build_kernels.host_compiler_advice("")
            raise Failure(f"the C compiler failed; its message is above{advice}") from None
        except OSError as error:
            raise Failure(f"cannot be built: {error}{remedy(error)}") from None


def remedy(error):
    """Return the remedy for an error of the operating system, "" if none is known."""
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return "; build in a folder that you may write to"
    if error.errno == errno.ENOSPC:
        return "; free some space on this disk"
    return ""


def check_writable(folders):
    """Fail where a folder, or the one in which it will be made, cannot be written."""
    for folder in folders:
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Failure(
                f"cannot be built: you may not write to {folder.resolve()}; build in a folder of "
                "your own, such as a clone in your home folder"
            )


def check_compiler(program, platform):
    """Fail where the C compiler does not start, or makes code for another machine."""
    try:
        done = subprocess.run([program, "-dumpmachine"], capture_output=True, text=True)
    except OSError as error:
        raise Failure(
            f"the C compiler {program} does not start ({error.strerror}); install gcc (Debian: "
            "apt-get install gcc) or set CC to one"
        ) from None
    made, wanted = done.stdout.partition("-")[0], platform.partition("-")[2]
    if made in MACHINES and wanted in MACHINES and made != wanted:
        raise Failure(
            f"{program} compiles for {made}, but the extension is for {wanted}; to build for "
            f"{made}, set _PYTHON_HOST_PLATFORM=linux-{made}, else unset CC"
        )


def same_bytes_anywhere(cuda):
    """Return the options that keep this machine's folders out of the debug information.

    pip builds in folders of random names. The last option that fits a path holds.
    """
    folders = {
        ROOT: ".",
        sysconfig.get_path("include"): "python",
        numpy.get_include(): "numpy",
        cuda: "cuda",
    }
    return [f"-ffile-prefix-map={folder}={name}" for folder, name in folders.items()]


def quoted(text):
    """Return a macro's value: a C string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class SourceDistribution(sdist):
    """An sdist that carries the compiled PTX, so that installing it needs no nvcc."""

    def make_release_tree(self, base_dir, files):
        """Write the PTX into the release's tree only, not into the source tree."""
        super().make_release_tree(base_dir, files)
        folder = Path(base_dir, *build_kernels.PREBUILT.relative_to(ROOT).parts)
        build_kernels.write_prebuilt(folder, BUILD)
        say("sdist: carries the kernels' PTX")


def extension():
    """Return gpuopt._core: every C file under csrc."""
    macros = [("_GNU_SOURCE", None)]
    if LIMITED_API:
        macros.append(("Py_LIMITED_API", "0x030B0000"))
    extra = shlex.split(os.environ.get("GPUOPT_CFLAGS", ""))
    # Python's folder comes after NumPy's: Debian has the headers of its own, older NumPy in there.
    headers = [
        f"-isystem{folder}" for folder in (numpy.get_include(), sysconfig.get_path("include"))
    ]
    # -g0: Python's own -g costs a fifth of the compile time of a file of SIMD vectors, and -g1 a
    # fiftieth of any; GPUOPT_CFLAGS="-g" brings it back.
    return Extension(
        "gpuopt._core",
        sources=sorted(str(path) for path in SOURCES.rglob("*.c")),
        depends=sorted(str(path) for path in SOURCES.rglob("*") if path.suffix in HEADERS),
        define_macros=macros,
        extra_compile_args=[
            "-std=c11", "-O3", "-g0", "-MMD", "-fvisibility=hidden", "-fopenmp",
            "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", *headers, *extra,
        ],
        extra_link_args=["-fopenmp", *extra],
        libraries=["dl", "pthread"],
        py_limited_api=LIMITED_API,
    )  # fmt: skip


setup(
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildExtension, "sdist": SourceDistribution},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
