"""Texts that the engines are compared on: abstracts, documentation, and coordination mail."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from agent_mail.generate import Traffic, generate
from python_docs.harvest import harvest

from harness.core.records import Document
from harness_engines.lexical.terms import identifiers
from harness_engines.stacks.agent_mail.contract import Importance, Message

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "datasets"


def collection(name: str) -> tuple[list[Document], list[str]]:
    """Read documents with a word in them, and questions, of a collection beside the project."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no data set in {folder}")
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    documents = [Document(row["_id"], row.get("title", ""), row["text"]) for row in rows]
    asked = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return (
        [document for document in documents if words_of(document.text)],
        [json.loads(line)["text"] for line in asked],
    )


def documentation() -> list[Document]:
    """Harvest what the embedded data set is made of, of two namespaces."""
    return [
        Document(entry.name, entry.name, entry.docstring.body)
        for entry in harvest(["numpy", "scipy.stats"]).entries
        if words_of(entry.docstring.body)
    ]


def mail() -> list[Message]:
    """Make messages that have a subject, a text and an identifier.

    Lucene leaves messages without a word in a field out of that field's average length; Tantivy
    counts them.
    """
    made = generate(Traffic(messages=1_000, seed=5, queries=20)).documents
    return [
        Message(
            message_id=int(document.doc_id),
            project_id=1,
            subject=document.title,
            body=document.text,
            sender_name="",
            recipients=(),
            thread_id="",
            importance=Importance.NORMAL,
            ack_required=False,
            created_ts=0,
        )
        for document in made
        if words_of(document.title)
        and words_of(document.text)
        and identifiers(f"{document.title}\n{document.text}")
    ]


WORD = re.compile(r"[^\W_]+")
Part = tuple[str, str, tuple[str, ...]]
"""A sign (space, + or -), a kind (word, phrase, joined or prefix), and its words."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for, part by part."""

    parts: tuple[Part, ...]

    @property
    def typed(self) -> str:
        """As somebody types it."""
        return " ".join(sign.strip() + _written(kind, words) for sign, kind, words in self.parts)


def _written(kind: str, words: Sequence[str]) -> str:
    if kind == "joined":
        return "-".join(words)
    return {"phrase": '"{}"', "prefix": "{}*"}.get(kind, "{}").format(" ".join(words))


def words_of(text: str) -> list[str]:
    """Split into lower-cased runs of letters and digits."""
    return [word.lower() for word in WORD.findall(text)]


def any_of(text: str) -> Question:
    """Ask for any word of ``text``, each once."""
    return Question(tuple((" ", "word", (word,)) for word in dict.fromkeys(words_of(text))))


def drawn(texts: Sequence[str], count: int, seed: int, *, prefixes: bool) -> list[Question]:
    """Draw ``count`` questions: in nine of 20 one to five words, else something harder.

    The words of a question stand in one text; those are ASCII, since engines differ in what
    letters are.
    """
    rng = Random(seed)
    questions: list[Question] = []
    split = [
        row for text in texts if len(row := [w for w in words_of(text) if w.isascii()]) > MOST_WORDS
    ]
    shapes = SHAPES if prefixes else tuple(shape for shape in SHAPES if shape != "prefix")
    while len(questions) < count:
        row, shape = rng.choice(split), rng.choice(shapes)
        questions.append(Question(tuple(_parts(rng, row, shape))))
    return questions


MOST_WORDS = 5
SHAPES = (
    *("words",) * 9,
    *("phrase", "phrase", "phrase and word", "joined", "joined and word"),
    *("must", "all", "not", "any and must", "prefix", "prefix"),
)


def _parts(rng: Random, row: Sequence[str], shape: str) -> list[Part]:
    one, other, third = rng.sample(row, 3)
    length = rng.randint(2, 3)
    at = rng.randrange(len(row) - length)
    run = tuple(row[at : at + length])
    found: dict[str, list[Part]] = {
        "words": [(" ", "word", (word,)) for word in rng.sample(row, rng.randint(1, MOST_WORDS))],
        "phrase": [(" ", "phrase", run)],
        "phrase and word": [(" ", "phrase", run), (" ", "word", (one,))],
        "joined": [(" ", "joined", run)],
        "joined and word": [(" ", "word", (one,)), (" ", "joined", run)],
        "must": [("+", "word", (one,)), (" ", "word", (other,))],
        "all": [("+", "word", (one,)), ("+", "word", (other,))],
        "not": [(" ", "word", (one,)), ("-", "word", (other,))],
        "any and must": [(" ", "word", (one,)), (" ", "word", (other,)), ("+", "word", (third,))],
        "prefix": [(" ", "prefix", (one[: rng.randint(2, 4)],)), (" ", "word", (other,))],
    }
    return found[shape]


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
    """Return whether two rankings agree in all but the order of what ties.

    At every rank stands a document to which Lucene gives the score of that rank.
    """
    scores = dict(theirs)
    places = [score for _, score in theirs[:k]]
    return len(ours) == len(places) and all(
        abs(scores.get(doc_id, 0.0) - score) <= CLOSE * score
        for doc_id, score in zip(ours, places, strict=True)
    )
