"""``harness pool`` and ``harness judge``: from missing judgements to judgements, and back."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile, DatasetError
from harness.core.files import write_text
from harness.corpus import card, judgements, trec
from harness.corpus.judgements import Pool
from harness.judge.judge import judge, merge
from harness.judge.pool import SNIPPET
from harness.measures.missing_judgements import missing
from tests.cli.conftest import Harness, Said
from tests.make.toy import CANDIDATE, CONTROL, Toy

pytestmark = pytest.mark.slow
ARMS = ("--control", CONTROL, "--candidate", CANDIDATE)


@pytest.fixture
def sparse(project: Toy, harness: Harness) -> Toy:
    """Take most judgements away: only the best document of each query stays judged."""
    judged = project.root / "qrels" / "toy" / "test.qrels"
    lines = judged.read_text().splitlines(keepends=True)
    judged.write_text("".join(line for line in lines if line.split()[3] == "2" or "q99" in line))
    assert harness("stage", "prepare", "--dataset", "toy", "--update").code == 0
    return project


@pytest.fixture
def pooled(sparse: Toy, harness: Harness) -> Path:
    """Write a pool of five."""
    path = sparse.root / "pool.qrels"
    words = ("--measure", "nDCG@10", "--size", "5", "--out", path)
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert said.code == 0, said
    assert "wrote the first 5" in said.out
    return path


def piped(harness: Harness, monkeypatch: pytest.MonkeyPatch, keys: str, *words: str | Path) -> Said:
    monkeypatch.setattr("sys.stdin", io.StringIO(keys))
    return harness("judge", *words)


def test_a_pool_names_the_most_decisive_pairs_first(pooled: Path, sparse: Toy) -> None:
    found = judgements.read_pool(pooled)
    gains = [pair.narrows for pair in found.pairs]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0
    assert found.grades == (None,) * 5
    judged = trec.qrels(sparse.root / "qrels" / "toy" / "test.qrels").grades
    for pair in found.pairs:
        assert pair.doc_id not in judged[pair.query_id]
        assert pair.query
        assert pair.title
        assert 0 < len(pair.snippet) <= SNIPPET
        assert pair.scale == (0, 1, 2)


def test_all_of_the_question_and_of_the_document_is_shown(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the terminal is, words are wrapped and not cut off; brackets are no markup."""
    made = judgements.read_pool(pooled)
    long = " ".join(f"[red]word{at}" for at in range(60))
    changed = made.pairs[0].model_copy(update={"query": long, "snippet": long, "title": long})
    write_text(
        judgements.texts_path(pooled),
        judgements.texts_of(Pool((changed, *made.pairs[1:]), made.grades)),
    )
    said = piped(harness, monkeypatch, "q", pooled)
    for at in range(60):
        assert said.err.count(f"[red]word{at}") >= 3


def test_arms_that_were_compared_in_one_go_have_their_pool_too(
    sparse: Toy, harness: Harness
) -> None:
    ran, path = sparse.root / "out", sparse.root / "p.qrels"
    run = ("--dataset", "toy", "--arms", f"{CONTROL},{CANDIDATE}", "--control", CONTROL)
    assert harness("run", *run, "--out", ran).code == 0
    words = ("--from", ran, "--measure", "nDCG@10", "--size", "3", "--out", path)
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert said.code == 0, said
    assert "over 41 queries" in said.out
    assert len(judgements.read_pool(path).pairs) == 3


