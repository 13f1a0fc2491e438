"""``python -m engines.stacks.documents FOLDER QUESTION``: ask a folder, and say where it stands.

Files of any known kind below FOLDER are read, cut, indexed in a folder that is thrown away after,
and queried once. Each chunk that is shown comes with its citation and the characters of the
file, or of the PDF's page, that it is. ``--tier words`` needs no model, ``free`` and ``pro`` rank
with models; what they make of a text is kept below ``--cache``. A file that cannot be read is
named with its remedy, and the others are queried. It exits with 2 where nothing can be queried.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from engines.stacks.documents import collection, texts
from engines.stacks.documents.library import Settings
from engines.stacks.documents.ranking import FoundChunk, Response
from harness.core.errors import BadFile, HarnessError
from harness.core.files import scratch

SHOWN = 300
"""Characters of a chunk that are shown."""
MAX_TOKENS = 256


def settings(tier: str) -> Settings:
    """Give the specification's settings for a tier, or its words alone."""
    return Settings.model_validate({
        "tier": "pro" if tier == "pro" else "free",
        "embedder": "" if tier == "words" else "all-MiniLM-L6-v2",
        "sparse": "" if tier == "words" else "splade-tiny",
        "max_tokens": MAX_TOKENS,
        "fusion": "specification",
    })


def ask(folder: Path, question: str, tier: str, top: int, cache: Path) -> Response:
    """Read, index and ask; what could not be read is said on standard error.

    Raises:
        BadFile: the folder is missing, or holds no file that can be queried.
        ModelNotReady: a model is absent or not the pinned one.
    """
    read = texts.folder(folder)
    for line in said(read):
        sys.stderr.write(f"{line}\n")
    if not read.sources:
        hint = "Put text, Markdown or PDF files there"
        raise BadFile(folder, "holds no file that can be read", hint)
    given = settings(tier)
    with scratch() as index:
        collection.build(read.sources, index, given, cache)
        with collection.opened(index, given, folder.name) as opened:
            return opened.search(question, top)


def said(read: texts.Ingested) -> Iterator[str]:
    """Name the files that were not read, and the pages that have no text."""
    yield from (str(fault) for fault in read.refused)
    for source in read.sources:
        bare = [f"{page.number}" for page in source.pages if page.number and not page.text.strip()]
        if bare:
            yield f"{source.document_id}: no text on page {', '.join(bare)}; it cannot be found"


def shown(answer: Response) -> Iterator[str]:
    """Write an answer for people."""
    if not answer.results:
        yield "nothing is found: no chunk has a word of the query"
    for number, found in enumerate(answer.results, start=1):
        yield f"{number}. {found.citation}; {_characters(found)}; score {found.score:.4f}"
        text = " ".join(found.text.split())
        yield f"   {text[:SHOWN]}{' ...' if len(text) > SHOWN else ''}\n"
    yield from (f"{one.part}: {one.reason}: {one.why}" for one in answer.missing)


def _characters(found: FoundChunk) -> str:
    place = found.provenance
    of = place.document_id if place.page is None else f"page {place.page} of {place.document_id}"
    return f"characters {place.char_start} to {place.char_end} of {of}"


def main() -> int:
    """Ask once."""
    parser = argparse.ArgumentParser(prog="python -m engines.stacks.documents", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("question")
    parser.add_argument("--tier", choices=("words", "free", "pro"), default="words")
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="the answer of section 7")
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    given = parser.parse_args()
    try:
        answer = ask(given.folder, given.question, given.tier, given.top, given.cache)
    except (HarnessError, ValueError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    if given.json:
        sys.stdout.write(json.dumps(answer.to_json(), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(shown(answer)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
