"""The table and the serialiser that all results share."""

import json
from dataclasses import dataclass, field

import pytest

import gpuopt
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
    with pytest.raises(ValueError, match=f"told: is no outer of format 1.*({text})"):
        Outer.from_dict(told)


def test_results_that_were_only_written_are_read_too():
    found = gpuopt.experiments.run("double_literal", "sim")
    again = type(found).from_dict(json.loads(json.dumps(found.to_dict())))
    assert str(again) == str(found)
    swept = gpuopt.sweep("add", 1000, device="cpu")
    assert str(gpuopt.Sweep.from_dict(json.loads(json.dumps(swept.to_dict())))) == str(swept)
