"""What it takes to index a folder and to follow it: Markdown tables.

    python3 run.py python benchmarks/folders.py code --arm code-words
    python3 run.py python benchmarks/folders.py notes --arm writing-stems

``code`` copies a folder, by default the standard library of this Python without installed packages,
and indexes it. "Parsed alone" is Python's own parser over the same files, the least that any reader
of code pays. ``notes`` writes notes of made-up words. "FTS5 alone" is one statement for the same
words over the same index, "listed alone" the names, sizes and times of all files. A first answer
is that of a new process, after its imports: the folder is listed, the index opened and queried.
Wall and processor time are shown, as other programs disturb the first.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sqlite3
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import NamedTuple

import numpy as np

from engines import registry
from engines.kept.index import FILE
from engines.kept.live import Live
from engines.stacks.code.arm import Code
from engines.stacks.code.service import FolderSearch, Wish, code
from engines.stacks.writing.arm import Writing
from engines.stacks.writing.service import NoteSearch, notes

QUERY = "read a line"
LEFT_OUT = shutil.ignore_patterns("site-packages", "__pycache__", "*.so", "*.a")
SETTLES_S = 2.1
"""A file that changed less than this before it was read is read again at the next update."""
WORDS, A_NOTE, A_QUERY = 20_000, (80, 500), 4
SEED = 1
FILES_OF_A_FOLDER = 100
SHOWN = 48


class Taken(NamedTuple):
    """Seconds of a piece of work."""

    wall: float
    cpu: float


def taken(work: Callable[[], object]) -> Taken:
    """Run it, and give its time."""
    wall, cpu = perf_counter(), process_time()
    work()
    return Taken(perf_counter() - wall, process_time() - cpu)


def median(each: list[Taken]) -> Taken:
    """Give the median of each clock."""
    return Taken(*np.median(np.array(each), axis=0))


def table(rows: dict[str, Taken], least: str) -> None:
    """Print times, and processor times as multiples of one row's."""
    print(f"| work | wall ms | processor ms | by {least} |", "|---|---:|---:|---:|", sep="\n")  # noqa: T201  the output
    for work, took in rows.items():
        ratio = took.cpu / rows[least].cpu
        print(f"| {work} | {took.wall * 1e3:,.0f} | {took.cpu * 1e3:,.0f} | {ratio:.2f} |")  # noqa: T201  as above


def parsed(folder: Path) -> int:
    """Parse each file of Python; give how many there are."""
    files = sorted(folder.rglob("*.py"))
    for file in files:
        try:
            ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            continue
    return len(files)


def asked(live: Live[FolderSearch]) -> int:
    """Bring the index up to date, query it, and give the number of units."""
    with live.now() as (search, _):
        search.search(QUERY, Wish())
        return len(search.entries)


