"""``harness pool --order settle``: judge, look again, and stop where the gate is settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.corpus import pool, trec
from harness.serve import form, pages
from harness.stages.judging import settling
from harness.stages.judging.compared import Compared
from tests.cli.conftest import Harness, Said
from tests.make.toy import CONTROL, Toy

pytestmark = pytest.mark.slow
PAIR = ("--control", CONTROL, "--candidate", "hash-hybrid", "--measure", "nDCG@10")
SETTLE = ("--order", "settle", "--asks", "non_inferior", "--margin")


@pytest.fixture
def judged(project: Toy, harness: Harness) -> dict[tuple[str, str], int]:
    """Withhold most judgements, and give them all."""
    path = project.root / "qrels" / "toy" / "test.qrels"
    lines = path.read_text().splitlines(keepends=True)
    grades = {(line.split()[0], line.split()[2]): int(line.split()[3]) for line in lines}
    path.write_text("".join(line for line in lines if line.split()[3] == "2" or "q99" in line))
    assert harness("prepare", "--dataset", "toy", "--update").code == 0
    return grades


def settle(harness: Harness, margin: str, to: Path, *more: str) -> Said:
    words = (*PAIR, *SETTLE, margin, "--size", "40", "--out", to, *more)
    return harness("pool", "--dataset", "toy", *words)


def test_it_is_judged_until_the_gate_is_settled(
    project: Toy, harness: Harness, judged: dict[tuple[str, str], int]
) -> None:
    labels = 0
    for at in range(30):
        path = project.root / f"pool{at}.qrels"
        said = settle(harness, "0.5", path)
        assert said.code == 0, said
        if not path.exists():
            break
        made = pool.read(path)
        assert form.sit("pool", path, {}).pair == made.pairs[0]
        assert "non_inferior by 0.5 is open after " in said.out
        for pair in made.pairs:
            pool.regrade(path, pair, None, judged.get((pair.query_id, pair.doc_id), 0))
        labels += len(made.pairs)
        assert harness("judge", path, "--merge", "toy", "--by", "ada").code == 0
    assert "PASS: non_inferior by 0.5 is settled after " in said.out
    assert "No pool was written." in said.out
    assert "Judge them" not in said.out
    assert labels > 0
    said = settle(harness, "0.01", project.root / "more.qrels")
    while (project.root / "more.qrels").exists():
        path = (project.root / "more.qrels").rename(project.root / "left.qrels")
        pool.beside(project.root / "more.qrels").rename(pool.beside(path))
        for pair in pool.read(path).pairs:
            pool.regrade(path, pair, None, judged.get((pair.query_id, pair.doc_id), 0))
        assert harness("judge", path, "--merge", "toy", "--by", "ada").code == 0
        for file in (path, pool.beside(path), settling.beside(project.root / "more.qrels")):
            file.unlink()
        said = settle(harness, "0.01", project.root / "more.qrels")
    assert said.code == 0
    assert "Add queries: no pair is left. No pool was written." in said.out


Judgements = dict[tuple[str, str], int]


@pytest.fixture
def begun(project: Toy, harness: Harness, judged: Judgements) -> Path:
    """Begin a pool of a few pairs; the judgements that it lacks are known."""
    path = project.root / "pool.qrels"
    words = (*PAIR, *SETTLE, "0.5", "--size", "6", "--out", path)
    assert harness("pool", "--dataset", "toy", *words).code == 0
    assert judged
    return path


def page(path: Path) -> str:
    return bytes(pages.judging(form.sit("pool", path, {}), "harness").body).decode()


def test_the_form_gives_the_next_pairs_until_the_gate_is_settled(
    project: Toy, harness: Harness, begun: Path, judged: Judgements
) -> None:
    """Batch by batch in a browser, it is the same queries and the same verdict as by hand."""
    first, seen = pool.read(begun).pairs, form.sit("pool", begun, {})
    while seen.pair is not None:
        grade = judged.get((seen.pair.query_id, seen.pair.doc_id), 0)
        body = f"key={grade}&pair={seen.word}&was=&done="
        seen = form.press("pool", begun, body.encode())
    whole = pool.read(begun)
    assert whole.pairs[: len(first)] == first
    assert len(whole.pairs) > len(first)
    assert len(whole.judgements) == len(whole.pairs)
    assert "PASS: non_inferior by 0.5 is settled after " in page(begun)
    at_once = settle(harness, "0.5", project.root / "all.qrels", "--size", "1000")
    assert at_once.code == 0
    order = [(one.query_id, one.doc_id) for one in pool.read(project.root / "all.qrels").pairs]
    queries = [*dict.fromkeys(one.query_id for one in whole.pairs)]
    assert queries == [*dict.fromkeys(query_id for query_id, _ in order)][: len(queries)]
    assert {(one.query_id, one.doc_id) for one in whole.pairs} <= {*order}
    assert harness("judge", begun, "--merge", "toy", "--by", "ada").code == 0
    assert "PASS: " in settle(harness, "0.5", project.root / "after.qrels").out


def test_a_terminal_gets_the_next_pairs_too(
    harness: Harness, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("0" * 7 + "q"))
    said = harness("judge", begun)
    assert said.code == 0
    assert "7 of 12 pairs are judged." in said.out
    assert pool.read(begun).grades == (0,) * 7 + (None,) * 5


def test_a_pair_that_was_skipped_is_judged_before_more_come(begun: Path) -> None:
    skipped, *others = pool.read(begun).pairs
    for pair in others:
        pool.regrade(begun, pair, None, 0)
    found = settling.following(begun)
    assert found is not None
    assert found.pool.pairs == (skipped, *others) == pool.read(begun).pairs


def test_runs_that_changed_add_nothing_and_the_page_says_so(project: Toy, begun: Path) -> None:
    made = pool.read(begun)
    assert settling.standing(begun) is not None
    file = settling.beside(begun)
    file.write_text(file.read_text().replace(settling.runs_of(
        project.layout, Compared(CONTROL, "hash-hybrid", "nDCG@10"))[0], "0" * 64))  # fmt: skip
    for pair in made.pairs[:-1]:
        pool.regrade(begun, pair, None, 0)
    last = made.pairs[-1]
    body = f"key=0&pair={form.word_for(last)}&was=&done="
    assert form.press("pool", begun, body.encode()).pair is None
    assert len(pool.read(begun).judgements) == len(pool.read(begun).pairs) == len(made.pairs)
    assert "was run anew, and other queries would be drawn" in page(begun)
    with pytest.raises(EvidenceError, match="Make a new pool"):
        settling.following(begun)
    file.write_text("{}")
    with pytest.raises(BadFile, match="is not what a pool settles"):
        settling.standing(begun)


def test_a_first_pool_becomes_a_data_set_by_the_command_of_its_page(
    project: Toy, harness: Harness
) -> None:
    queries, corpus = (project.root / "beir" / f"{name}.jsonl" for name in ("queries", "corpus"))
    path = project.root / "first.qrels"
    words = (queries, corpus, "--arms", "fts5", "--depth", "1", "--out", path)
    assert harness("queries", "pool", *words).code == 0
    for pair in pool.read(path).pairs:
        pool.regrade(path, pair, None, 1)
    commands = [one.partition("<")[0].split() for one in page(path).split("<code>")[1:]]
    (made,) = (one for one in commands if one[:3] == ["harness", "import", "jsonl"])
    places = {"corpus.jsonl": corpus, "queries.jsonl": queries, "NAME": "first"}
    assert harness(*(places.get(one, one) for one in made[1:])).code == 0
    lines = (project.root / "qrels" / "first" / "test.qrels").read_text().splitlines()
    assert len(lines) == len(pool.read(path).pairs)


def test_the_order_has_no_options_of_another(
    project: Toy, harness: Harness, judged: dict[tuple[str, str], int]
) -> None:
    to = project.root / "p.qrels"
    needs = "--order settle needs --asks and --margin, and no other order has them"
    words = ("pool", "--dataset", "toy", *PAIR, "--size", "5", "--out", to)
    assert needs in harness(*words, "--order", "settle", "--margin", "0.1").error
    assert needs in harness(*words, "--asks", "superior").error
    assert needs in harness(*words, "--margin", "0.1").error
    assert "no order of a pool named 'best'; there is" in harness(*words, "--order", "best").error
    asks = settle(harness, "0.1", to, "--asks", "equivalent").error
    assert "no gate that can be settled named 'equivalent'" in asks
    assert not to.exists()
    assert trec.qrels(project.root / "qrels" / "toy" / "test.qrels").grades
    assert judged
