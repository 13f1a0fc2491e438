"""Lucene as a stack, and its BM25 as an oracle of the word indexes."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from shutil import which
from tempfile import TemporaryDirectory

import pytest
from python_docs.harvest import harvest

from harness.check.checks import check
from harness.core.engine import Searcher
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.records import Document
from harness_engines import registry
from harness_engines.registry import Arm
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "lucene"
LUCENE = str(EXAMPLES / "lucene.toml")
DOCUMENTS = (
    Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cubes"),
    Document("d", "pandas.read_csv", "reads a table"), Document("e", "", ""),
)  # fmt: skip
HERE = bool(which("java") and [*Path("/usr/share/java").glob("lucene-c*")])
live = pytest.mark.skipif(
    not HERE, reason="needs Lucene: apt-get install default-jre-headless liblucene8-java"
)


@contextmanager
def opened(arm: Arm, documents: Sequence[Document]) -> Iterator[Searcher]:
    """Build an index in a folder of its own, and open it."""
    with TemporaryDirectory() as folder:
        arm.build(documents, Path(folder))
        with arm.open(Path(folder)) as searcher:
            yield searcher


@live
@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    found = check(LUCENE, tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


def ids(searcher: Searcher, text: str) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, 10).hits]


@live
def test_what_a_text_finds(tmp_path: Path) -> None:
    english = registry.load(str(EXAMPLES / "lucene-english.toml"), tmp_path)
    with opened(english, DOCUMENTS) as searcher:
        for text, wanted in {
            "red cone": ["B", "b"], "cube": ["c"], '"read csv"': ["d"], "read_csv": ["d"],
            "+cone -red": [], "the": [],
        }.items():  # fmt: skip
            assert ids(searcher, text) == wanted, text
            note = searcher.search(text, 10).note
            assert note.startswith("only stop words") == (text == "the"), text


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
        assert ids(searcher, "cone") == ["text"]
    with pytest.raises(IndexNotReady), arm("title_weight = 3.0").open(index):
        pass
    with pytest.raises(BadPolicy, match=r"settings\.analyzer"):
        arm('analyzer = "german"')
    with pytest.raises(BadPolicy, match="needs a whole title_weight"):
        arm("title_weight = 1.5")
    fields = 'bm25_over = "fields"\ntitle_weight = 9.5'
    with opened(arm(fields), documents) as searcher:
        assert ids(searcher, "cone") == ["title", "text"]


K, MOST_WORDS, CLOSE = 10, 5, 1e-5
SHAPES = ("{} {} {}", "{} {}", "{}", '"{} {}"', '"{} {}" {}', "{}-{}", "+{} {}", "+{} +{}",
          "{} -{}")  # fmt: skip


def drawn(texts: Sequence[str], count: int) -> Iterator[str]:
    """Draw what somebody types of words in a row of one text: plain, a phrase, joined, with signs.

    Words are ASCII, since engines differ in what letters are; -17 is text to ours.
    """
    dice = Random(3)
    rows = (re.findall(r"[a-z]+", text.lower()) for text in texts)
    long = [row for row in rows if len(row) > MOST_WORDS]
    for _ in range(count):
        row, shape = dice.choice(long), dice.choice(SHAPES)
        at = dice.randrange(len(row) - MOST_WORDS)
        yield shape.format(*row[at : at + MOST_WORDS])


@live
@pytest.mark.slow
def test_tantivy_finds_what_lucene_finds(tmp_path: Path, draws: Callable[[int, int], int]) -> None:
    """At every rank stands a document to which Lucene gives that rank's share of the best score."""
    entries = harvest(["numpy", "scipy.stats"]).entries
    documents = [
        Document(one.name, one.name, one.docstring.body) for one in entries if one.docstring.body
    ]
    count, wrong, found = draws(150, 400), {}, 0
    with (
        opened(registry.load("tantivy", tmp_path), documents) as tantivy,
        opened(registry.load(LUCENE, tmp_path), documents) as lucene,
    ):
        for text in drawn([one.text for one in documents], count):
            ours, theirs = tantivy.search(text, K).hits, lucene.search(text, 50).hits
            scores = {hit.doc_id: hit.score for hit in theirs}
            shares = [scores.get(hit.doc_id, 0.0) for hit in ours]
            if shares != pytest.approx([hit.score for hit in theirs[:K]], abs=CLOSE, rel=0):
                wrong[text] = ours, theirs[:K]
            found += bool(ours)
    assert not wrong, f"{len(wrong)} of {count}: {[*wrong.items()][:3]}"
    assert found > count * 0.9
