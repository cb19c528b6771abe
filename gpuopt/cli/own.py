"""The user's own kernels, of a .ptx or .cu file: run, check; and the launches of other commands.

An argument of a launch is a number, an array to be made, `float32[1000]`, `int32[64,64]=arange`, or
a file of NumPy's, `x.npy`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import gpuopt
from gpuopt.cli import console, options
from gpuopt.cli.console import bar
from gpuopt.families import cases
from gpuopt.ptx.kernel import Kernel
from gpuopt.ptx.module import Module
from gpuopt.util import files
from gpuopt.util.names import nearest, unknown_name

ENDINGS = (".ptx", ".cu")
_ARRAY = re.compile(r"([a-z]+\d*)\[([\w,.^*]+)\](?:=(.+))?")
FILLS = ("random", "zeros", "ones", "arange")
SHOWN = 8  # elements of an array that `run` prints


def is_file(name: str) -> bool:
    """Tell whether a command's first argument is a file of kernels, and no family."""
    return name.lower().endswith(ENDINGS)


def require_file(name: str) -> None:
    """Raise unless a name is a file of kernels."""
    if not is_file(name):
        raise ValueError(f"FILE: {name!r} must end in {' or '.join(ENDINGS)}")


def load(path: str, device: str | None, kernel: str | None = None, **how: Any) -> Module:
    """Load a file of kernels: PTX, or CUDA C++, which is compiled.

    Parameters
    ----------
    kernel : str, optional
        The wanted kernel; an instance of a template, "scale<float>", is compiled for it.
    **how
        For the compiler.
    """
    if path.lower().endswith(".ptx"):
        return gpuopt.load_ptx(Path(path), device=device)
    if kernel and kernel.endswith(">"):
        how["names"] = [*(how.get("names") or ()), kernel]
    return gpuopt.compile(Path(path), device=device, **how)


def kernel_of(module: Module, path: str, name: str | None) -> Kernel:
    """Return the kernel of a name; without one the file's only kernel."""
    known = module.kernels
    if name is None and len(known) == 1:
        name = known[0]
    if name is None:
        raise ValueError(f"KERNEL: {path} has {len(known)}; name one of {', '.join(known)}")
    if name not in module:
        more = (
            "" if path.lower().endswith(".ptx") else " (a template needs its types: scale<float>)"
        )
        raise ValueError(unknown_name("KERNEL", name, f"a kernel of {path}", known, more))
    return module[name]


def parameters(kernel: Kernel, path: str) -> str:
    """Return a kernel's parameters as its CUDA source declares them; else PTX's types."""
    if not path.lower().endswith(".ptx"):
        name = re.escape(kernel.name.partition("<")[0].rpartition("::")[2])
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        found = re.search(rf"__global__[^;{{}}]*?\b{name}\s*\(([^()]*)\)", text)
        if found:
            return " ".join(found[1].split())
    return ", ".join(each.type for each in kernel.parameters)


def _fill(shape: tuple[int, ...], dtype: np.dtype, fill: str, rng: Any) -> np.ndarray:
    count = int(np.prod(shape))
    if fill == "arange":
        return np.arange(count).astype(dtype).reshape(shape)
    if fill == "random":
        if dtype.kind == "f":
            return rng.random(shape).astype(dtype)
        return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    if fill in FILLS:
        return np.full(shape, fill == "ones", dtype)
    try:
        return np.full(shape, float(fill), dtype)
    except ValueError:
        raise ValueError(
            f"--args: {fill!r} fills no array; use a number or one of {', '.join(FILLS)}"
            f"{nearest(fill, FILLS)}"
        ) from None


