"""The table and the serialiser that all results share."""

import json
from dataclasses import dataclass, field

import pytest

import gpuopt
from gpuopt.measure.bench import BenchRow
from gpuopt.measure.race import Timing
from gpuopt.util.serialise import POSITIVE, Result, to_plain
from gpuopt.util.table import Column, Table

COLUMNS = (
    Column("name", "rung", left=True, least=8),
    Column("seconds", "warm\nus", ",.1f", 1e6),
    Column("ratio", "step", "{:.2f}x"),
    Column("nothing", "empty"),
)
RECORDS = ({"name": "a <b>", "seconds": 1.25e-3}, {"name": "c", "seconds": 2e-6, "ratio": 3})


def test_a_table_aligns_numbers_and_leaves_out_empty_columns():
    assert Table(COLUMNS, RECORDS).lines() == [
        "             warm",
        "rung           us   step",
        "a <b>     1,250.0",
        "c             2.0  3.00x",
    ]
    assert Table(COLUMNS, []).lines() == []


def test_small_numbers_keep_a_digit():
    column = Column("seconds", "us", ",.1f", 1e6)
    shown = [column.cell({"seconds": each}) for each in (0, 4.2e-8, 6e-8, -1e-9, 1.25e-6)]
    assert shown == ["0.0", "0.042", "0.1", "-0.001", "1.2"]
    assert Column("share", "share", ".0%").cell({"share": 1e-4}) == "0%"


def test_html_is_escaped_and_plain_html_has_no_style():
    table = Table(COLUMNS, RECORDS)
    page = table.html("a & b", ["note"])
    assert "a &lt;b&gt;" in page and "a &amp; b" in page and page.count("<tr>") == 3
    assert "style" not in table.html(styled=False) and "empty" not in page


@dataclass
class Inner:
    value: float = field(metadata=POSITIVE)
    pairs: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Outer(Result):
    KIND = "outer"

    inner: Inner
    named: dict[str, Inner]
    limit: int | None = None


def test_a_result_is_read_as_it_was_written():
    made = Outer(Inner(1.5, [("a", 1)]), {"x": Inner(2.0)}, None)
    told = json.loads(json.dumps(made.to_dict()))
    assert told["kind"] == "outer" and told["format"] == 1
    assert Outer.from_dict(told) == made
    assert Outer.from_dict(told | {"unknown": 1}) == made, "a later version may have more"
    assert to_plain({"o": made})["o"]["kind"] == "outer"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"inner": {"value": 0.0}}, "value: must be more than 0"),
        ({"inner": {"value": "1"}}, "value: must be float"),
        ({"inner": {"value": float("nan")}}, "value: must be finite"),
        ({"inner": {}}, "value"),
        ({"inner": {"value": 1.0, "pairs": [["a"]]}}, "shorter"),
        ({"named": {"x": 3}}, "not iterable|argument"),
        ({"limit": True}, "limit: must be int"),
        ({"kind": "other"}, "it is a other"),
    ],
    ids=str,
)
def test_a_broken_result_is_refused_by_name(change, text):
    told = Outer(Inner(1.0), {}).to_dict() | change
    with pytest.raises(ValueError, match=rf"told: is not the outer \(format 1\).*({text})"):
        Outer.from_dict(told)


def test_results_that_were_only_written_are_read_too():
    found = gpuopt.experiments.run("double_literal", "sim")
    again = type(found).from_dict(json.loads(json.dumps(found.to_dict())))
    assert str(again) == str(found)
    swept = gpuopt.sweep("add", 1000, device="cpu")
    assert str(gpuopt.Sweep.from_dict(json.loads(json.dumps(swept.to_dict())))) == str(swept)


NOISY, QUIET = [1e-6, 2e-6, 3e-6, 4e-6, 5e-6], [2e-6] * 5


def noisy_results():
    """Yield what kinds of results show when one of their timings has these samples."""

    def ladder(samples):
        measured = gpuopt.ladder("saxpy", 4096, device="cpu", rounds=1)
        for row in measured.rows:
            row.warm.samples = row.cold.samples = QUIET
        measured.rows[0].warm.samples = samples
        return str(measured), measured._repr_html_()

    def sweep(samples):
        swept = gpuopt.sweep("add", [1000], device="cpu")
        for trial in swept.sizes[0].trials:
            trial.timing.samples = QUIET
        swept.sizes[0].trials[-1].timing.samples = samples
        return (str(swept),)

    def bench(samples):
        device = gpuopt.sweep("add", [8], device="cpu").device
        row = BenchRow("sum", "a work", 1, warm=Timing(samples), cold=Timing(QUIET))
        measured = gpuopt.Bench(device, [row])
        return measured.table(), measured._repr_html_()

    def experiment(samples):
        found = gpuopt.experiments.double_literal(1024, device="sim")
        found.rows[0].values["spread"] = Timing(samples).spread
        return str(found), found._repr_html_()

    return ladder, sweep, bench, experiment


@pytest.mark.parametrize("made", noisy_results(), ids=lambda made: made.__name__)
def test_wide_spreads_are_explained(made):
    for text in made(NOISY):
        assert "1 timing with a spread above 20%, up to 67%: other programs ran" in text
    for text in made(QUIET):
        assert "other programs ran" not in text
