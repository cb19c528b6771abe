"""Build gpuopt: the kernels with nvcc into images, then the C extension that embeds them.

nvcc is looked for in GPUOPT_NVCC, CUDA_HOME or CUDA_PATH, PATH, CUDA wheels on sys.path and
/usr/local/cuda. Where there is none, the five CUDA wheels that hold one are installed from the
package index into the build folder.

GPUOPT_CUDA_ARCHS (for example "90" or "80,90") narrows the machine code; the PTX is always there.
GPUOPT_CFLAGS adds flags to the C compiler's and the linker's.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SOURCES = Path("csrc")
ARCHITECTURES = "75 80 86 89 90 100 120"
FRONT_ENDS = (75, 80, 90)  # compute capabilities for which kernels or compilers choose otherwise
PTX_ARCHITECTURE = "75"
CUDA_WHEELS = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
]
HEADERS = {".h", ".def", ".cu", ".cuh"}
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")


def candidates():
    """Yield (nvcc, how it was found), in the order in which they are preferred."""
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


def find_nvcc(build_folder):
    """Return (nvcc, how it was found); fetch the wheels where there is none."""
    for nvcc, how in candidates():
        if os.access(nvcc, os.X_OK) and not nvcc.is_dir():
            return nvcc.resolve(), how
        if how == "GPUOPT_NVCC":
            raise SystemExit(f"gpuopt: {how} is set, but {nvcc} is not a program; mend or unset it")
    folder = build_folder / "cuda-wheels"
    nvcc = folder / "nvidia" / "cu13" / "bin" / "nvcc"
    if not nvcc.exists():
        print("gpuopt: no nvcc here; fetching the CUDA wheels from the package index", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-deps", "--only-binary=:all:", "--target", str(folder), *CUDA_WHEELS]
        if subprocess.run(pip).returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise SystemExit(
                "gpuopt: cannot be built: there is no nvcc (looked in GPUOPT_NVCC, CUDA_HOME, "
                "CUDA_PATH, PATH, CUDA wheels on sys.path, /usr/local/cuda), and the package index "
                "did not give the wheels that hold one. Install the CUDA toolkit 13.0 and set "
                "CUDA_HOME, or run:\n    pip install " + " ".join(CUDA_WHEELS)
            )
        for program in nvcc.parent.iterdir():  # a wheel does not keep the bit everywhere
            program.chmod(program.stat().st_mode | 0o111)
    return nvcc.resolve(), "CUDA wheels fetched by setup.py"


def architectures():
    """Return the compute capabilities to build machine code for, as in ["75", "90"]."""
    named = os.environ.get("GPUOPT_CUDA_ARCHS") or ARCHITECTURES
    found = re.split(r"[\s,;]+", named.strip())
    for name in found:
        if not re.fullmatch(r"\d{2,3}[af]?", name) or int(re.match(r"\d+", name)[0]) < 75:
            raise SystemExit(
                f"gpuopt: GPUOPT_CUDA_ARCHS: {name!r} is not a compute capability of 75 or more; "
                'write for example GPUOPT_CUDA_ARCHS="80 90"'
            )
    return found


def ptx_architecture():
    """Return the compute capability of the PTX: the lowest, so that every GPU can load it."""
    named = os.environ.get("GPUOPT_PTX_ARCH") or PTX_ARCHITECTURE
    if not re.fullmatch(r"\d{2,3}", named) or int(named) < 75:
        raise SystemExit(
            f"gpuopt: GPUOPT_PTX_ARCH: {named!r} is not a compute capability of 75 or more; write "
            "for example GPUOPT_PTX_ARCH=90"
        )
    return named


def code_options():
    """Return nvcc's options for the machine code: one pass of its front end serves many."""
    codes = {}
    for arch in architectures():
        front = arch  # 90a has its own
        if arch.isdigit():
            front = max(each for each in FRONT_ENDS if each <= int(arch))
        codes.setdefault(front, []).append(f"sm_{arch}")
    return [f"-gencode=arch=compute_{arch},code=[{','.join(sm)}]" for arch, sm in codes.items()]


def newer(output, command, inputs):
    """Tell whether the output was made by this command, after the last change of its inputs."""
    record = output.with_suffix(output.suffix + ".command")
    if not output.exists() or not record.exists() or record.read_text() != command:
        return False
    made = output.stat().st_mtime
    return all(path.exists() and path.stat().st_mtime < made for path in inputs)


def compile_file(nvcc, kernels, folder):
    """Compile one file into machine code, PTX, and the names of its kernels.

    Commands name files from the root: what came out serves a copy of the tree, too.
    """
    base = [str(nvcc), "-std=c++17", "-O3", "-Xcompiler=-w", str(kernels.relative_to(ROOT))]
    machine_code = [*base, "--fatbin", "--threads=0", "-Xfatbin=-compress-mode=size"]
    ptx = [*base, "--ptx", "-lineinfo", f"-arch=compute_{ptx_architecture()}"]
    inputs = [kernels, *kernels.parent.glob("*.cuh")]
    for command, end in (([*machine_code, *code_options()], ".fatbin"), (ptx, ".ptx")):
        output = folder / (kernels.stem + end)
        command += ["-o", str(output.relative_to(ROOT))]
        if newer(output, shlex.join(command), inputs):
            continue
        print(shlex.join(command), flush=True)
        if subprocess.run(command, cwd=ROOT).returncode:
            raise SystemExit("gpuopt: nvcc could not compile the kernels; its message is above")
        Path(f"{output}.command").write_text(shlex.join(command))
    names = re.findall(r"\.entry (\w+)", output.read_text())
    write(folder / f"{kernels.stem}.kernels", "".join(f"\n{name}\n" for name in names))


