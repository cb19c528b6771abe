"""The page "from slide to call": up to date, and every call on it runs."""

import re
import runpy
from pathlib import Path

import pytest

import gpuopt

DOCS = Path(__file__).parents[2] / "docs"
if not DOCS.exists():
    pytest.skip("no source tree", allow_module_level=True)
PAGE = runpy.run_path(str(DOCS / "slides.py"))
TEXT = (DOCS / "slides.md").read_text()
SETUP = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
CALLS = dict.fromkeys(re.findall(r"(?m)^\|.*\| `(.*)` \|$", TEXT))


def test_page_is_that_of_the_tables():
    assert PAGE["page"]() == TEXT, "run: python docs/slides.py"


def test_every_deck_and_every_rung_of_one_is_there():
    for deck in PAGE["DECKS"]:
        calls = "\n".join(call for _, call in PAGE["rows"](deck))
        for family in PAGE["CALLS"]:
            for rung in gpuopt.rungs(family):
                named = re.findall(r"\bD\d\b", rung.source)
                if rung.source[0] == "D" and deck in named and not rung.host:
                    variant = repr(rung.variant).replace("'", '"')
                    found = re.findall(rf"{family}\b.*variant={re.escape(variant)}[,)]", calls)
                    assert found, (deck, family, rung.variant)


@pytest.mark.parametrize("call", CALLS)
def test_call_runs(call):
    names = {}
    exec(SETUP, names)
    if 'device="cuda"' in call and not gpuopt.available("cuda"):
        with pytest.raises(gpuopt.DeviceError):
            exec(call, names)
        return
    try:
        assert eval(call, names) is not None
    except ImportError:
        assert "gpuopt.compile" in call
        pytest.skip("needs NVRTC or nvcc")
