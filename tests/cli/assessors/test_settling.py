"""``harness pool --order settle``: judge, look again, and stop where the gate is settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.corpus import pool, trec
from harness.serve import form
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
        for file in (path, pool.beside(path)):
            file.unlink()
        said = settle(harness, "0.01", project.root / "more.qrels")
    assert said.code == 0
    assert "Add queries: no pair is left, and no pool was written." in said.out


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