def argument(text: str, rng: Any) -> Any:
    """Read one argument of a launch."""
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    found = _ARRAY.fullmatch(text)
    if found:
        try:
            dtype = np.dtype(found[1])
        except TypeError:
            known = ("float32", "float64", "float16", "int32", "int64", "uint32", "uint8", "bool")
            raise ValueError(unknown_name("--args", found[1], "a dtype", known)) from None
        shape = tuple(options.count(each) for each in found[2].split(","))
        return _fill(shape, dtype, found[3] or "random", rng)
    for read in (lambda: int(text, 0), lambda: float(text)):
        try:
            return read()
        except ValueError:
            continue
    try:
        return options.count(text)
    except argparse.ArgumentTypeError:
        raise ValueError(
            f"--args: {text!r} is neither a number nor an array, as float32[1000] or "
            "int32[64,64]=zeros, nor a .npy file"
        ) from None


class Own:
    """A launch that the command line describes."""

    def __init__(self, arguments: argparse.Namespace, device: str | None) -> None:
        path = arguments.family
        name = arguments.variant and str(arguments.variant)
        self.module = load(path, device, name)
        self.kernel = kernel_of(self.module, path, name)
        rng = np.random.default_rng(0)
        self.given = [argument(each, rng) for each in arguments.args or []]
        expected = len(self.kernel.parameters)
        if len(self.given) != expected:
            raise ValueError(
                f"--args: {self.kernel.name}({parameters(self.kernel, path)}) has {expected} "
                f"parameter{'s' * (expected != 1)}, but --args has {len(self.given)}"
            )
        if arguments.block is None:
            raise ValueError("--block: a kernel of your own needs its threads per block, as 256")
        self.grid, self.block = arguments.grid or (1,), arguments.block
        self.shared, self.schedule = arguments.shared, arguments.schedule

    def __call__(self) -> None:
        """Launch it."""
        options = {"shared": self.shared, "schedule": self.schedule}
        self.kernel(self.grid, self.block, *self.given, **options)


def add_launch(add: options.Add) -> None:
    """Add the arguments of a launch."""
    add("--grid", type=options.extent, metavar="N[,N[,N]]", help="blocks of an own kernel's grid")
    add("--args", nargs="+", metavar="ARG", help="an own kernel's arguments: 1024, 2.5, "
        "float32[1e6], int32[64,64]=zeros (or ones, arange, random, a number), x.npy")  # fmt: skip
    add("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory of a block")
    add("--schedule", type=int, metavar="SEED",
        help="a random order of an own kernel's warps, on simulated GPUs")  # fmt: skip


def profile(arguments: argparse.Namespace) -> gpuopt.Profile:
    """Profile an own kernel on the simulated GPU, whichever device the command names."""
    named = arguments.device or "sim"
    own = Own(arguments, named if named.startswith("sim") else "sim")
    with bar(text=f"simulating {own.kernel.name}"):
        return gpuopt.profile(own, device=own.module.device)


def _changed(own: Own, before: list[Any]) -> dict[str, np.ndarray]:
    return {
        f"argument {at + 1}": now
        for at, (then, now) in enumerate(zip(before, own.given, strict=True))
        if isinstance(now, np.ndarray) and then.tobytes() != now.tobytes()
    }


