"""The decks' printed figures beside what this project measures or estimates."""

import math
from itertools import pairwise

import numpy as np
import pytest

import gpuopt
from gpuopt import models
from gpuopt.catalog.deck import KINDS, printed
from gpuopt.catalog.rungs import find
from gpuopt.observe import machine

REGISTERS = {"naive": 15, "shared": 20, "2-targets": 23, "4-targets": 32, "8-targets": 51}
OCCUPANCY = {"naive": 2 / 3, "shared": 2 / 3, "2-targets": 2 / 3, "4-targets": 2 / 3,
             "8-targets": 1 / 3}  # fmt: skip


@pytest.mark.parametrize("name", REGISTERS)
def test_the_decks_registers_explain_its_occupancy(name):
    """D2's table is consistent: the calculator's rule gives its occupancies from its registers."""
    rung = find("matmul", name)
    told = printed(rung)
    assert told.registers == REGISTERS[name]
    assert told.occupancy == pytest.approx(OCCUPANCY[name], abs=0.001)
    found = models.occupancy("m2090", rung.block_default, registers=told.registers, shared=8192)
    if name in ("naive", "shared", "8-targets"):
        assert found.warps / found.max_warps == pytest.approx(told.occupancy, abs=0.001)


def test_case_study_shows_the_decks_registers_beside_an_estimate():
    study = gpuopt.matmul_case_study("sim:m2090")
    rows = {row.rung: row for row in study.rows}
    for name, registers in REGISTERS.items():
        row = rows[name]
        assert row.deck_registers == registers and row.registers > registers
        assert row.deck_occupancy == pytest.approx(OCCUPANCY[name], abs=0.001)
        assert 0 <= row.occupancy <= row.deck_occupancy + 0.001
    assert rows["stream-k"].deck_registers == rows["stream-k"].registers == 0
    assert "estimated: from the PTX" in str(study)
    again = gpuopt.CaseStudy.from_dict(study.to_dict())
    assert again.rows == study.rows


def test_case_study_and_ladder_show_ptxas_registers_where_it_is_at_hand(monkeypatch):
    def shown():
        machine.machine_of.cache_clear()
        study = gpuopt.matmul_case_study("sim:m2090")
        return study, gpuopt.ladder("matmul", 32 * 32, device="sim:m2090")

    if machine._tool("ptxas"):
        study, ladder = shown()
        rows = {row.rung: row for row in study.rows}
        for name in REGISTERS:
            assert REGISTERS[name] < rows[name].compiled_registers < 256
            found = models.occupancy(
                "m2090", find("matmul", name).block_default,
                registers=rows[name].compiled_registers, shared=8192 * (name != "naive"),
            )  # fmt: skip
            assert rows[name].compiled_occupancy == found.warps / found.max_warps
        told = {row.rung.name: row.compiled_registers for row in ladder.rows}
        assert told["naive"] == rows["naive"].compiled_registers
        assert "ptxas, sm_75" in str(study) and "sm_75" in str(ladder)
    monkeypatch.setenv("GPUOPT_PTXAS", "none")
    study, ladder = shown()
    assert not any(row.compiled_registers for row in [*study.rows, *ladder.rows])
    assert "sm_75" not in str(study) + str(ladder)
    machine.machine_of.cache_clear()


def test_deck_rates_are_the_printed_ones():
    rates = [printed(find("reduce", variant)) for variant in range(1, 8)]
    assert [each.rate for each in rates] == [2.083, 4.854, 9.741, 17.377, 31.289, 43.996, 62.671]
    assert [each.total for each in rates][3:] == [8.34, 15.01, 21.16, 30.04]
    for variant, told in enumerate(rates, 1):  # rounded on the way, by less than a percent
        time = find("reduce", variant).deck_us
        assert told.rate == pytest.approx(4e-3 * 2**22 / time, rel=0.01)
    products = [printed(find("matmul", name)).rate for name in REGISTERS]
    assert products == [72.48, 227.6, 332.3, 424.7, 474.2]


