"""Sphinx's settings: python -m sphinx -W -b html docs build/site."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import roles

import gpuopt

DOCS = Path(__file__).parent
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]

project = "gpuopt"
author = copyright = "the gpuopt developers"
version = release = PROJECT["version"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_generated"]
default_role = "name"  # docstrings name objects in single backticks

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # they are stored with outputs, which tests/project compares
nb_render_image_options = {"width": "100%"}

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings have them
autodoc_default_options = {"members": True, "exclude-members": "KIND, FORMAT, WITHOUT"}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # a parameter's type "dtype" is no link to some class's attribute
napoleon_use_ivar = True


def name_role(
    role: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Any = None,
    content: Any = None,
) -> tuple[list[Any], list[Any]]:
    """Link public names of gpuopt; all else is code, since many classes have a `name`."""
    path = text.removeprefix("gpuopt.")
    found: Any = gpuopt
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        return [nodes.literal(rawtext, text)], []
    refer, _ = roles.role("py:obj", None, lineno, inliner.reporter)
    return refer("py:obj", rawtext, f"{text} <gpuopt.{path}>", lineno, inliner)


def show_commands(app: Any, name: str, source: list[str]) -> None:
    """Show the command that wrote a table, which stands in a comment before it."""
    source[0] = re.sub(r"<!-- \S+: written by (`.*?`) -->", r"Written by \1:\n", source[0])


def setup(app: Any) -> None:
    """Add the role of single backticks, and the commands above tables."""
    app.add_role("name", name_role)
    app.connect("source-read", show_commands)


html_theme = "pydata_sphinx_theme"
html_title = "gpuopt"
html_static_path: list[str] = []
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"notebooks/*": [], "[!n]*": ["page-toc"]},
    "header_links_before_dropdown": 6,
}
html_sidebars = {path.stem: [] for path in DOCS.glob("*.md") if path.stem != "lessons"}


def copy_notebooks() -> None:
    """Bring the notebooks below the folder that Sphinx reads."""
    shutil.copytree(DOCS.parent / "notebooks", DOCS / "notebooks", dirs_exist_ok=True)


def write_commands() -> None:
    """Write the help of every command, which the page on the command line includes."""
    from gpuopt.cli import main

    os.environ["COLUMNS"] = "90"
    parser = main._parser()
    (commands,) = (
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    text = "".join(
        f"### {name}\n\n```text\n{command.format_help().rstrip()}\n```\n\n"
        for name, command in commands.items()
    )
    (DOCS / "_generated").mkdir(exist_ok=True)
    (DOCS / "_generated" / "commands.md").write_text(text)


copy_notebooks()
write_commands()