def changes(live: Live[FolderSearch], folder: Path, rounds: int) -> Iterator[Taken]:
    """Change another file of middle size in each round, and bring the index up to date."""
    files = sorted(folder.rglob("*.py"), key=lambda file: (file.stat().st_size, file.as_posix()))
    for file in files[len(files) // 2 :][:rounds]:
        with file.open("a", encoding="utf-8") as more:
            more.write("\n\ndef a_new_function(line):\n    return line\n")
        yield taken(lambda: asked(live))


def of_code(source: Path, arm: str, rounds: int) -> None:
    """Index a folder of code, and change files of it one by one."""
    with TemporaryDirectory() as name:
        folder = Path(name, "folder")
        shutil.copytree(source, folder, ignore=LEFT_OUT, ignore_dangling_symlinks=True)
        engine = registry.load(arm, Path(name, "cache")).engine
        if not isinstance(engine, Code):
            raise SystemExit(f"{arm} is not an arm of the stack code")
        live = code(engine, folder, Path(name, "kept"))
        with closing(live):
            rows = {"parsed alone": taken(lambda: parsed(folder))}
            rows["indexed, first answer"] = taken(lambda: asked(live))
            sleep(SETTLES_S)
            asked(live)
            rows["nothing changed"] = taken(lambda: asked(live))
            rows["one file changed"] = median(list(changes(live, folder, rounds)))
            print(f"{parsed(folder):,} files of Python, {asked(live):,} units, {arm}.\n")  # noqa: T201  the output
    table(rows, "parsed alone")


def written(folder: Path, count: int) -> list[str]:
    """Write notes of made-up words, frequent ones first; give the words."""
    draw = random.Random(SEED)
    letters = "abcdefghijklmnoprstuvw"
    words = ["".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    for at in range(count):
        place = folder / f"{at // FILES_OF_A_FOLDER:04d}"
        place.mkdir(parents=True, exist_ok=True)
        said = draw.choices(words, weights, k=draw.randint(*A_NOTE))
        text = f"# {' '.join(said[:4])}\n\n{' '.join(said)}\n"
        (place / f"{at:06d}.md").write_text(text, encoding="utf-8")
    return words


def listed(folder: Path) -> int:
    """Look at every file as an update must."""
    return sum(
        Path(at, name).stat().st_size >= 0 for at, _, names in os.walk(folder) for name in names
    )


def of_notes(count: int, arm: str, rounds: int) -> None:
    """Index notes, and query them by several words of middle rank."""
    with TemporaryDirectory() as name:
        folder, place = Path(name, "notes"), Path(name, "kept")
        words = written(folder, count)
        engine = registry.load(arm, Path(name, "cache")).engine
        if not isinstance(engine, Writing):
            raise SystemExit(f"{arm} is not an arm of the stack writing")

        def live() -> Live[NoteSearch]:
            return notes(engine, folder, place)

        def answered(text: str, open_: Live[NoteSearch], *, follow: bool) -> None:
            with open_.now(follow=follow) as (search, _):
                search.retrieve(text)

        def first(text: str) -> None:
            with closing(live()) as opened:
                answered(text, opened, follow=True)

        draw = random.Random(SEED)
        texts = [" ".join(draw.sample(words[10:1_000], A_QUERY)) for _ in range(rounds)]
        sleep(SETTLES_S)
        rows = {"indexed": taken(lambda: first(texts[0]))}
        sql = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank LIMIT ?"
        with closing(sqlite3.connect(place / FILE)) as db, closing(live()) as opened:
            answered(texts[0], opened, follow=False)

            def plain(text: str) -> object:
                return db.execute(sql, (" OR ".join(text.split()), SHOWN)).fetchall()

            rows["listed alone"] = median([taken(lambda: listed(folder)) for _ in texts])
            rows["FTS5 alone"] = median([taken(lambda t=t: plain(t)) for t in texts])  # type: ignore[misc]
            for row, follow in (("answer, folder not listed", False), ("answer", True)):
                times = [
                    taken(lambda t=t, f=follow: answered(t, opened, follow=f))  # type: ignore[misc]
                    for t in texts
                ]
                rows[row] = median(times)
            rows["first answer"] = median([taken(lambda t=t: first(t)) for t in texts])  # type: ignore[misc]
    print(f"{count:,} notes, {rounds} queries of {A_QUERY} words, {arm}; medians.\n")  # noqa: T201  the output
    table(rows, "FTS5 alone")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Folders, indexed and followed.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    of = kinds.add_parser("code")
    of.add_argument("--folder", type=Path, default=Path(sysconfig.get_paths()["stdlib"]))
    of.add_argument("--arm", default="code-words")
    of.add_argument("--rounds", type=int, default=5)
    of = kinds.add_parser("notes")
    of.add_argument("--notes", type=int, default=10_000)
    of.add_argument("--arm", default="writing-stems")
    of.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    if given.kind == "code":
        of_code(given.folder, given.arm, given.rounds)
    else:
        of_notes(given.notes, given.arm, given.rounds)


if __name__ == "__main__":
    main()