def write(path, text):
    """Write a file, if that changes it: a new time stamp is a new build."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def compile_images(nvcc, build_folder):
    """Compile csrc/kernels/*.cu, as many at a time as cores; return the folder of what came out.

    Beside it goes kernels.sources, the text of every rung's file, for gpuopt.source.
    """
    if not shutil.which("g++") and not os.environ.get("NVCC_CCBIN"):
        raise SystemExit("gpuopt: nvcc needs g++; install it (Debian: apt-get install g++)")
    ptx = ptx_architecture()
    names = [*architectures(), *([f"ptx{ptx}"] if ptx != PTX_ARCHITECTURE else [])]
    folder = build_folder / "image" / "-".join(names)
    folder.mkdir(parents=True, exist_ok=True)
    kernels = sorted((ROOT / SOURCES / "kernels").glob("*.cu"))
    listed = kernels + sorted((ROOT / SOURCES / "kernels").glob("*.cuh"))
    listed += sorted((ROOT / SOURCES / "devices" / "cpu").glob("cpu_*.c"))
    write(
        folder / "kernels.sources", "".join(f"\f{path.name}\n{path.read_text()}" for path in listed)
    )
    write(folder / "images.def", "".join(f"IMAGE({path.stem})\n" for path in kernels))
    longest_first = sorted(kernels, key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda path: compile_file(nvcc, path, folder), longest_first):
            pass  # raises what the compilation raised
    return folder


def cuda_headers(nvcc):
    """Return the folder that holds cuda.h, beside nvcc."""
    toolkit = nvcc.parent.parent
    for folder in (toolkit / "include", toolkit / "targets" / "x86_64-linux" / "include"):
        if (folder / "cudaTypedefs.h").exists():
            return str(folder)
    raise SystemExit(
        f"gpuopt: {toolkit} has nvcc but no include/cudaTypedefs.h; install cudart's headers"
    )


class BuildExtension(build_ext):
    """Compile the images first, then the extension around them, a file a core."""

    def build_extensions(self):
        """Have the compiler's files compiled by compile_files."""
        self.compile_file = self.compiler.compile
        self.compiler.compile = self.compile_files
        super().build_extensions()

    def compile_files(self, sources, output_dir=None, **options):
        """Compile the files that changed; return the objects of all."""
        options["depends"] = None  # the compiler lists each file's own
        command = repr((self.compiler.compiler_so, options))

        def compile_changed(source):
            (name,) = self.compiler.object_filenames([source], output_dir=output_dir)
            output = Path(name)
            listed = output.with_suffix(".d")
            inputs = [Path(source)]
            if listed.exists():
                inputs = map(Path, listed.read_text().replace("\\\n", " ").split()[1:])
            if self.force or not newer(output, command, [*inputs, *self.embedded.get(source, [])]):
                self.compile_file([source], output_dir=output_dir, **options)
                output.with_suffix(output.suffix + ".command").write_text(command)
            return name

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(compile_changed, sources))

    def build_extension(self, ext):
        """Find nvcc, compile the image, and tell the C files where it is."""
        build_folder = ROOT / "build"  # kept between builds, so that nvcc runs once
        nvcc, how = find_nvcc(build_folder)
        image = compile_images(nvcc, build_folder)
        ext.extra_compile_args.append(f"-isystem{cuda_headers(nvcc)}")
        ext.define_macros += [
            ("GPUOPT_IMAGE_DIR", f'"{image}"'),
            ("GPUOPT_VERSION", f'"{self.distribution.get_version()}"'),
            ("GPUOPT_NVCC_FOUND", f'"{nvcc} ({how})"'),
            ("GPUOPT_ARCHITECTURES", f'"{" ".join(architectures())} ptx{ptx_architecture()}"'),
        ]
        files = [path for path in image.iterdir() if path.suffix != ".command"]
        ext.include_dirs.append(str(image))
        self.embedded = {str(SOURCES / "image.c"): files}
        ext.depends += map(str, files)
        super().build_extension(ext)


def extension():
    """Return gpuopt._core: every C file under csrc."""
    macros = [("_GNU_SOURCE", None)]
    if LIMITED_API:
        macros.append(("Py_LIMITED_API", "0x030B0000"))
    extra = shlex.split(os.environ.get("GPUOPT_CFLAGS", ""))
    # Python's own -g would have gcc follow every variable: a fifth of a file of vectors' time.
    return Extension(
        "gpuopt._core",
        sources=sorted(str(path) for path in SOURCES.rglob("*.c")),
        depends=sorted(str(path) for path in SOURCES.rglob("*") if path.suffix in HEADERS),
        define_macros=macros,
        extra_compile_args=[
            "-std=c11", "-O3", "-g1", "-MMD", "-fvisibility=hidden", "-fopenmp",
            "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic",
            f"-isystem{numpy.get_include()}", *extra,
        ],
        extra_link_args=["-fopenmp", *extra],
        libraries=["dl", "pthread"],
        py_limited_api=LIMITED_API,
    )  # fmt: skip


setup(
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
