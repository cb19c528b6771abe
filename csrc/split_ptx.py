"""Split nvcc's PTX of a file into the texts of its kernels, and pack texts of kernels."""

import lzma
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import accumulate

UNIT = re.compile(
    r"(?m)^(?:\.(?:visible|weak|extern|common) +)*\.(entry|func|shared|global|const)\b"
    r"(?:\s*\([^)]*\))?[^\n(]*?([\w$]+)(?=[\s(;\[=]*(?:\n|$|\(|\[|=|;))"
)
NAME = re.compile(r"[\w$]+")
TAIL = re.compile(r"(?m)^\s*\.(?:file|section)\s")  # from there on all is line information
FILE = re.compile(r'(?m)^\s*\.file\s+(\d+)\s+"([^"]*)".*$')
TOOLKIT = "cuda/targets/include/"  # how the simulator recognises work of a toolkit's header


def relative(path):
    """Return a source's path as it is in any checkout: in the project, or in the toolkit."""
    _, inside, name = os.path.normpath(path).rpartition("csrc/kernels/")
    return inside + name if inside else TOOLKIT + os.path.basename(path)


def tidy(text, toolkit_files):
    """Drop what nobody reads: comments, blank lines, names and callers of inlined functions.

    Work inlined from a toolkit's header belongs to the line that called it, which the .loc before
    it names.
    """
    lines = []
    for line in text.split("\n"):
        if '"' not in line:
            line = line.partition("//")[0]
        indent, line = "\t" if line[:1] == "\t" else "", line.strip()
        if line.startswith(".loc"):
            line, _, inlined = line.partition(",")
            if inlined and line.split()[1] in toolkit_files:
                continue
            if lines and lines[-1].startswith("\t.loc"):
                lines.pop()
        if line:
            lines.append(indent + line)
    return "\n".join(lines) + "\n"


def module(common, kernels):
    """Return the text of some kernels as one module, without line information.

    A function that several of them call stands in it once, before the first of them.
    """
    text = common + "".join(dict.fromkeys(part for parts in kernels for part in parts))
    return without_lines(text)


def without_lines(text):
    """Return a text without its line information."""
    return re.sub(r"(?m)^\s*\.(?:loc|file)\s.*\n", "", text)


def units(body):
    """Split a PTX text at its top level: yield (kind, name, text); the first is its header."""
    starts = [*UNIT.finditer(body)]
    yield "header", "", body[: starts[0].start()]
    ends = [*(match.start() for match in starts[1:]), len(body)]
    for match, end in zip(starts, ends, strict=True):
        yield match[1], match[2], body[match.start() : end]


@cache
def split(text, version):
    """Return what the kernels of a PTX text share, and {kernel's name: the parts of its text}.

    The last part is the kernel; before it are the device functions that it calls.
    """
    files = {number: relative(path) for number, path in FILE.findall(text)}
    toolkit_files = {number for number, path in files.items() if path.startswith(TOOLKIT)}
    body = TAIL.split(text, maxsplit=1)[0]
    common, declared, functions, kernels = [], {}, {}, {}
    for kind, name, unit in units(body):
        unit = tidy(unit, toolkit_files)
        if kind == "entry":
            kernels[name] = unit
        elif kind == "func":
            (functions if "{" in unit else declared)[name] = unit
        else:
            common.append(re.sub(r"(?m)^\.version .*$", f".version {version}", unit))
    common += [f'.file {number} "{path}"\n' for number, path in files.items()]
    for name, unit in kernels.items():
        called = calls(unit, functions)  # in the file's order: some are defined, not declared first
        before = [
            texts[each] for texts in (declared, functions) for each in texts if each in called
        ]
        kernels[name] = (*before, unit)
    return "".join(common), kernels


def calls(unit, functions):
    """Return the names of the device functions that a kernel's text needs, directly or not."""
    found, texts = {}, [unit]
    while functions and texts:
        for name in dict.fromkeys(NAME.findall(texts.pop())):
            if name in functions and name not in found:
                found[name] = None
                texts.append(functions[name])
    return found.keys()


class Archive:
    """Texts, joined to blocks that are compressed one by one into one file.

    Kernels of one template differ in few words, so a block of them takes half the bytes that they
    take apart. A block is decompressed whole: in 1 to 4 ms at this size.
    """

    BLOCK = 320 << 10  # bytes of text

    def __init__(self):
        self.blocks = [bytearray()]

    def add(self, *texts):
        """Append texts that share a block; return a row for each: [block, offset, bytes]."""
        texts = [text.encode() for text in texts]
        if self.blocks[-1] and len(self.blocks[-1]) + sum(map(len, texts)) > self.BLOCK:
            self.blocks.append(bytearray())
        rows = []
        for text in texts:
            rows.append([len(self.blocks) - 1, len(self.blocks[-1]), len(text)])
            self.blocks[-1] += text
        return rows

    def compressed(self, preset):
        """Return all streams, and a row for each block: [offset, compressed bytes, bytes]."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # Text has no words at multiples of 4 bytes: 2% fewer bytes.
            places = {"dict_size": 1 << 20, "lc": 2, "lp": 0, "pb": 0}
            filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, **places}]
            streams = list(pool.map(partial(lzma.compress, filters=filters), self.blocks))
        ends = list(accumulate(map(len, streams), initial=0))
        rows = zip(ends, map(len, streams), map(len, self.blocks), strict=False)
        return b"".join(streams), [list(row) for row in rows]