def test_ladder_shows_busy_multiprocessors_where_a_grid_is_small():
    """Deck D1: a thread per row of 1,024 gives 4 blocks of 256 for the K40's 15 multiprocessors."""
    told = str(gpuopt.ladder("transpose", 1 << 20, device="sim:k40", block=256)).splitlines()
    begin = told.index("how the rungs fill 15 multiprocessors, in their largest launch:")
    rows = {line.split()[1]: line.split()[2:] for line in told[begin + 3 :]}
    assert rows["1d"] == ["4", "4"] and rows["2d"] == ["4,096", "15"]
    full = gpuopt.ladder("add", 1 << 16, device="sim:g80", block=128)
    full.rows = [row for row in full.rows if row.rung.name == "vector"]
    assert "how the rungs fill" not in str(full)


def test_ladder_of_matmul_has_registers_and_occupancy():
    measured = gpuopt.ladder("matmul", 1 << 12, device="sim:m2090")
    told = str(measured)
    assert "deck's" in told and "estimated" in told
    assert all(row.registers > 0 for row in measured.rows)
    assert gpuopt.Ladder.from_dict(measured.to_dict()).rows[0].registers


def test_registers_are_a_ceiling():
    """Deck D2: 12 bytes x 512 x 1.3 GHz = 8 TB/s."""
    roof = gpuopt.roofline("sim:m2090")
    assert roof.ceiling("registers").rate == pytest.approx(8e12, rel=0.01)
    flops = roof.attainable(2 / 12, dtype="float32", memory="registers")
    assert flops == pytest.approx(roof.ceiling("FMA float32").rate)  # an FMA reads 12 bytes


def test_case_study_shows_deck_0s_own_ladder_on_its_two_gpus():
    study = gpuopt.matmul_case_study("sim:g80")
    assert gpuopt.matmul_case_study("sim:gt200").tiles == study.tiles
    assert not gpuopt.matmul_case_study("sim:m2090").tiles
    rows = study.tiles
    assert [(row.deck_gt200, row.deck_g80) for row in rows] == [
        (8.8, 0.7),
        (14.3, 8.2),
        (29.7, 15.7),
    ]
    for name in ("gt200", "g80"):  # the model's steps are the deck's, but for a third
        for before, after in pairwise(rows):
            step = getattr(before, name) / getattr(after, name)
            deck = getattr(after, f"deck_{name}") / getattr(before, f"deck_{name}")
            assert 2 / 3 < step / deck < 3 / 2, (name, after.rung)
    # A load of one element by a half-warp: 1 transaction on the GTX 280, 16 on the 8800 GTX.
    assert rows[0].g80_transactions > 5 * rows[0].gt200_transactions
    assert rows[2].g80_transactions == rows[2].gt200_transactions
    assert "8800 GTX" in str(study) and "deck D0's ladder" in str(study)
    assert gpuopt.CaseStudy.from_dict(study.to_dict()) == study


def test_ladders_show_the_two_cpus_and_the_two_kinds_of_steps():
    """Deck D1: 0.7, 3 and 10 times the two sockets; deck D4: 11.84 and 2.54."""
    told = str(gpuopt.ladder("transpose", 64 * 64, device="sim:k40"))
    table = told.partition("predicted times")[0].splitlines()
    rows = {line.split()[1]: line.split()[-1] for line in table if line[:2] in ("1 ", "2 ", "3 ")}
    assert [rows[name] for name in ("1d", "2d", "tex")] == ["0.70x", "2.99x", "9.88x"]
    told = str(gpuopt.ladder("reduce", 1 << 14, device="sim:g80"))
    assert "11.84x in the deck" in told and "2.54x in the deck" in told
    assert "in the deck" not in str(gpuopt.ladder("add", 1 << 10, device="sim:k40"))
    steps = [printed(find("reduce", rung)).step for rung in range(2, 8)]
    for numbers, deck in KINDS.values():
        assert math.prod(steps[rung - 2] for rung in numbers) == pytest.approx(deck, rel=0.01)


def test_nvprof_has_the_decks_throughputs():
    """Deck D1's profile of the tile of 32 x 32: 1,746.8, 109.2 and 54.6 GB/s."""
    a = np.ones((1024, 1024), np.float32)
    told = gpuopt.profile(
        gpuopt.transpose, a, variant="4-historical", device="sim:k40", caches=True
    ).nvprof()
    deck = {"shared_load": 1746.8, "shared_store": 109.2, "gst": 54.6}
    for name, rate in deck.items():
        assert told[f"{name}_throughput"] == pytest.approx(rate * 1e9, rel=0.25)
    assert told["shared_load_throughput"] == 16 * told["shared_store_throughput"]
