"""An argument parser that suggests the nearest name."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any, NoReturn

from gpuopt.util.names import nearest


def program() -> str:
    """Return how the user started the command line: "gpuopt" or "python -m gpuopt"."""
    name = os.path.basename(sys.argv[0] or "")
    return "gpuopt" if name in ("gpuopt", "gpuopt.exe") else "python -m gpuopt"


class Parser(argparse.ArgumentParser):
    """argparse's parser, with suggestions in its errors."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            listed = ", ".join(map(repr, known))
            raise argparse.ArgumentError(
                action,
                f"invalid choice: {value!r}; use one of {listed}{nearest(value, known)}",
            )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an unknown option is compared with those of the command."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            options = [*self._options_of(getattr(parsed, "command", None))]
            hints = [
                f"{each}{nearest(each.split('=')[0], options).replace('; ', ' (')}"
                + (")" if nearest(each.split("=")[0], options) else "")
                for each in rest
            ]
            self.error(f"unrecognized arguments: {' '.join(hints)}")
        return parsed

    def _options_of(self, command: str | None) -> list[str]:
        parsers: list[argparse.ArgumentParser] = [self]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and command in action.choices:
                parsers.append(action.choices[command])
        return [name for each in parsers for name in each._option_string_actions]

    def error(self, message: str) -> NoReturn:
        """Print the usage's first line and the error, and end with status 2."""
        usage = re.sub(r"\s+", " ", self.format_usage()).strip()
        if len(usage) > 79:
            usage = f"usage: {self.prog} ...   ({self.prog} --help lists the arguments)"
        self.exit(2, f"{usage}\n{self.prog}: error: {message}\n")
