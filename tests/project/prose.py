"""The rules of plain prose: find sentences that a reader must read twice.

Checked are comments, docstrings and paragraphs of Markdown; code, tables and doctests are not.
"""

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
C = {".c", ".h", ".cu", ".cuh", ".def"}
PYTHON = {".py", ".pyi"}

# A sentence begins with its subject, not with a noun clause or a genitive; a question may.
OPENERS = re.compile(r"(What|Of|Whose|That which|Such|Which)\b(?![^.?!]*\?)")
# Vague or archaic phrases. Say: receives, n, at most n, owned by, which it has, in flight.
PHRASES = re.compile(
    r"\b(is told|are told|so many|as many as|whose (are|is)\b|that it has|under way"
    r"|gives? up first|what (is|was|are|comes|it|they|else|changes|holds) )",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.:;])\s+")
STRING = re.compile(r'"(\\.|[^"\\])*"')


def breaks_rules(sentences):
    """Return whether a line of prose breaks a rule."""
    starts = any(OPENERS.match(each) for each in SENTENCE.split(sentences))
    return bool(starts or PHRASES.search(sentences))


def of_c(text):
    """Yield (line, prose) of the comments of C or CUDA C."""
    block = False
    for number, line in enumerate(text.splitlines(), 1):
        found = line.strip().lstrip("*")
        if not block:
            _, mark, found = (*re.split(r"(//|/\*)", STRING.sub("", line), maxsplit=1), "", "")[:3]
            block = mark == "/*"
        yield number, found.partition("*/")[0].strip()
        block = block and "*/" not in found


def of_python(text):
    """Yield (line, prose) of the comments and docstrings of Python."""
    statement = True  # a string that begins a statement is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#").strip()
        elif token.type == tokenize.STRING and statement:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                if not line.strip().startswith((">>>", "...")):
                    yield number, line.strip().strip('"')
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            statement = statement or token.type == tokenize.ENCODING


def of_markdown(text):
    """Yield (line, prose) of Markdown's paragraphs and lists."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        fenced ^= bare.startswith("```")
        if not fenced and not bare.startswith(("|", "`", "<", "#")) and line[:4] != "    ":
            yield number, re.sub(r"^([-*]|\d+\.) ", "", bare)


def offenders(path):
    """Return "path:line: prose" for each line of a file that breaks a rule."""
    suffix = path.suffix
    reader = of_c if suffix in C else of_python if suffix in PYTHON else of_markdown
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [f"{name}:{number}: {prose}" for number, prose in reader(text) if breaks_rules(prose)]


def files_of(area):
    """Return the files with prose below a path of the project, or the file itself."""
    path = ROOT / area
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [each for each in found if each.suffix in C | PYTHON | {".md"}]
