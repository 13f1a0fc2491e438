"""The documentation of a symbol, or any prose: names, parameters and links written into text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from engines.stacks.code.reading import python_source
from engines.stacks.code.unit import Facts, Texts

_SIGNATURE = re.compile(r"([A-Za-z_]\w*)\((.*)\)")
_HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]+)\n(?:-{3,}|={3,})[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, ?\*{0,2}\w+)*) ?: ?(\S.*)$", re.MULTILINE)
_REFERENCE = re.compile(r"`{1,2}[~.!]*([A-Za-z_][\w.]*\w)(?:\(\))?`{1,2}")
_EXAMPLE = re.compile(r"^[ \t]*(?:>>>|\.\.\.)[ \t](.*)$", re.MULTILINE)
_LINK = re.compile(r"^([A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*)(?= ?:|$)", re.MULTILINE)
USUAL: Mapping[str, str] = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
"""What examples of the scientific packages call them without an import."""


def signature_of(name: str, text: str) -> str:
    """Give the first line where it is the signature of the object ``name``; else empty."""
    first = text.partition("\n")[0].strip()
    match = _SIGNATURE.fullmatch(first)
    return first if match and name and match[1] == name.rpartition(".")[2] else ""


def read_symbol(name: str, text: str, kind: str, signature: str) -> tuple[Texts, Facts]:
    """Read a docstring in the style of numpydoc, below the signature of what it documents."""
    doc = text.partition("\n")[2].strip()
    named = _sections(doc)
    entries = _ENTRY.findall(named.get("Parameters", ""))
    types = [_type(written) for _, written in entries]
    returned = _ENTRY.findall(named.get("Returns", "")) or [("", named.get("Returns", ""))]
    calls, uses = _examples(doc)
    inside = _SIGNATURE.fullmatch(signature)
    given = re.findall(r"(?:^|,)\s*\**(\w+)", inside[2]) if inside else []
    described = [word.strip("* ") for names, _ in entries for word in names.split(",")]
    facts = Facts(
        type=kind or "function",
        symbol=name.rpartition(".")[2],
        full=name,
        exported=not any(part.startswith("_") for part in name.split(".")),
        signature=signature,
        params=tuple(dict.fromkeys([*given, *described])),
        inferred_types=tuple(dict.fromkeys(filter(None, types))),
        return_type=_type(returned[0][1].strip().partition("\n")[0]),
        uses=uses,
        calls=calls,
        links=_links(doc, named, name),
    )
    return Texts(name=name, signature=signature, doc=doc), facts


def read_prose(title: str, text: str, kind: str) -> tuple[Texts, Facts]:
    """Read prose: a title, what it says, and the names that it marks as code."""
    full = title if kind == "module" else ""
    facts = Facts(type=kind or "text", full=full, links=_links(text, _sections(text), title))
    return Texts(name=title, doc=text), facts


def _sections(text: str) -> Mapping[str, str]:
    """Text below each heading that is underlined; the first of a name counts."""
    found: dict[str, str] = {}
    headings = list(_HEADING.finditer(text))
    for at, heading in enumerate(headings):
        end = headings[at + 1].start() if at + 1 < len(headings) else len(text)
        found.setdefault(heading["name"].strip().title(), text[heading.end() : end])
    return found


def _type(written: str) -> str:
    """Reduce ``int, optional`` and ``ndarray of shape (n,)`` to the type that comes first."""
    first = re.split(r",| of | or |\(|;", written.strip("` "), maxsplit=1)[0]
    return first.strip("`~ .")


def _links(text: str, named: Mapping[str, str], own: str) -> tuple[str, ...]:
    see_also = [
        name.strip()
        for names in _LINK.findall(named.get("See Also", ""))
        for name in names.split(",")
    ]
    marked = [name for name in _REFERENCE.findall(text) if "." in name or "_" in name]
    return tuple(name for name in dict.fromkeys([*see_also, *marked]) if name != own)


def _examples(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the lines of an interpreter: what is called, what is used."""
    calls: set[str] = set()
    uses: set[str] = set()
    for tree in _statements("\n".join(_EXAMPLE.findall(text))):
        facts = python_source.read("", tree, name="", kind="", imports=USUAL)[1]
        calls.update(facts.calls)
        uses.update(facts.uses)
    return tuple(sorted(calls)), tuple(sorted(uses))


def _statements(lines: str) -> Iterator[ast.Module]:
    """Parse all lines at once, else each by itself; what does not parse is left out."""
    whole = python_source.parsed(lines)
    if whole is not None:
        yield whole
        return
    for line in lines.splitlines():
        tree = python_source.parsed(line)
        if tree is not None:
            yield tree
