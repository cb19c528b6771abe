"""The error of a source text that does not compile."""

from __future__ import annotations


class CompileError(ValueError):
    """CUDA C++ that does not compile, or that gpuopt refuses to compile.

    The text is the compiler's, with the offending line and a caret below the offending column.

    Attributes
    ----------
    line, column : int
        Where the first error is, from 1; 0: unknown.
    log : str
        The compiler's whole output.

    Examples
    --------
    >>> import gpuopt
    >>> error = gpuopt.CompileError("kernel.cu(1): error: expected a declaration", line=1)
    >>> error.line, isinstance(error, ValueError)
    (1, True)
    """

    def __init__(self, text: str, line: int = 0, column: int = 0, log: str = "") -> None:
        super().__init__(text)
        self.line, self.column, self.log = line, column, log or text

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it with its attributes."""
        return CompileError, (str(self), self.line, self.column, self.log)


def located(name: str, source: str, at: int, text: str) -> CompileError:
    """Return an error at an offset of a source, in the compiler's form."""
    before = source.rfind("\n", 0, at) + 1
    line, column = source.count("\n", 0, at) + 1, at - before + 1
    end = source.find("\n", at)
    shown = source[before : end if end >= 0 else len(source)].expandtabs(1)[:200]
    return CompileError(
        f"{name}({line}): error: {text}\n  {shown}\n  {' ' * min(column - 1, 200)}^", line, column
    )