def test_a_pool_is_not_written_over(pooled: Path, harness: Harness) -> None:
    words = ("--measure", "nDCG@10", "--size", "5", "--out", pooled)
    assert "is there already" in harness("pool", "--dataset", "toy", *ARMS, *words).error


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dataset", "nope"), "no dataset named 'nope'; there is toy"),
        (("--dataset", "beir"), "beir is a folder and no data set of the project. Name"),
        (("--from", "out/ran", "--dataset", "toy"),
         "no data set in out/ran named 'toy'; there is beir"),
        (("--from", "out/none"), "out/none/work/build: holds the evidence of none"),
        (("--from", "out"), "out/work/build: holds the evidence of none"),
        (("--from", "out/ran", "--candidate", "dense"),
         "no arm that beir was run with named 'dense'; there is fts5, tantivy"),
        (("--dataset", "toy", "--candidate", "dense"),
         "no arm that toy was run with named 'dense'; there is fts5, hash-hybrid, tantivy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_not_what_follows(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    """Each of these said that an arm had no index, which no command could mend."""
    run = ("run", "--dataset", "beir", "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*run, "--out", "out/ran").code == 0
    size = ("--measure", "nDCG@10", "--size", "5", "--out", "x.pool")
    assert says in harness("pool", *ARMS, *size, *words).error
    assert project


def test_the_data_set_of_a_run_need_not_be_named(sparse: Toy, harness: Harness) -> None:
    run = ("run", "--dataset", "toy", "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*run, "--out", "out/ran").code == 0
    size = ("--measure", "nDCG@10", "--size", "5", "--out")
    for name, words in (("a", ("--from", "out/ran")), ("b", ())):
        assert harness("pool", *ARMS, *size, name, *words).code == 0
    assert (sparse.root / "a").read_bytes() == (sparse.root / "b").read_bytes()


def test_where_all_is_judged_there_is_nothing_to_pool(project: Toy, harness: Harness) -> None:
    words = ("--measure", "nDCG@10", "--size", "5", "--out", project.root / "p")
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert "no judgement is missing" in said.error
    unknown = ("--measure", "Judged@10", "--size", "5", "--out", project.root / "p")
    assert "measure with bounds" in harness("pool", "--dataset", "toy", *ARMS, *unknown).error


def test_keys_give_grades_and_may_be_taken_back(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = piped(harness, monkeypatch, "1 s 9 2 u 0\n", pooled)
    assert said.code == 0, said
    assert judgements.read_pool(pooled).grades == (1, None, 0, None, None)
    assert "'9' is not a key" in said.err
    assert "2 of 5 pairs are judged" in said.out


def test_it_goes_on_where_it_was_left(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(harness, monkeypatch, "12q00", pooled)
    assert judgements.read_pool(pooled).grades == (1, 2, None, None, None)
    piped(harness, monkeypatch, "000", pooled)
    assert judgements.read_pool(pooled).grades == (1, 2, 0, 0, 0)
    assert "5 of 5" in piped(harness, monkeypatch, "", pooled).out


def test_each_key_is_in_the_file_before_the_next(pooled: Path) -> None:
    """Whoever pulls the plug loses one key at most."""
    seen: list[tuple[int | None, ...]] = []

    def show(_: Pool, __: int, ___: str) -> None:
        seen.append(judgements.read_pool(pooled).grades)

    judge(pooled, "01u", show)
    assert seen == [
        (None, None, None, None, None),
        (0, None, None, None, None),
        (0, 1, None, None, None),
        (0, None, None, None, None),
    ]


def test_what_somebody_else_judges_meanwhile_stays_and_is_told(pooled: Path) -> None:
    said: list[str] = []
    shown = judgements.read_pool(pooled).pairs

    def show(_: Pool, __: int, told: str) -> None:
        said.append(told)
        if len(said) == 1:
            judgements.regrade(pooled, shown[0], None, 2)
            judgements.regrade(pooled, shown[3], None, 1)

    judge(pooled, "1s00s", show)
    assert judgements.read_pool(pooled).grades == (2, 0, 0, 1, None)
    assert said == [
        "", "somebody else judged it 2 meanwhile; nothing was changed", "", "",
        "judged 1 already", "",
    ]  # fmt: skip


def test_judgements_come_back_into_the_data_set_with_who_made_them(
    pooled: Path, sparse: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(harness, monkeypatch, "0120q", pooled)
    said = harness("judge", pooled, "--merge", "toy", "--by", "two editors")
    assert "added 4 judgements to toy; 0 were known, 1 are open" in said.out
    judged = sparse.root / "qrels" / "toy" / "test.qrels"
    grades = trec.qrels(judged).grades
    for query_id, doc_id, grade in judgements.read_pool(pooled).judgements:
        assert grades[query_id][doc_id] == grade
    assert "4 judgements were added on" in card.read(sparse.root / "datasets" / "toy").warnings[-1]
    (line,) = judged.with_name("test.judged.jsonl").read_text().splitlines()
    assert json.loads(line)["by"] == "two editors"
    assert len(json.loads(line)["judgements"]) == 4
    assert harness("stage", "prepare", "--dataset", "toy").code == 0
    again = harness("judge", pooled, "--merge", "toy", "--by", "two editors")
    assert "added 0 judgements to toy; 4 were known" in again.out


def test_a_judgement_narrows_what_is_open(
    pooled: Path, sparse: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.corpus.prepared import Prepared
    from harness.corpus.runs import read_run

    control, candidate = (read_run(sparse.layout.run(arm)) for arm in (CONTROL, CANDIDATE))

    def width() -> float:
        qrels = Prepared.open(sparse.layout.data).qrels()
        found = missing(control, candidate, qrels, "nDCG@10")
        return float((found.best - found.worst).mean())

    before = width()
    piped(harness, monkeypatch, "00000", pooled)
    harness("judge", pooled, "--merge", "toy", "--by", "me")
    assert 0 < width() < before


def test_a_contradiction_is_not_settled_in_silence(pooled: Path, sparse: Toy) -> None:
    judge(pooled, "1", lambda *_: None)
    query_id, doc_id, _ = judgements.read_pool(pooled).judgements[0]
    folders = sparse.root / "datasets" / "toy", sparse.root / "qrels" / "toy"
    judged = folders[1] / "test.qrels"
    judged.write_text(judged.read_text() + f"{query_id} 0 {doc_id} 2\n")
    with pytest.raises(DatasetError, match=r"has grade 2 .* and grade 1"):
        merge(pooled, *folders, by="me", at="2026-01-31")


def test_who_judged_must_be_said(pooled: Path, harness: Harness) -> None:
    assert "say who judged" in harness("judge", pooled, "--merge", "toy").error


def test_a_pool_that_is_none(sparse: Toy, harness: Harness) -> None:
    assert "missing file" in harness("judge", sparse.root / "nothing.qrels").error
    with pytest.raises(BadFile):
        judge(sparse.root / "nothing.qrels", "", lambda *_: None)
