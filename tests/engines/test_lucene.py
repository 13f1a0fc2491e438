"""Lucene as a stack, and its BM25 as an oracle of the word indexes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from shutil import which

import pytest
from python_docs.harvest import harvest

from harness.check.checks import check
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.records import Document
from harness_engines import registry
from harness_engines.registry import Arm
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


K, COUNT, MOST_WORDS, CLOSE = 10, 400, 5, 1e-5
SHAPES = [
    "{} {} {}",
    "{} {}",
    "{}",
    '"{} {}"',
    '"{} {}" {}',
    "{}-{}",
    "+{} {}",
    "+{} +{}",
    "{} -{}",
]


def drawn(texts: Sequence[str]) -> Iterator[str]:
    """Draw what somebody types of words in a row of one text: plain, a phrase, joined, with signs.

    Words are ASCII, since engines differ in what letters are; -17 is text to ours.
    """
    dice = Random(3)
    rows = (re.findall(r"[a-z]+", text.lower()) for text in texts)
    long = [row for row in rows if len(row) > MOST_WORDS]
    for _ in range(COUNT):
        row, shape = dice.choice(long), dice.choice(SHAPES)
        at = dice.randrange(len(row) - MOST_WORDS)
        yield shape.format(*row[at : at + MOST_WORDS])


@live
@pytest.mark.slow
@pytest.mark.sampled(1)
def test_tantivy_finds_what_lucene_finds(tmp_path: Path) -> None:
    """At every rank stands a document to which Lucene gives that rank's share of the best score."""
    entries = harvest(["numpy", "scipy.stats"]).entries
    documents = [
        Document(one.name, one.name, one.docstring.body) for one in entries if one.docstring.body
    ]
    wrong, found = {}, 0
    with ExitStack() as until:
        opened = []
        for name in ("tantivy", str(EXAMPLES / "lucene.toml")):
            one, index = registry.load(name, tmp_path), tmp_path / Path(name).stem
            index.mkdir()
            one.build(documents, index)
            opened.append(until.enter_context(one.open(index)))
        for text in drawn([one.text for one in documents]):
            ours, theirs = (
                one.search(text, k).hits for one, k in zip(opened, (K, 50), strict=True)
            )
            scores = {hit.doc_id: hit.score for hit in theirs}
            pairs = zip(ours, theirs[:K], strict=False)
            if len(ours) != len(theirs[:K]) or any(
                abs(scores.get(one.doc_id, 0.0) - other.score) > CLOSE for one, other in pairs
            ):
                wrong[text] = ours, theirs[:K]
            found += bool(ours)
    assert not wrong, f"{len(wrong)} of {COUNT}: {[*wrong.items()][:3]}"
    assert found > COUNT * 0.9
