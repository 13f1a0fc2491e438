"""Long texts taken apart: what stands there, and the line that says what it is about."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from python_docs.modules import Module, Source
from python_docs.numpydoc import plain, take_apart, unindented
from python_docs.questions import words

Kind = Literal["object", "package"]
"""What a line is the summary of."""


class Part(NamedTuple):
    """A stretch of a document."""

    bare: str
    """Name of what it describes, that a query must not give away; empty where it has none."""
    shown: str
    """What stands above it in any case: an object with its arguments; else empty."""
    line: str
    """Its summary on one line; empty where there is none."""
    text: str
    """What follows the summary."""
    kind: Kind | None
    """None where the line is not a summary."""

    def whole(self, *, with_line: bool) -> str:
        """Put it together again, without the summary where that may become a query."""
        found = (self.shown, self.line if with_line else "", self.text)
        return "\n\n".join(piece for piece in found if piece)


def said(line: str) -> str:
    """Give the words of a line, in lower case, one space between."""
    return " ".join(words(plain(line)))


def of_text(text: str) -> Part:
    """Take a file as it is, with line feeds alone."""
    return Part("", "", "", "\n".join(unindented(text.replace("\r\n", "\n"))).strip(), None)


def of_description(package: str, summary: str, text: str) -> Part:
    """Take a package's description, without the lines that say its summary again."""
    again = said(summary)
    kept = [line for line in of_text(text).text.split("\n") if not again or said(line) != again]
    return Part(package, "", summary, "\n".join(kept).strip(), "package")


def of_module(module: Module) -> Iterator[Part]:
    """Give the guide of a module, then its functions, classes and methods as they stand there."""
    if module.docstring:
        yield of_text(module.docstring)
    for source in module.definitions.values():
        yield from _of_object(source, "")


def _of_object(source: Source, owner: str) -> Iterator[Part]:
    name = f"{owner}{source.name}"
    if source.docstring:
        found = take_apart(source.docstring, source.name)
        shown = f"{name}({', '.join(source.arguments)})"
        yield Part(source.name, shown, found.summary, found.body, "object")
    for member in source.members:
        yield from _of_object(member, f"{name}.")
