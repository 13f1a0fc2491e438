"""Lucene, run as one Java program, where Java and its jars are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("Search.java")
USUAL = Path("/usr/share/java")
"""Where distributions put jars; LUCENE_JARS names another folder."""
NEEDED = ("lucene-core-[0-9]*.jar", "lucene-analy*-common-[0-9]*.jar")
CLOSE = 1e-6
"""Of a score: the engines add up the same floats in other orders."""
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The program runs for a second; it need not be compiled for an hour."""
PATIENCE_S = 120
Scored = Sequence[tuple[str, float]]


def jars() -> list[str]:
    """Find the jars, or skip the test and say what is missing."""
    folder = Path(os.environ.get("LUCENE_JARS", USUAL))
    if shutil.which("java") is None:
        pytest.skip("needs apt-get install default-jre-headless")
    found = [max(folder.glob(pattern), default=None) for pattern in NEEDED]
    if None in found:
        pytest.skip(f"no Lucene in {folder}: apt-get install liblucene8-java")
    return [str(jar) for jar in found]


def best(
    documents: Mapping[str, Sequence[tuple[str, str]]],
    questions: Iterable[str],
    k: int,
    folder: Path,
) -> list[Scored]:
    """Index fields of documents, ask in the language of ``Search.java``, give what it prints."""
    found = jars()
    rows, asked = folder / "documents", folder / "questions"
    rows.write_text(
        "".join(
            "\t".join([doc_id, *(f"{name}={' '.join(text.split())}" for name, text in fields)])
            + "\n"
            for doc_id, fields in documents.items()
        ),
        encoding="utf-8",
    )
    asked.write_text("".join(f"{line}\n" for line in questions), encoding="utf-8")
    ran = subprocess.run(
        [
            "java",
            *QUICK,
            "-cp",
            os.pathsep.join(found),
            str(PROGRAM),
            str(rows),
            str(asked),
            str(k),
        ],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr
    return [
        [(doc_id, float(score)) for doc_id, score in (hit.rsplit(":", 1) for hit in line.split())]
        for line in ran.stdout.splitlines()
    ]


def same(ours: Sequence[str], theirs: Scored, k: int) -> bool:
    """Say whether two rankings agree in all but the order of what ties.

    At every rank stands a document to which Lucene gives the score of that rank.
    """
    scores = dict(theirs)
    places = [score for _, score in theirs[:k]]
    return len(ours) == len(places) and all(
        abs(scores.get(doc_id, 0.0) - score) <= CLOSE * score
        for doc_id, score in zip(ours, places, strict=True)
    )
