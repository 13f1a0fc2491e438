"""Help pages of a product that does not exist, and a query for each: data to begin with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.core.files import write_text

ACTIONS: Mapping[str, str] = {
    "Create": "Press the plus sign beside the list. The new {one} is empty, and is yours.",
    "Rename": "Click on the title and type another one. Links to the {one} go on working.",
    "Delete": "Choose the bin. For thirty days the {one} can be brought back from there.",
    "Share": "Enter the address of a colleague. Who follows the link may read this {one}.",
    "Export": "Choose a format, and a file is written. Large {one}s are packed first.",
    "Import": "Pick a file from your disk. Each row becomes one {one}; errors are listed.",
    "Archive": "It leaves the daily view, and search still finds it. The {one} is kept.",
    "Print": "A preview opens with page breaks. The {one} is set in black on white.",
}
THINGS = (
    "board", "booking", "budget", "calendar", "catalogue", "chart", "contact", "contract",
    "dashboard", "diary", "folder", "form", "glossary", "guide", "journal", "label", "ledger",
    "letter", "map", "memo", "note", "parcel", "plan", "poll", "project", "quote", "receipt",
    "report", "survey", "template",
)  # fmt: skip
ASKED = ("{action} {one}", "How do I {action} a {one}?", "{action} {one}s")
SLICES = ("keywords", "question", "plural")


class Sample(NamedTuple):
    """How much was written."""

    documents: int
    queries: int


def write(folder: Path) -> Sample:
    """Write a folder in BEIR layout: the same bytes each time."""
    pairs = [(action, thing) for thing in THINGS for action in ACTIONS]
    _lines(folder / "corpus.jsonl", map(_page, pairs))
    _lines(folder / "queries.jsonl", _questions(pairs))
    judged = (f"{_query(pair)}\t{_name(pair)}\t1" for pair in pairs)
    write_text(
        folder / "qrels" / "test.tsv", "\n".join(["query-id\tcorpus-id\tscore", *judged, ""])
    )
    return Sample(len(pairs), len(pairs))


def _name(pair: tuple[str, str]) -> str:
    return "-".join(pair).lower()


def _query(pair: tuple[str, str]) -> str:
    return f"q-{_name(pair)}"


def _page(pair: tuple[str, str]) -> Mapping[str, object]:
    action, thing = pair
    text = ACTIONS[action].format(one=thing)
    return {"_id": _name(pair), "title": f"{action} a {thing}", "text": text}


def _questions(pairs: Iterable[tuple[str, str]]) -> Iterator[Mapping[str, object]]:
    """Ask for each page once: like words, and an intent of its own."""
    for at, pair in enumerate(pairs):
        kind = at % len(ASKED)
        action, thing = pair
        asked = ASKED[kind].format(action=action.lower(), one=thing)
        name = _query(pair)
        yield {"_id": name, "text": asked, "slices": [SLICES[kind]], "intent": name}


def _lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
