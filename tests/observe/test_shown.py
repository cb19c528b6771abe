"""The display of results: in a REPL, in Jupyter, in a table's heading."""

import copy
import json
import pickle

import numpy as np
import pytest

import gpuopt
from gpuopt.observe.profile import Counters

X = np.random.default_rng(0).random(1 << 12, np.float32)


@pytest.fixture(scope="module")
def results():
    """Return results by name, each of a small problem on simulated GPUs."""
    ladder = gpuopt.ladder("reduce", 4096, device="sim")
    return {
        "ladder": ladder,
        "profile": gpuopt.profile(gpuopt.reduce, X, variant=3),
        "roofline": gpuopt.roofline("sim:m2090"),
        "case study": gpuopt.matmul_case_study("sim:m2090"),
        "trace": gpuopt.trace("reduce", 3),
        "source": gpuopt.source("reduce", 3),
        "diff": gpuopt.diff("reduce", 2, 3),
        "rungs": gpuopt.rungs("reduce"),
        "devices": gpuopt.devices(),
        "findings": gpuopt.check(gpuopt.reduce, X, variant="5-historical"),
        "experiment": gpuopt.experiments.banks(device="sim:h200"),
    }


def test_repr_summarizes_the_result(results):
    for name, result in results.items():
        shown = repr(result)
        assert shown == str(result) and "\n" in shown, name
        assert len(shown) < 12_000 and "=[" not in shown, name
    assert "<svg" not in repr(gpuopt.trace("reduce", 3).tree())


def test_dicts_have_a_kind_and_a_format(results):
    counted = results["profile"]
    more = {
        "bounds": counted.bounds("h200"),
        "prediction": counted.predicted(),
        "timeline": counted.timeline(),
        "difference": gpuopt.profile(gpuopt.reduce, X, variant=4).difference(counted),
    }
    kinds = set()
    for name, result in (results | more).items():
        if not isinstance(result, list):
            told = json.loads(json.dumps(result.to_dict()))
            assert list(told)[:2] == ["kind", "format"] and len(told) > 2, name
            kinds.add(told["kind"])
    assert len(kinds) == len(results) + len(more) - 3


def test_a_table_in_jupyter_has_its_head(results):
    for result in (results["profile"].bounds("h200"), results["profile"].predicted()):
        head = repr(result).splitlines()[0]
        page = result._repr_html_()
        assert head in page and page.count("</tr>") == 1 + len(result.launches)


@pytest.mark.parametrize("name", ["rungs", "devices", "findings"])
def test_a_list_is_a_table(results, name):
    listed = results[name]
    lines = repr(listed).splitlines()
    assert isinstance(listed, list) and len(lines) == 1 + len(listed) > 1
    page = listed._repr_html_()
    assert page.count("<tr>") == len(lines) and page.count("</td>") % len(listed) == 0
    if name != "findings":
        assert listed[0].name in lines[1] and listed[0].name in page
    for again in (copy.copy(listed), copy.deepcopy(listed), pickle.loads(pickle.dumps(listed))):
        assert again == listed


def test_a_profile_counts_blocks_and_threads_along_all_axes():
    a = np.ones((128, 512), np.float32)
    shown = repr(gpuopt.profile(gpuopt.transpose, a, variant="padded")).splitlines()
    assert shown[0] == "1 launch on sim:h200" and ", 64 blocks of 256, occupancy" in shown[1]
    shown = repr(gpuopt.profile(gpuopt.reduce, X, variant=3)).splitlines()
    assert shown[0] == "2 launches on sim:h200"
    assert ", 32 blocks of 128," in shown[1] and ", 1 block of " in shown[4]


def test_empty_list_of_findings_has_a_plain_repr():
    found = gpuopt.check(gpuopt.reduce, X, variant=5)
    assert found == [] and repr(found).startswith("nothing found in 2,176 threads of 2 launch")


def test_html_is_escaped():
    (rung,) = (each for each in gpuopt.rungs("transpose") if each.name == "tex")
    listed = gpuopt.rungs("transpose")
    page = listed._repr_html_()
    assert "<td" in page and rung.lesson.replace("'", "&#x27;") in page


def test_a_heading_names_the_blocks_that_ran():
    def heading(*arguments, **keywords):
        return str(gpuopt.ladder(*arguments, **keywords)).splitlines()[0]

    assert "blocks" not in heading("reduce", 4096, device="sim")
    assert "blocks" not in heading("matmul", 1024, device="sim")
    assert "blocks" not in heading("reduce", 4096, device="cpu", block=64, rounds=1)
    assert ", blocks of 64 where a rung leaves it open, on" in heading(
        "reduce", 4096, device="sim", block=64
    )


def test_deck_with_rates_is_compared_by_rate():
    table = str(gpuopt.ladder("transpose", 64 * 64, device="sim"))
    rows = [line for line in table.splitlines() if line.startswith("3 tex  ") and "137.4" in line]
    assert table.count("deck: K40") == len(rows) == 2  # counted and predicted
    assert all(tex.split()[-2:] == ["3.30x", "9.88x"] for tex in rows)
    records = gpuopt.ladder("transpose", 64 * 64, device="cpu", rounds=1).records()
    assert [each["deck_gbs"] for each in records[:3]] == [None, 13.9, None]


def test_ratios_of_counters():
    counted = Counters(
        [
            {
                "global_load_requests": 10,
                "global_load_sectors": 40,
                "global_load_transactions": 20,
                "global_load_bytes_moved": 1280,
                "global_load_bytes": 640,
                "global_store_requests": 4,
                "global_store_sectors": 128,
                "global_store_bytes": 512,
                "global_store_transactions": 128,
                "global_store_bytes_moved": 4096,
                "shared_load_conflicts": 3,
                "shared_store_conflicts": 4,
                "warp_instructions": 100,
                "thread_instructions": 800,
            }.get(name, 0)
            for name in Counters()
        ]
    )
    assert counted.sectors_per_load == 4 and counted.sectors_per_store == 32
    assert counted.transactions_per_load == 2 and counted.transactions_per_store == 32
    assert counted.load_efficiency == 0.5 and counted.store_efficiency == 0.125
    assert counted.bank_conflicts == 7 and counted.warp_efficiency == 0.25
    nothing = Counters()
    assert nothing.sectors_per_load == nothing.load_efficiency == nothing.warp_efficiency == 0
