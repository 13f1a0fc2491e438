"""Docstrings in the style of numpydoc: summary, sections and the names under "See Also"."""

import re
from dataclasses import dataclass

UNDERLINE = re.compile(r"(-{3,}|={3,})\s*")
PLACEHOLDER = re.compile(r"%\([^)]*\)s|%s|\{[A-Za-z_]+\}")
ROLE = re.compile(r":[A-Za-z:]+:`([^`<]*)(?:<[^`>]*>)?`")
REFERENCE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
NAME = re.compile(r"[~.!]{0,2}([A-Za-z_][\w.]*?)[_.]?")


@dataclass(frozen=True, slots=True)
class Docstring:
    """One docstring, taken apart."""

    summary: str
    """The first paragraph on one line; empty where the docstring has none."""
    body: str
    """Everything but the summary and the section "See Also"."""
    see_also: tuple[str, ...]
    """Names as they were written there, without markup."""


def take_apart(docstring: str, name: str) -> Docstring:
    """Split the docstring of an object whose bare name is ``name``.

    A first paragraph that is only the signature, as C functions have it, is dropped. A line
    with nothing but a placeholder, which the package fills in when it is imported, is dropped.
    """
    lines = [line for line in unindented(docstring) if not PLACEHOLDER.fullmatch(line.strip())]
    first, rest = _paragraph(lines)
    if first and first[0].startswith(f"{name}("):
        first, rest = _paragraph(rest)
    if len(first) > 1 and UNDERLINE.fullmatch(first[1]):
        first, rest = [], [*first, *rest]
    if any(UNDERLINE.fullmatch(line) for line in first):
        at = next(i for i, line in enumerate(first) if UNDERLINE.fullmatch(line))
        first, rest = first[: at - 1], [*first[at - 1 :], *rest]
    others, links = _without_see_also(rest)
    summary = " ".join(" ".join(first).split())
    return Docstring(summary, "\n".join(others).strip(), tuple(links))


def unindented(docstring: str) -> list[str]:
    """Lines without their common indentation and trailing space.

    Our own, since ``inspect.cleandoc`` and the parser of Python 3.13 both changed here.
    """
    first, *rest = docstring.expandtabs(8).split("\n")
    margin = min((len(ln) - len(ln.lstrip(" ")) for ln in rest if ln.strip()), default=0)
    return [first.strip(), *(line[margin:].rstrip() for line in rest)]


def capped(text: str, characters: int) -> str:
    """Cut ``text`` to at most ``characters``.

    At the end of the last paragraph that fits; where that would lose more than half of what fits,
    at the end of the last line; without one, hard.
    """
    if len(text) <= characters:
        return text
    head = text[: characters + 1]
    paragraph, line = head.rfind("\n\n"), head.rfind("\n")
    at = paragraph if paragraph > characters // 2 else line if line > 0 else characters
    return text[:at].rstrip()


def plain(text: str) -> str:
    """Take the markup out of a sentence, as a person would type it, without its full stop."""
    without_roles = ROLE.sub(lambda role: f"`{role[1]}`", text)
    without_paths = REFERENCE.sub(_shown, without_roles).replace("\\", "")
    return " ".join(re.sub("[`*]", "", without_paths).split()).rstrip(".").strip()


def _shown(reference: re.Match[str]) -> str:
    """Keep what Sphinx shows of a reference: of ``~a.b`` the last part, of ``.b`` no dot."""
    target = reference[1].strip()
    return target.rpartition(".")[2] if target.startswith("~") else target.lstrip(".!")


def _paragraph(lines: list[str]) -> tuple[list[str], list[str]]:
    start = next((i for i, line in enumerate(lines) if line), len(lines))
    end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
    return lines[start:end], lines[end:]


def _without_see_also(lines: list[str]) -> tuple[list[str], list[str]]:
    kept: list[str] = []
    links: list[str] = []
    inside = False
    for at, line in enumerate(lines):
        is_heading = at + 1 < len(lines) and bool(line) and UNDERLINE.fullmatch(lines[at + 1])
        if is_heading:
            inside = line.strip().lower() == "see also"
        if inside:
            links += _names(line)
        else:
            kept.append(line)
    return kept, links


def _names(line: str) -> list[str]:
    """Names that a line of the section holds: what stands before a colon, between commas."""
    if not line or line.startswith((" ", "..")) or UNDERLINE.fullmatch(line):
        return []
    unmarked = ROLE.sub(lambda role: role[1].strip(), line).replace("`", "").replace("*", "")
    before = re.split(r"\s:|:\s|:$", unmarked, maxsplit=1)[0]
    parts = [part.strip().removesuffix("()") for part in before.split(",")]
    if not all(NAME.fullmatch(part) for part in parts if part):
        return []  # a sentence, not a list of names
    return [part.lstrip("~!").rstrip("_.") for part in parts if part]
