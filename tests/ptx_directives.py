"""Run the directives in tests/ptx/*.ptx (documented in tests/sim/runner.c) through gpuopt.

Hardware can confirm buffers, launches and their results. A launch with findings must not run on
hardware, and counters exist on the simulator only; the runner in C checks both.
"""

import re

import numpy as np

import gpuopt

DTYPES = {"f16": np.dtype(np.uint16)} | {
    f"{'f' if code == 'f' else code[0]}{8 * size}": np.dtype(f"{kind}{size}")
    for code, kind, sizes in (
        ("u", "u", (1, 2, 4, 8)),
        ("s", "i", (1, 2, 4, 8)),
        ("f", "f", (4, 8)),
    )
    for size in sizes
}
ELSEWHERE = {
    "gpu",
    "limit",
    "texture",
    "cached",
    "fails",
}  # of a file: only the runner in C can do these
DIRECTIVE = re.compile(
    r"^// (gpu|limit|buffer|texture|launch|cooperative|cached|expect|counter|finding|fails):(.*)",
    re.M,
)
# Names of inlined functions, whose section tests/ptx/make.sh leaves out: nvcc's compiler needs it.
INLINED = re.compile(r", function_name [^,\n]*, inlined_at [^\n]*")


def without_names(text):
    """Return the text as hardware's compiler takes it."""
    return INLINED.sub("", text)


def item(type_, word):
    """Return a literal as an element of a type; 0x is its bits."""
    dtype = DTYPES[type_]
    if word[:2].lower() == "0x":
        bits = int(word, 16) & (1 << 8 * dtype.itemsize) - 1
        return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0]
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(word).astype(dtype)[()]
    bits = int(word, 0) & (1 << 8 * dtype.itemsize) - 1
    return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0]


def seeds(seed, count):
    """Return the runner's random numbers: what its generator gives from a seed."""
    factor, constant = 6364136223846793005, 1442695040888963407
    found = np.array([(seed * factor + constant) % 2**64], np.uint64)
    while found.size < count:  # doubles the sequence
        found = np.concatenate([found, found * np.uint64(factor) + np.uint64(constant)])
        factor, constant = factor * factor % 2**64, (factor * constant + constant) % 2**64
    return found[:count]


def items(type_, count, words):
    """Return what a buffer holds at first."""
    dtype = DTYPES[type_]
    if words[0] == "zero":
        return np.zeros(count, dtype)
    if words[0] == "iota":
        return np.arange(count).astype(dtype)
    if words[0] == "random":
        found = seeds(int(words[1]) if len(words) > 1 else 1, count)
        if type_ == "f64":  # the runner writes 9 digits
            return np.array([float(f"{x:.9g}") for x in (found >> np.uint64(40)) / 2**24])
        return (
            (found >> np.uint64(40)) / 2**24 if dtype.kind == "f" else found >> np.uint64(44)
        ).astype(dtype)
    return np.resize(np.array([item(type_, word) for word in words], dtype), count)


def wrong(got, word, type_):
    """Return whether a value differs from the expected one; ~ allows 1e-6, else bits count."""
    if word == "-":
        return False
    want = item(type_, word.removeprefix("~"))
    if word[0] == "~":
        return not abs(float(got) - float(want)) <= 1e-6 * abs(float(want)) + 1e-30
    return got.tobytes() != want.tobytes()


def triple(word):
    return tuple(int(part) for part in word.split(","))


class Run:
    """One file on one device."""

    def __init__(self, text, device):
        self.module = gpuopt.load_ptx(text, device)
        self.buffers, self.types = {}, {}
        self.failures, self.compared, self.launched = [], 0, 0

    def buffer(self, name, type_, count, *words):
        self.types[name] = type_
        count = int(count, 0)
        self.buffers[name] = (
            self.module.empty(count * DTYPES[type_].itemsize)
            if words[0] == "none"
            else self.module.copy(items(type_, count, words))
        )

    def launch(self, name, grid, block, shared, *words):
        arguments = []
        for word, parameter in zip(words, self.module[name].parameters, strict=True):
            if word in self.buffers:
                arguments.append(self.buffers[word])
                continue
            value = item(*word.split(":"))
            same = len(value.tobytes()) == parameter.size and parameter.type not in (".f32", ".f64")
            bits = int.from_bytes(value.tobytes(), "little", signed=parameter.type[1] == "s")
            arguments.append(bits if same else value)
        self.module[name](triple(grid), triple(block), *arguments, shared=int(shared, 0))
        self.launched += 1

    def expect(self, place, *words):
        name, at = place.rstrip("]").split("[")
        got = self.buffers[name].get(DTYPES[self.types[name]])
        for i, word in enumerate(words, int(at, 0)):
            self.compared += word != "-"
            if wrong(got[i], word, self.types[name]):
                self.failures.append(f"{name}[{i}] is {got[i]!r}, not {word}")


def run(text, device):
    """Run a file's launches that have no findings; return the Run."""
    found = [(name, rest.split()) for name, rest in DIRECTIVE.findall(text)]
    runs, skipping = Run(text, device), False
    for at, (name, words) in enumerate(found):
        if name in ("launch", "cooperative"):
            following = []
            for other, _ in found[at + 1 :]:
                if other in ("launch", "cooperative"):
                    break
                following.append(other)
            skipping = name == "cooperative" or "finding" in following
        if name == "buffer" or (name in ("launch", "expect") and not skipping):
            getattr(runs, name)(*words)
    return runs
