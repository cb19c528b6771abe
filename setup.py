"""Build gpuopt: the kernels with nvcc into one image, then the C extension that embeds it.

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
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SOURCES = Path("csrc")
ARCHITECTURES = "75 80 86 89 90 100 120"
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


def compile_image(nvcc, build_folder):
    """Compile csrc/kernels/*.cu into kernels.fatbin and kernels.ptx; return their folder.

    Beside them goes kernels.sources, the text of every rung's file, for gpuopt.source.
    """
    if not shutil.which("g++") and not os.environ.get("NVCC_CCBIN"):
        raise SystemExit("gpuopt: nvcc needs g++; install it (Debian: apt-get install g++)")
    folder = build_folder / "image" / "-".join(architectures())
    folder.mkdir(parents=True, exist_ok=True)
    kernels = sorted((ROOT / SOURCES / "kernels").glob("*.cu"))
    everything = folder / "kernels.cu"
    everything.write_text("".join(f'#include "{kernel.name}"\n' for kernel in kernels))
    base = [str(nvcc), "-std=c++17", "-O3", f"-I{ROOT / SOURCES / 'kernels'}", "-Xcompiler=-w"]
    machine_code = [
        *base, "--fatbin", "--threads=0", "-Xfatbin=-compress-mode=size",
        *(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in architectures()),
        str(everything), "-o", str(folder / "kernels.fatbin"),
    ]  # fmt: skip
    ptx = [
        *base, "--ptx", "-lineinfo", f"-arch=compute_{PTX_ARCHITECTURE}",
        str(everything), "-o", str(folder / "kernels.ptx"),
    ]  # fmt: skip
    sources = kernels + sorted((ROOT / SOURCES / "kernels").glob("*.cuh"))
    listed = sources + sorted((ROOT / SOURCES / "host").glob("host_*.c"))
    text = "".join(f"\f{path.name}\n{path.read_text()}" for path in listed)
    shown = folder / "kernels.sources"
    if not shown.exists() or shown.read_text() != text:  # a new time stamp is a new build
        shown.write_text(text)
    running = []
    for command in (machine_code, ptx):  # side by side
        output = Path(command[-1])
        record = output.with_suffix(output.suffix + ".command")
        built = output.exists() and record.exists() and record.read_text() == shlex.join(command)
        if built and all(path.stat().st_mtime < output.stat().st_mtime for path in sources):
            continue
        print(shlex.join(command), flush=True)
        running.append((command, record, subprocess.Popen(command)))
    for _, _, compiler in running:
        compiler.wait()
    for command, record, compiler in running:
        if compiler.returncode:
            raise SystemExit("gpuopt: nvcc could not compile the kernels; its message is above")
        record.write_text(shlex.join(command))
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
    """Compile the image first, then the extension around it."""

    def build_extension(self, ext):
        """Find nvcc, compile the image, and tell the C files where it is."""
        build_folder = ROOT / "build"  # kept between builds, so that nvcc runs once
        nvcc, how = find_nvcc(build_folder)
        image = compile_image(nvcc, build_folder)
        ext.extra_compile_args.append(f"-isystem{cuda_headers(nvcc)}")
        ext.define_macros += [
            ("GPUOPT_IMAGE_DIR", f'"{image}"'),
            ("GPUOPT_VERSION", f'"{self.distribution.get_version()}"'),
            ("GPUOPT_NVCC_FOUND", f'"{nvcc} ({how})"'),
            ("GPUOPT_ARCHITECTURES", f'"{" ".join(architectures())} ptx{PTX_ARCHITECTURE}"'),
        ]
        ext.depends += [str(image / f"kernels.{end}") for end in ("fatbin", "ptx", "sources")]
        super().build_extension(ext)


def extension():
    """Return gpuopt._core: every C file under csrc."""
    macros = [("_GNU_SOURCE", None)]
    if LIMITED_API:
        macros.append(("Py_LIMITED_API", "0x030B0000"))
    extra = shlex.split(os.environ.get("GPUOPT_CFLAGS", ""))
    return Extension(
        "gpuopt._core",
        sources=sorted(str(path) for path in SOURCES.rglob("*.c")),
        depends=sorted(str(path) for path in SOURCES.rglob("*") if path.suffix in HEADERS),
        define_macros=macros,
        extra_compile_args=[
            "-std=c11", "-O3", "-fvisibility=hidden", "-fopenmp", "-ffp-contract=off",
            "-Wall", "-Wextra", "-Wpedantic", f"-isystem{numpy.get_include()}", *extra,
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
