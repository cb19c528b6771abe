"""The prose of comments, docstrings and Markdown follows the rules of prose.py."""

import pytest
from prose import ROOT, breaks_rules, files_of, of_c, of_markdown, of_python, offenders

# Lines that still break a rule, by area. A limit only goes down: lower it to the number that
# the test reports. An area without an entry has 0.
LIMITS: dict[str, int] = {}


def areas():
    """Return the areas that partition the project: folders of gpuopt and of tests, and files."""
    found = ["csrc", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("*.md")))]
    found += ["setup.py"]
    found += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.*"))]
    for top in ("gpuopt", "tests"):
        for path in sorted((ROOT / top).iterdir()):
            if files_of(path) and path.name != "__pycache__":
                found.append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("area", areas())
def test_prose_keeps_to_the_rules(area):
    found = [line for path in files_of(area) for line in offenders(path)]
    limit = LIMITS.get(area, 0)
    assert len(found) <= limit, "rewrite:\n" + "\n".join(found)
    assert len(found) == limit, f"lower LIMITS[{area!r}] to {len(found)}"


def test_limits_name_areas():
    assert set(LIMITS) <= set(areas())


@pytest.mark.parametrize(
    "text",
    [
        "What is read only once is not cached.",
        "Raises. Of a scalar it is the value",
        "Whose an address is.",
        "The kernel is told the size.",
        "It moves so many bytes.",
        "returns what it holds ",
    ],
)
def test_unclear_sentence_is_found(text):
    assert breaks_rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "What does a bank conflict cost?",
        "The planner picks the rung, of which there are 13.",
        "Returns the sum.",
    ],
)
def test_clear_sentence_passes(text):
    assert not breaks_rules(text)


def test_prose_of_c_is_comments_only():
    text = 'int a; // one\n/* two\n * three */ int b;\nputs("// four"); /* five */\n'
    assert list(of_c(text)) == [(1, "one"), (2, "two"), (3, "three"), (4, "five")]


def test_prose_of_python_is_docstrings_and_comments():
    text = '"""One.\n\n>>> two\n"""\nx = """three"""  # four\n\n\ndef f():\n    """Five."""\n'
    assert [prose for _, prose in of_python(text) if prose] == ["One.", "four", "Five."]


def test_prose_of_markdown_is_paragraphs_and_lists():
    text = "# Head\nOne.\n```\ntwo\n```\n| three |\n- four\n"
    assert [prose for _, prose in of_markdown(text) if prose] == ["One.", "four"]
