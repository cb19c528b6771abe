"""The process that compiles: a program of its own, with limits, that needs only Python's core.

It reads one job, marshalled, from standard input and writes the result, marshalled, to standard
output. It lowers its limits of memory and time first, and then loses the right to open files
outside of the compiler's and the allowed folders (Linux's Landlock, where the kernel has it):
source text is untrusted.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
import time
from typing import Any

SUCCESS, COMPILATION_FAILED = 0, 6


def limit(memory: int, seconds: float) -> None:
    """Bound this process's memory and CPU time."""
    import resource

    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(seconds) + 2),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def confine(folders: list[bytes]) -> None:
    """Allow files to be read below these folders only, and none to be written."""
    libc = ctypes.CDLL(None, use_errno=True)
    create, add, restrict = 444, 445, 446  # system calls; the same numbers on every architecture
    if libc.syscall(create, None, 0, 1) < 1:
        return  # this kernel has no Landlock
    files = (1 << 13) - 1  # every right of its first version
    read = 1 << 2 | 1 << 3
    rules = ctypes.c_uint64(files)
    ruleset = libc.syscall(create, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return
    for folder in folders:
        try:
            handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rule = (ctypes.c_uint8 * 12)()
        ctypes.memmove(rule, ctypes.byref(ctypes.c_uint64(read)), 8)
        ctypes.memmove(ctypes.byref(rule, 8), ctypes.byref(ctypes.c_int32(handle)), 4)
        libc.syscall(add, ruleset, 1, ctypes.byref(rule), 0)
        os.close(handle)
    no_new_privileges = 38
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    libc.syscall(restrict, ruleset, 0)
    os.close(ruleset)


class Failure(Exception):
    """A call of NVRTC that failed for another reason than the source."""


class Nvrtc:
    """NVRTC's functions."""

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(path)
        for name in os.listdir(folder):  # NVRTC would open it later, when files are out of reach
            if name.startswith("libnvrtc-builtins.so."):
                ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function; every failure except a source's is raised."""
        status = getattr(self.library, name)(*arguments)
        if status not in (SUCCESS, COMPILATION_FAILED):
            self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise Failure(f"{name}: {self.library.nvrtcGetErrorString(status).decode()}")
        return status

    def read(self, program: ctypes.c_void_p, what: str) -> bytes:
        """Return a result of a program: its log, PTX or machine code."""
        size = ctypes.c_size_t()
        if getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)):
            return b""
        if size.value == 0:
            return b""
        data = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, data)
        return data.raw

    def archs(self) -> list[int]:
        """Return the compute capabilities, times ten, that it compiles for."""
        count = ctypes.c_int()
        self.call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.call("nvrtcGetSupportedArchs", numbers)
        return list(numbers)

    def arch(self, given: str, exact: bool) -> str:
        """Return the architecture, or the nearest older one that this version knows."""
        kind, _, number = given.partition("_")
        known = self.archs()
        if exact or not number.isdigit() or int(number) in known:
            return given
        older = [each for each in known if each <= int(number)]
        return f"compute_{max(older)}" if older else f"{kind}_{min(known)}"

    def compile(self, job: dict[str, Any]) -> dict[str, Any]:
        """Compile a job's source."""
        program = ctypes.c_void_p()
        name = job["name"].encode()
        self.call("nvrtcCreateProgram", ctypes.byref(program), job["source"], name, 0, None, None)
        ends = time.monotonic() + job["seconds"]
        hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
            lambda payload, unused: time.monotonic() > ends
        )
        if hasattr(self.library, "nvrtcSetFlowCallback"):
            self.call("nvrtcSetFlowCallback", program, hook, None)
        expressions = [each.encode() for each in job["names"]]
        for each in expressions:
            self.call("nvrtcAddNameExpression", program, each)
        arch = self.arch(job["arch"], job["exact"])
        options = [*job["options"], f"-arch={arch}"]
        array = (ctypes.c_char_p * len(options))(*(each.encode() for each in options))
        try:
            status = self.call("nvrtcCompileProgram", program, len(options), array)
        except Failure as failure:
            log = self.read(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if time.monotonic() > ends:
                return {"late": True}
            return {"failed": str(failure), "log": log}
        made: dict[str, Any] = {"status": status, "arch": arch}
        made["log"] = self.read(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
        if status == SUCCESS:
            made["ptx"] = self.read(program, "PTX").rstrip(b"\0")
            made["image"] = self.read(program, "CUBIN") if arch.startswith("sm_") else b""
            made["lowered"] = [self.lowered(program, each) for each in expressions]
        elif time.monotonic() > ends:
            return {"late": True}
        return made

    def lowered(self, program: ctypes.c_void_p, expression: bytes) -> str:
        """Return the symbol of a name expression."""
        symbol = ctypes.c_char_p()
        self.call("nvrtcGetLoweredName", program, expression, ctypes.byref(symbol))
        return (symbol.value or b"").decode()

    def install(self, folder: str) -> bool:
        """Write the headers that come with NVRTC; False where it has none (before 13.3)."""
        if not hasattr(self.library, "nvrtcInstallBundledHeaders"):
            return False
        text = ctypes.c_char_p()
        self.call("nvrtcInstallBundledHeaders", folder.encode(), 0, ctypes.byref(text))
        return True


def nvcc(job: dict[str, Any]) -> dict[str, Any]:
    """Compile a job's source by nvcc."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, job["name"])
        with open(path, "wb") as file:
            file.write(job["source"])
        made: dict[str, Any] = {"arch": job["arch"], "lowered": [], "image": b""}
        outputs = [("ptx", "-ptx")]
        if job["arch"].startswith("sm_"):
            outputs.append(("image", "-cubin"))
        for key, kind in outputs:
            output = os.path.join(folder, "output")
            arch = job["arch"].replace("sm_", "compute_") if key == "ptx" else job["arch"]
            command = [job["path"], kind, "-x", "cu", *job["options"], f"-arch={arch}"]
            done = subprocess.run(
                [*command, "-o", output, job["name"]], cwd=folder, capture_output=True, check=False
            )
            text = (done.stderr + done.stdout).decode("utf-8", "replace")
            made |= {"log": text, "status": COMPILATION_FAILED if done.returncode else SUCCESS}
            if done.returncode:
                return made
            with open(output, "rb") as file:
                made[key] = file.read()
        return made


def main() -> None:
    """Do the job on standard input."""
    job = marshal.load(sys.stdin.buffer)
    limit(job["memory"], job["seconds"])
    try:
        if job["do"] == "nvcc":
            made = nvcc(job)
        else:
            library = Nvrtc(job["path"])
            if job["do"] == "install":
                made = {"installed": library.install(job["folder"])}
            else:
                confine([os.fsencode(each) for each in job["folders"]])
                made = library.compile(job)
    except MemoryError:
        made = {"memory": True}
    except (Failure, OSError, AttributeError) as error:
        made = {"failed": f"{type(error).__name__}: {error}"}
    sys.stdout.buffer.write(marshal.dumps(made))


if __name__ == "__main__":
    main()
