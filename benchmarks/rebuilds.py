"""Whether a reader ever sees part of an index, or of two, while it is built anew under it.

    python3 run.py python benchmarks/rebuilds.py --times 1000

An index of each arm is built again and again, in turn from two sets of documents that have not a
word in common, as ``harness stage index`` builds it. Meanwhile readers open it, look at its
manifest and search for a word of each set. A reader must find the manifest and every document of
one set, and nothing of the other.
"""

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.core.engine import Manifest
from harness.core.errors import HarnessError
from harness.core.files import replacing_folder
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.registry import Arm

ARMS = ("fts5", "tantivy", "hash-hybrid")
WORDS = ("alder", "birch")
DOCUMENTS = 40
READERS = 3
WHOLE = "whole"


def documents(word: str) -> list[Document]:
    """Return a set of documents; all have the word, and each a number of its own."""
    return [Document(f"{word}-{at}", "", f"{word} {at}") for at in range(DOCUMENTS)]


def build(arm: Arm, word: str, index: Path) -> Manifest:
    """Build the index of a set of documents, and let it take the place of the one before."""
    with replacing_folder(index) as folder:
        return arm.build(documents(word), folder)


def seen(arm: Arm, index: Path, made: Mapping[str, str]) -> str:
    """Open the index and say what it is: whole, or else what is wrong with it.

    ``made`` names the word of each set by the fingerprint of its manifest.
    """
    try:
        with arm.open(index) as searcher:
            word = made.get(searcher.manifest.fingerprint, "")
            found = {one: searcher.search(one, 2 * DOCUMENTS).hits for one in WORDS}
    except HarnessError as exc:
        return f"it is refused: {type(exc).__name__}"
    ids = {one: {hit.doc_id for hit in hits} for one, hits in found.items()}
    for one in WORDS:
        wanted = {document.doc_id for document in documents(one)} if one == word else set()
        own = {doc_id for doc_id in ids[one] if doc_id.startswith(one)}
        if own != wanted:
            return f"of {one} it has {len(own)} documents instead of {len(wanted)}"
    return WHOLE


def watched(arm: Arm, folder: Path, times: int, readers: int = READERS) -> Counter[str]:
    """Build an index anew so many times under readers; count what they saw."""
    index = folder / arm.name
    made = {build(arm, word, index).fingerprint: word for word in WORDS}
    done = threading.Event()
    found: list[Counter[str]] = [Counter() for _ in range(readers)]

    def read(into: Counter[str]) -> None:
        while not done.is_set():
            into[seen(arm, index, made)] += 1

    threads = [threading.Thread(target=read, args=(one,)) for one in found]
    for thread in threads:
        thread.start()
    try:
        for at in range(times):
            build(arm, WORDS[at % 2], index)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return sum(found, Counter())


def main(times: int, names: Sequence[str]) -> int:
    """Print what the readers of each arm saw; give how often it was no whole index."""
    wrong = 0
    for name in names:
        with TemporaryDirectory() as folder:
            found = watched(arms.load(name, Path(folder) / "cache"), Path(folder), times)
        wrong += found.total() - found[WHOLE]
        told = ", ".join(f"{count:,} {what}" for what, count in found.most_common())
        sys.stdout.write(f"{name}: {times:,} times built anew; opened: {told}\n")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=1_000)
    parser.add_argument("--arms", default=",".join(ARMS))
    given = parser.parse_args()
    sys.exit(bool(main(given.times, given.arms.split(","))))
