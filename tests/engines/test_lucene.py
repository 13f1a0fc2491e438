"""Lucene as a stack, and its BM25 as an oracle of the word indexes."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from shutil import which

import pytest
from agent_mail.generate import Traffic, generate
from python_docs.harvest import harvest

from harness.check.checks import check
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.records import Document
from harness_engines import registry
from harness_engines import registry as arms
from harness_engines.lexical.terms import identifiers, indexed
from harness_engines.registry import Arm
from harness_engines.stacks.agent_mail.contract import Filters, Importance, Message, RankingMode
from harness_engines.stacks.agent_mail.contract import names as names_of
from tests.make.mail_engines import WEIGHTS, built
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "lucene"
DOCUMENTS = (
    Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cubes"),
    Document("d", "pandas.read_csv", "reads a table"), Document("e", "", ""),
)  # fmt: skip
HERE = bool(which("java") and [*Path("/usr/share/java").glob("lucene-c*")])
live = pytest.mark.skipif(
    not HERE, reason="needs Lucene: apt-get install default-jre-headless liblucene8-java"
)


@pytest.fixture
def english(tmp_path: Path) -> Arm:
    return registry.load(str(EXAMPLES / "lucene-english.toml"), tmp_path)


@live
@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    found = check(str(EXAMPLES / "lucene.toml"), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


@live
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("red cone", ["B", "b"]),
        ("cube", ["c"]),
        ('"read csv"', ["d"]),
        ("read_csv", ["d"]),
        ("+cone -red", []),
        ("the", []),
    ],
)
def test_what_a_text_finds(english: Arm, tmp_path: Path, text: str, wanted: list[str]) -> None:
    index = tmp_path / "index"
    index.mkdir()
    english.build(DOCUMENTS, index)
    with english.open(index) as searcher:
        answer = searcher.search(text, 10)
        assert [hit.doc_id for hit in answer.hits] == wanted
        assert answer.note.startswith("only stop words") == (text == "the")


@live
def test_weights_and_settings_count_and_another_index_is_refused(tmp_path: Path) -> None:
    path, index = tmp_path / "mine.toml", tmp_path / "index"
    index.mkdir()

    def arm(lines: str) -> Arm:
        path.write_text(f'summary = "x"\nstack = "lucene"\n[settings]\n{lines}\n', "utf-8")
        return registry.load(str(path), tmp_path)

    documents = [Document("text", "", "cone and more"), Document("title", "cone", "and more")]
    made = arm("title_weight = 0.0\nk1 = 0.9\nb = 0.4").build(documents, index)
    assert "Lucene 8" in made.version
    with arm("title_weight = 0.0\nk1 = 0.9\nb = 0.4").open(index) as searcher:
        assert [hit.doc_id for hit in searcher.search("cone", 10).hits] == ["text"]
    with pytest.raises(IndexNotReady), arm("title_weight = 3.0").open(index):
        pass
    with pytest.raises(BadPolicy, match=r"settings\.analyzer"):
        arm('analyzer = "german"')
    with pytest.raises(BadPolicy, match="needs a whole title_weight"):
        arm("title_weight = 1.5")
    other = tmp_path / "other"
    other.mkdir()
    fields = 'bm25_over = "fields"\ntitle_weight = 9.5'
    arm(fields).build(documents, other)
    with arm(fields).open(other) as searcher:
        assert [hit.doc_id for hit in searcher.search("cone", 10).hits] == ["title", "text"]


K, COUNT, MOST_WORDS, CLOSE = 10, 400, 5, 1e-6
CONSTANT = 1.2 + 1
"""Tantivy's BM25 is k1 + 1 times that of Lucene 8 and later; the score of a prefix is 1 in both."""
PROGRAM = Path(__file__).with_name("Search.java")
NEEDED = ("lucene-core-[0-9]*.jar", "lucene-analy*-common-[0-9]*.jar")
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SHAPES = (
    *("words",) * 9,
    *("phrase", "phrase", "phrase and word", "joined", "joined and word"),
    *("must", "all", "not", "any and must", "prefix", "prefix"),
)
Part = tuple[str, str, tuple[str, ...]]
"""A sign (space, + or -), a kind (word, phrase, joined or prefix), and its words."""


def words_of(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W_]+", text)]


def typed(parts: Iterable[Part]) -> str:
    """Write a question as somebody types it."""
    form = {"phrase": '"{}"', "prefix": "{}*"}
    return " ".join(
        sign.strip() + form.get(kind, "{}").format(("-" if kind == "joined" else " ").join(words))
        for sign, kind, words in parts
    )


def drawn(texts: Iterable[str], seed: int, *, prefixes: bool) -> list[list[Part]]:
    """Draw questions of words of one text: in nine of 20 one to five words, else something harder.

    Words are ASCII, since engines differ in what letters are; -17 is text to ours.
    """
    rng = Random(seed)
    rows = [[w for w in words_of(text) if w.isascii() and not w.isdigit()] for text in texts]
    long = [row for row in rows if len(row) > MOST_WORDS]
    shapes = SHAPES if prefixes else SHAPES[:-2]
    return [parts_of(rng, rng.choice(long), rng.choice(shapes)) for _ in range(COUNT)]


def parts_of(rng: Random, row: Sequence[str], shape: str) -> list[Part]:
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