def run(arguments: argparse.Namespace) -> int:
    """Run an own kernel, and print the arrays that it changed."""
    require_file(arguments.family)
    if arguments.output:
        files.check(arguments.output, "-o", ".npz")
    own = Own(arguments, arguments.device)
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in own.given]
    with bar(text=f"running {own.kernel.name}"):
        own()
    changed = _changed(own, before)
    if arguments.json:
        told = {name: each.tolist() for name, each in changed.items()}
        print(json.dumps({"kernel": own.kernel.name, "changed": told}))
    else:
        print(
            f"{own.kernel.name} ran on {own.module.device}; it changed {len(changed)} "
            f"array{'s' * (len(changed) != 1)}"
        )
        for name, each in changed.items():
            first = ", ".join(str(value) for value in each.ravel()[:SHOWN])
            more = ", ..." if each.size > SHOWN else ""
            console.show(f"{name}  {each.dtype}{list(each.shape)}: {first}{more}")
    if arguments.output:
        names = {name.replace(" ", "_"): each for name, each in changed.items()}
        with open(arguments.output, "wb") as file:
            np.savez(file, **names)
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Check a rung or an own kernel; the status is 1 if something was found."""
    if is_file(arguments.family):
        own = Own(arguments, arguments.device)
        name, call = own.kernel.name, own
    else:
        options.one_of(arguments.family, cases.FAMILIES)
        case = cases.make(
            arguments.family, arguments.n or 1 << 14, arguments.dtype, device=arguments.device
        )
        rung = gpuopt.source(arguments.family, arguments.variant).rung
        name = f"{arguments.family} {rung.variant}, {case.title}"

        def call() -> object:
            return case.call(rung, arguments.block and arguments.block[0], arguments.device)

    with bar(text=f"checking {name}"):
        found = gpuopt.check(call, device=arguments.device)
    if arguments.json:
        from gpuopt.util.serialise import to_plain

        print(json.dumps({"kernel": name, "findings": to_plain(list(found))}))
    elif found:
        console.show(f"{name}: {len(found)} finding{'s' * (len(found) != 1)}")
        same = Counter(each.text for each in found)
        console.show_findings(
            [f"{text}; {n} such accesses" if n > 1 else text for text, n in same.items()]
        )
    else:
        console.show(f"{name}: {found!r}")
    return 1 if found else 0


def rungs(arguments: argparse.Namespace) -> int:
    """List the rungs of a family, or the kernels of a file."""
    if is_file(arguments.family):
        module = load(arguments.family, "sim")
        kernels = [module[name] for name in module.kernels]
        if arguments.json:
            print(json.dumps({k.name: [each.type for each in k.parameters] for k in kernels}))
        for kernel in () if arguments.json else kernels:
            console.show(f"{kernel.name}({parameters(kernel, arguments.family)})")
        return 0
    found = gpuopt.rungs(arguments.family)
    if arguments.json:
        told = [
            {"variant": each.variant, "name": each.name, "lesson": each.lesson} for each in found
        ]
        print(json.dumps(told))
    else:
        print(found)
    return 0


def add_commands(commands: Any) -> None:
    """Add the commands to those of the program."""
    add = options.command(
        commands,
        "rungs",
        rungs,
        help="list a family's rungs, or the kernels of a file",
        description="List the rungs of a family with their lessons, or the kernels of a .ptx or "
        ".cu file with their parameters.",
        example="rungs reduce",
    )
    add("family", metavar="FAMILY|FILE", help="the family, or a .ptx or .cu file")
    options.as_json(add)
    add = options.command(
        commands,
        "run",
        run,
        help="run a kernel of your own, with or without a GPU",
        description="Run a kernel of a .ptx or .cu file on arrays that are made here, and print "
        "the arrays that it changed.",
        example="run scale.ptx --block 256 --grid 4 --args float32[1000] 2.5",
    )
    add("family", metavar="FILE", help="a .ptx or .cu file")
    add("variant", nargs="?", metavar="KERNEL", help="its kernel (default: the only one)")
    add("--block", type=options.extent, metavar="N[,N[,N]]", help="threads per block")
    add_launch(add)
    options.device(add, "cuda, cuda:1, sim, sim:g80", "a GPU, else sim")
    options.output(add, "also save the changed arrays: arrays.npz")
    options.as_json(add)
    add = options.command(
        commands,
        "check",
        check,
        help="find races and other errors of a rung or of your own kernel",
        description="Run a kernel on the simulated GPU and print each error that its checks find, "
        "with its line and the remedy: accesses out of bounds, races, divergent barriers, "
        "uninitialized values. The exit status is 1 if there is one.",
        example="check reduce 5-historical",
    )
    options.family_or_file(add, cases.FAMILIES)
    which = "the rung, by number or name (default: the best); a file's kernel (default: the only)"
    add("variant", nargs="?", type=options.variant, metavar="RUNG|KERNEL", help=which)
    options.items(add, "2^14")
    options.dtype(add)
    add("--block", type=options.extent, metavar="N[,N[,N]]", help="threads per block")
    add_launch(add)
    options.simulated(add)
    options.as_json(add)
