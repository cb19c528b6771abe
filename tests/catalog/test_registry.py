"""The registry and the embedded kernels say the same; the ladder is complete."""

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import UFUNCS

import gpuopt
from gpuopt import _core
from gpuopt.families import stencil1d, vector_passes
from gpuopt.ptx import textures

FAMILIES = ["reduce", "roofline", "transpose", "stencil1d", "add", "saxpy", "matmul", "reduce_axis"]


def every_rung():
    return [rung for family in FAMILIES for rung in gpuopt.rungs(family)]


def test_every_family_is_covered_here():
    with pytest.raises(ValueError) as caught:
        gpuopt.rungs("none")
    assert re.findall(r"'(\w+)'", str(caught.value))[1:] == FAMILIES


def test_rows_and_kernels_correspond_one_to_one():
    kernels = list(_core.kernels())
    rows = [kernel for rung in every_rung() if not rung.host for kernel in rung.kernels]
    rows += [symbol for symbol, _, _ in _core.probes()]
    assert len(kernels) == len(set(kernels)) and len(rows) == len(set(rows))
    assert set(rows) - set(kernels) == set(), "rows without a kernel"
    assert set(kernels) - set(rows) == set(), "kernels without a row"


@pytest.mark.parametrize("target", [75, 90])
@pytest.mark.parametrize("file", sorted(set(_core.kernels().values())))
def test_the_ptx_of_a_kernel_is_a_module_of_its_own(file, target):
    for name in (name for name, found in _core.kernels().items() if found == file):
        ptx = _core.kernel_ptx(name, target)
        assert re.match(r"\.version 8\.\d\n\.target sm_\d+\n\.address_size 64\n", ptx)
        newer = "griddepcontrol" in ptx or "cp.async" in ptx
        targets = re.findall(r"^\.target (.*)$", ptx, re.MULTILINE)
        assert targets == ["sm_90"] if newer else targets in (["sm_75"], [f"sm_{target}"])
        assert re.findall(r"\.entry\s+([\w$]+)", ptx) == [name]
        assert ptx.isascii() and "\0" not in ptx and ptx.endswith("\n")
        # Integer tickets, which say who is last. Any other atomic lets results change from run to
        # run.
        assert set(re.findall(r"\b(?:atom|red)\.\S+", ptx)) <= {"atom.global.inc.u32"}
        assert "\t.loc\t" in ptx  # source lines, for the simulator's counters
        for call in re.finditer(r"\bcall[.\w]*\s+(?:\([^)]*\),\s*)?([\w$]+)", ptx):
            assert re.search(rf"(?m)^\.func\b[^;{{]*\b{call[1]}\b", ptx[: call.start()]), (
                name,
                call[1],
            )
        paths = re.findall(r'^\.file \d+ "(.*)"$', ptx, re.MULTILINE)
        known = re.compile(r"(csrc/kernels(/\w+)?|cuda/targets/include)/[\w.]+$")
        assert all(map(known.match, paths))


def test_a_kernel_that_does_not_exist_has_no_ptx():
    with pytest.raises(ValueError, match="none named 'reduce_0'"):
        _core.kernel_ptx("reduce_0", 75)


def test_numbers_and_names_are_unique():
    for family in FAMILIES:
        rungs = gpuopt.rungs(family)
        names = [rung.name for rung in rungs]
        variants = [rung.variant for rung in rungs]
        numbers = [rung.number for rung in rungs if rung.number is not None and not rung.historical]
        assert len(set(names)) == len(names) and all(names)
        assert len(set(variants)) == len(variants)
        assert len(set(numbers)) == len(numbers) and numbers == sorted(numbers)
        assert not any(name.isdigit() for name in names)


def test_exactly_one_best_for_each_family_and_kind():
    for family in FAMILIES:
        for host in (False, True):
            best = [rung for rung in gpuopt.rungs(family) if rung.host == host and rung.best]
            assert len(best) == 1 and not best[0].historical


