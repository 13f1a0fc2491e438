"""The documents stack: whether places are exact, and how long its stages take.

    python3 run.py python benchmarks/documents.py places FOLDER --chunks 10000 --seed 1
    python3 run.py python benchmarks/documents.py stages FOLDER ... --chunks 10000 --queries 200
    python3 run.py python benchmarks/documents.py pdf FOLDER OUT --documents 20

``places`` cuts the text, Markdown and PDF files below FOLDER into chunks of sizes drawn anew until
so many chunks were read back from the original files, and counts those that differ by a byte.

``stages`` takes collections in BEIR layout, or what ``harness stage prepare`` wrote, until there
are so many chunks, and asks their queries; see ``documents_stages.py``. The budget is the
specification's (``documents_stages.toml``), and is reported, not enforced. ``--clock cpu`` counts
what this thread computed and not what it waited, which other programs on the machine disturb less.

``pdf`` writes the longest documents of a collection into PDF files, with matplotlib: something for
``places`` to read that another program wrote.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, thread_time_ns

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from benchmarks.documents_stages import BUDGET, Budget, Judged, drawn, enough, table, timed
from harness.core.errors import BadFile
from harness_engines.stacks.documents import arm, texts
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.documents.texts import Cutting, DocumentChunk, chunks

SMALLEST, LARGEST = 40, 4000
A4 = (8.27, 11.69)
"""Inches."""
LINES = 60
CLOCKS: Mapping[str, Callable[[], int]] = {"wall": perf_counter_ns, "cpu": thread_time_ns}


def original(chunk: DocumentChunk) -> str:
    """Read a cited stretch out of the file itself."""
    path = Path(chunk.source.path)
    if chunk.page is None:
        text = path.read_bytes().decode("utf-8")
    else:
        source = texts.source(path, chunk.source.document_id, path.read_bytes())
        text = source.pages[chunk.page - 1].text
    return text[chunk.char_start : chunk.char_end]


def places(folder: Path, wanted: int, seed: int) -> str:
    """Count chunks that their places do not give back."""
    dice = random.Random(seed)
    sources, refused = [], 0
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in texts.SUFFIXES):
        try:
            sources.append(
                texts.source(path, path.relative_to(folder).as_posix(), path.read_bytes())
            )
        except BadFile:
            refused += 1
    checked = wrong = 0
    while checked < wanted:
        source = dice.choice(sources)
        size = dice.randint(SMALLEST, LARGEST)
        found = list(chunks(source, Cutting(size, dice.randint(0, (size - 1) // 2))))
        for chunk in dice.sample(found, min(len(found), 20, wanted - checked)):
            wrong += original(chunk).encode() != chunk.text.encode()
            checked += 1
    return (
        f"{checked} chunks of {len(sources)} files, {wrong} of them not what stands at their"
        f" place; {refused} files could not be read\n"
    )


def pdf(folder: Path, out: Path, wanted: int) -> str:
    """Write the longest documents as PDF files of pages, a line of the text a line of the page."""
    longest = sorted(Judged.read(folder).documents(), key=lambda one: (-len(one.text), one.doc_id))
    out.mkdir(parents=True, exist_ok=True)
    made = 0
    for document in longest[:wanted]:
        lines = document.text.split("\n")
        name = document.doc_id.replace("/", ".")
        with PdfPages(out / f"{name}.pdf", metadata={"CreationDate": None}) as pages:
            for start in range(0, len(lines), LINES):
                page = Figure(figsize=A4)
                text = "\n".join(lines[start : start + LINES])
                page.text(0.05, 0.95, text, va="top", size=8, family="monospace", parse_math=False)
                pages.savefig(page)
                made += 1
    return f"{len(longest[:wanted])} PDF files of {made} pages in {out}\n"


def stages(args: argparse.Namespace) -> str:
    """Build the collection, ask, and write a table."""
    given = DocumentSettings.model_validate({
        "tier": "pro",
        "embedder": "all-MiniLM-L6-v2",
        "sparse": "splade-tiny",
        "max_tokens": 256,
        "fusion": "specification",
    })
    budget = Budget.read(args.budget)
    asked = drawn(args.folders, args.queries, budget.seed)
    with TemporaryDirectory() as folder:
        sources = enough(args.folders, given.cutting, args.chunks)
        arm.build(sources, Path(folder), given, args.cache)
        with arm.opened(Path(folder), given, "benchmark") as opened:
            spans = timed(opened, asked, args.rounds, CLOCKS[args.clock], budget.seed)
            texts = opened.library.texts
    about = f"{args.clock} clock"
    return "\n".join(table(spans, texts, budget, about))


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("places")
    one.add_argument("folder", type=Path)
    one.add_argument("--chunks", type=int, required=True)
    one.add_argument("--seed", type=int, required=True)
    third = kinds.add_parser("pdf")
    third.add_argument("folder", type=Path)
    third.add_argument("out", type=Path)
    third.add_argument("--documents", type=int, required=True)
    other = kinds.add_parser("stages")
    other.add_argument("folders", type=Path, nargs="+")
    other.add_argument("--chunks", type=int, required=True)
    other.add_argument("--queries", type=int, required=True)
    other.add_argument("--rounds", type=int, default=3)
    other.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    other.add_argument("--cache", type=Path, default=Path(".cache"))
    other.add_argument("--budget", type=Path, default=BUDGET)
    args = parser.parse_args()
    if args.kind == "places":
        sys.stdout.write(places(args.folder, args.chunks, args.seed))
    elif args.kind == "pdf":
        sys.stdout.write(pdf(args.folder, args.out, args.documents))
    else:
        sys.stdout.write(stages(args))


if __name__ == "__main__":
    main()