def ways(part: Part, weights: Mapping[str, float]) -> list[str]:
    """List the ways in which the arm ``tantivy`` lets a part match, for Lucene."""
    _, kind, words = part
    how = {"word": "term", "joined": "phrase"}.get(kind, kind)
    found = [f"{field}^{weight} {how} {' '.join(words)}" for field, weight in weights.items()]
    if kind == "joined":
        found += [f"{field}^{weight} term {w}" for field, weight in weights.items() for w in words]
    return found


def mail_ways(part: Part) -> list[str]:
    """List the ways in which the mail engine lets a part match.

    The parts of a name must stand side by side, or the name whole in a field of its own.
    """
    sign, kind, words = part
    fields = {"text": 1.0}
    if kind == "prefix":
        fields = {"subject": WEIGHTS.subject / CONSTANT, "body": 1 / CONSTANT}
    found = ways((sign, "phrase" if kind == "joined" else kind, words), fields)
    if kind in {"word", "joined"}:
        found += [f"whole^1.0 term {name}" for name in names_of("-".join(words))]
    return found


def compared(
    questions: Sequence[Sequence[Part]],
    of: Callable[[Part], Sequence[str]],
    documents: Mapping[str, Sequence[tuple[str, str]]],
    ours: Callable[[str], list[str]],
    folder: Path,
) -> None:
    """Compare rankings: at every rank stands a document to which Lucene gives that rank's score."""
    rows, asked = folder / "documents", folder / "questions"
    rows.write_text(
        "".join(
            "\t".join([doc_id, *(f"{name}={' '.join(text.split())}" for name, text in fields)])
            + "\n"
            for doc_id, fields in documents.items()
        ),
        encoding="utf-8",
    )
    lines = ("\t".join(part[0] + "|".join(of(part)) for part in parts) for parts in questions)
    asked.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    jars = Path(os.environ.get("LUCENE_JARS", "/usr/share/java"))
    found = [str(max(jars.glob(pattern), default="")) for pattern in NEEDED]
    if shutil.which("java") is None or not all(found):
        pytest.skip("needs apt-get install default-jre-headless liblucene8-java")
    command = ["java", *QUICK, "-cp", os.pathsep.join(found), PROGRAM, rows, asked, str(K)]
    ran = subprocess.run(
        [*map(str, command)], check=False, capture_output=True, encoding="utf-8", timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    theirs = [
        {doc_id: float(score) for doc_id, score in (hit.rsplit(":", 1) for hit in line.split())}
        for line in ran.stdout.splitlines()
    ]
    wrong = {}
    for parts, scores in zip(questions, theirs, strict=True):
        shown, places = ours(typed(parts)), [*scores.values()][:K]
        if len(shown) != len(places) or any(
            abs(scores.get(doc_id, 0.0) - score) > CLOSE * score
            for doc_id, score in zip(shown, places, strict=True)
        ):
            wrong[typed(parts)] = shown, scores
    assert not wrong, f"{len(wrong)} of {len(questions)}: {[*wrong.items()][:3]}"
    assert sum(bool(scores) for scores in theirs) > COUNT * 0.9


@pytest.mark.slow
@pytest.mark.sampled(1)
def test_the_arm_finds_what_lucene_finds(tmp_path: Path) -> None:
    documents = [
        Document(entry.name, entry.name, entry.docstring.body)
        for entry in harvest(["numpy", "scipy.stats"]).entries
        if words_of(entry.docstring.body)
    ]
    engine, index = arms.load("tantivy", tmp_path / "cache").engine, tmp_path / "index"
    index.mkdir()
    engine.build(documents, index)
    with engine.open(index) as searcher:
        compared(
            drawn([d.text for d in documents], 3, prefixes=False),
            lambda part: ways(part, {"text": 1.0}),
            {d.doc_id: [("text", d.title), ("text", d.title), ("text", d.text)] for d in documents},
            lambda text: [hit.doc_id for hit in searcher.search(text, K).hits],
            tmp_path,
        )


@pytest.mark.slow
def test_message_search_finds_what_lucene_finds(tmp_path: Path) -> None:
    """Lucene leaves messages without a word in a field out of its average length; ours counts."""
    made = generate(Traffic(messages=1_000, seed=5, queries=20)).documents
    rest: dict[str, object] = {
        "project_id": 1, "sender_name": "", "recipients": (), "thread_id": "",
        "importance": Importance.NORMAL, "ack_required": False, "created_ts": 0,
    }  # fmt: skip
    messages = [
        Message(message_id=int(d.doc_id), subject=d.title, body=d.text, **rest)  # type: ignore[arg-type]
        for d in made
        if words_of(d.title) and words_of(d.text) and identifiers(f"{d.title}\n{d.text}")
    ]
    given = {}
    for m in messages:
        subject, body = indexed(m.subject), indexed(m.body)
        whole = " ".join(names_of(f"{m.subject}\n{m.body}") * WEIGHTS.identifiers)
        fields = [("subject", subject), ("body", body), ("whole", whole)]
        given[str(m.message_id)] = [*fields, *(("text", one) for one in (subject, subject, body))]
    engine = built(tmp_path / "index", messages).engine

    def ours(text: str) -> list[str]:
        found = engine.search(text, Filters(), RankingMode.RELEVANCE, K)
        return [str(at) for at, _ in found.candidates]

    questions = drawn([m.body for m in messages], 4, prefixes=True)
    compared(questions, mail_ways, given, ours, tmp_path)