def test_every_row_is_filled():
    for rung in every_rung():
        assert rung.lesson.strip() and rung.source.strip() and rung.signatures and rung.kernels
        assert rung.deck_us >= 0
        assert len(set(rung.signatures)) == len(rung.signatures)
        if rung.host:
            assert rung.block_min == rung.block_max == rung.block_default == 0
            assert len(rung.kernels) == len(rung.signatures)
            continue
        # A rung's one block, or block of one thread, is its plan's business. Deck D1's stencil has
        # blocks of half a warp.
        if rung.listing:  # the deck's ten templates, down to a block of one thread
            assert rung.historical and len(rung.signatures) == 1
        half = rung.family == "stencil1d" and rung.source.startswith("D1")
        least = 0 if rung.block_min == rung.block_max else 16 if half else 32
        assert (
            (0 if rung.listing else least)
            <= rung.block_min
            <= rung.block_default
            <= rung.block_max
            <= 1024
        )
        for block in (rung.block_min, rung.block_max, rung.block_default):
            assert block & (block - 1) == 0
        blocks = {kernel.split("_b")[1] for kernel in rung.kernels if re.search(r"_b\d+$", kernel)}
        steps = (rung.block_max // max(1, rung.block_min)).bit_length()
        if rung.family == "reduce_axis":  # a kernel serves several operations and dtypes
            assert len(rung.kernels) == 15
            continue
        assert len(rung.kernels) == len(rung.signatures) * (steps if blocks else 1)


def test_the_decks_ladder():
    """Rungs 1 to 7, faster on the decks' G80 step by step, the block of 128."""
    rungs = [rung for rung in gpuopt.rungs("reduce") if rung.deck_us and not rung.listing]
    assert [rung.number for rung in rungs if not rung.historical] == [1, 2, 3, 4, 5, 6, 7]
    assert [rung.deck_us for rung in rungs if not rung.historical] == [
        8054, 3456, 1722, 965, 536, 381, 268,
    ]  # fmt: skip
    assert all(rung.block_default == 128 and rung.block_max == 1024 for rung in rungs)
    (historical,) = (rung for rung in rungs if rung.historical)
    assert historical.name == historical.variant == "5-historical"
    assert historical.number == 5 and not historical.best
    assert [rung.name for rung in gpuopt.rungs("reduce") if rung.host] == [
        "serial", "openmp", "simd",
    ]  # fmt: skip


def test_every_rung_has_every_operation_of_the_required_dtypes():
    for rung in gpuopt.rungs("reduce"):
        if rung.listing:
            assert rung.signatures == [("sum", "int32", "int32")]
            continue
        have = {(op, items) for op, items, _ in rung.signatures}
        for op in UFUNCS:
            for items in ("int32", "int64", "float32", "float64"):
                if op in ("and", "or", "xor") and items[0] == "f":
                    assert (op, items) not in have
                else:
                    assert (op, items) in have, (rung.name, op, items)
        for op, items, accumulator in rung.signatures:
            assert op in UFUNCS
            wide, narrow = np.dtype(accumulator), np.dtype(items)
            assert narrow.itemsize <= wide.itemsize
            # a rung's partial results are reduced again, in the accumulator's type
            assert rung.host or (op, accumulator, accumulator) in rung.signatures
    for rung in gpuopt.rungs("reduce"):
        if not rung.host:
            assert ("sum", "int32", "int32") in rung.signatures  # the decks' arithmetic


def test_returned_lists_are_copies():
    """A caller who changes a list changes nobody else's."""
    first = gpuopt.rungs("reduce")[0]
    first.signatures.clear()
    first.kernels.clear()
    assert gpuopt.rungs("reduce")[0].signatures and gpuopt.rungs("reduce")[0].kernels
    with pytest.raises(AttributeError):
        first.number = 99


# --- constants of C that Python repeats

CSRC = Path(__file__).parents[2] / "csrc"


def enumerators(path, pattern):
    """Return the names that an enum or a list of macros has in its order."""
    found = re.search(pattern, (CSRC / path).read_text(), re.DOTALL)[1]
    return re.findall(r"[A-Z]\w+", re.sub(r"/\*.*?\*/", "", found))


def test_axes_texels_and_modes_are_numbered_as_in_c():
    axes = re.search(r"DEVICE_AXES = (\d+)", (CSRC / "device.h").read_text())[1]
    assert int(axes) == vector_passes.AXES
    header = (CSRC / "device.h").read_text()
    texels = re.findall(r"\bTEXEL\(([A-Z0-9_]+), \d\)", header)
    assert {np.dtype(each.lower()): at for at, each in enumerate(texels)} == textures._TEXELS
    outside = re.findall(r"OUTSIDE_(\w+)", re.search(r"enum device_outside \{.*?\}", header)[0])
    assert [each.lower() for each in outside[:-1]] == list(textures.BOUNDARIES)
    modes = [name.upper() for name in stencil1d.MODES if name != "valid"]
    assert [stencil1d.MODES[name.lower()] for name in modes] == list(range(len(modes)))
    assert stencil1d.MODES["valid"] == stencil1d.MODES["nearest"]
    assert enumerators("devices/cpu/cpu_stencil1d.c", r"enum mode \{(.*?)\}") == modes
    listed = re.search(r"#define STENCIL1D_MODES.*", (CSRC / "kernels/stencil1d.cu").read_text())[0]
    assert re.findall(r"\bMODE\(([A-Z]+)\)", listed) == modes
