"""Makes a small collection of a folder of texts: a document a section, a question a heading.

    python3 run.py python examples/folder_corpus.py FOLDER TO [--train N]

writes TO in BEIR layout from the .md and .txt files below FOLDER. The heading is taken out of its
section and asked for; the section that it stood above is the right answer, and no two questions
are one need, so each has an intent of its own. Such questions use
the words of those who wrote the text, so they flatter engines that match words: put what
people really asked in their place as soon as you have it. With --train every Nth question is judged
in qrels/train.tsv, to tune an engine on, and the others in qrels/test.tsv.
"""  # noqa: INP001  started by its path; it belongs to no package

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from harness.core.files import write_text

HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FEWEST_WORDS = 2
"""Of a heading to be a question, and of a section to be a document."""


class Section(NamedTuple):
    """A heading and what stands below it, up to the next one."""

    doc_id: str
    page: str
    heading: str
    text: str


def sections(folder: Path) -> Iterator[Section]:
    """Cut every text below ``folder`` at its headings; code is no heading."""
    for path in sorted([*folder.rglob("*.md"), *folder.rglob("*.txt")]):
        text = path.read_text(encoding="utf-8", errors="replace")
        hidden = FENCE.sub(lambda found: "." * len(found[0]), text)
        heads = list(HEADING.finditer(hidden))
        page = quote(path.relative_to(folder).as_posix().removesuffix(".md"))
        ends = [*(head.start() for head in heads), len(text)]
        yield Section(page, page, "", text[: ends[0]].strip())
        for at, (head, end) in enumerate(zip(heads, ends[1:], strict=True)):
            yield Section(f"{page}.{at}", page, head[1], text[head.end() : end].strip())


def main() -> None:
    """Write corpus.jsonl, queries.jsonl and qrels/test.tsv."""
    parser = argparse.ArgumentParser(description="A collection of a folder of texts.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("--train", type=int, default=0)
    given = parser.parse_args()
    found = [one for one in sections(given.folder) if len(one.text.split()) >= FEWEST_WORDS]
    if not found:
        parser.error(f"{given.folder}: holds no .md or .txt file with words in it")
    times = Counter(one.heading for one in found)
    asked = [
        one for one in found if times[one.heading] == 1 and len(one.heading.split()) >= FEWEST_WORDS
    ]
    documents = ({"_id": one.doc_id, "title": one.page, "text": one.text} for one in found)
    questions = (
        {
            "_id": f"q-{one.doc_id}",
            "text": one.heading,
            "slices": [_kind(one.heading)],
            "intent": one.doc_id,
        }
        for one in asked
    )
    judged = [f"q-{one.doc_id}\t{one.doc_id}\t1\n" for one in asked]
    train = set(judged[:: given.train]) if given.train else set()
    write_text(given.to / "corpus.jsonl", "".join(json.dumps(row) + "\n" for row in documents))
    write_text(given.to / "queries.jsonl", "".join(json.dumps(row) + "\n" for row in questions))
    test = [line for line in judged if line not in train]
    write_text(given.to / "qrels" / "test.tsv", "".join(test))
    if train:
        write_text(given.to / "qrels" / "train.tsv", "".join(sorted(train)))
    print(f"{len(found)} documents, {len(asked)} queries: {given.to}")  # noqa: T201  says it is done


def _kind(heading: str) -> str:
    return "question" if heading.endswith("?") else "short" if heading.count(" ") <= 2 else "long"  # noqa: PLR2004  three words


if __name__ == "__main__":
    main()
