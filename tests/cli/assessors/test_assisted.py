"""``harness assisted``: two files of judgements, one verdict, and what is refused."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from harness.corpus import pool
from harness.corpus.runs import read_run
from harness.stages.judging.assisted import Judging, difference
from harness.stats.inference import Inference
from tests.cli.conftest import Harness, Said
from tests.make.toy import CONTROL, Toy

pytestmark = pytest.mark.slow
CANDIDATE = "hash-hybrid"
RULES = Inference(confidence=0.95, resamples=300, seed=5)


def write(toy: Toy, *, opposite: bool = False) -> tuple[Path, Path]:
    """Let a machine judge all that is shown, and people three of four queries of the toy."""
    runs = [read_run(toy.layout.run(arm)) for arm in (CONTROL, CANDIDATE)]
    human, machine = [], []
    for at, query_id in enumerate(runs[0].query_ids):
        for doc_id in sorted({d for run in runs for d in run.ranking(query_id, 10)}):
            grade = crc32(f"{query_id} {doc_id}".encode()) % 3 // 2
            machine.append(f"{query_id} 0 {doc_id} {1 - grade if opposite else grade}\n")
            if at % 4:
                human.append(f"{query_id} 0 {doc_id} {grade}\n")
    paths = toy.root / "human.qrels", toy.root / "machine.qrels"
    for path, lines in zip(paths, (human, machine), strict=True):
        path.write_text("".join(lines))
    return paths


def typed(harness: Harness, *more: str, measure: str = "P@10", kappa: str = "0.4") -> Said:
    arms = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", measure)
    files = ("--human", "human.qrels", "--machine", "machine.qrels", "--least-kappa", kappa)
    return harness("assisted", "--dataset", "toy", *arms, *files, "--margin", "0.5", *more)


def test_a_machine_that_agrees_is_used(project: Toy, harness: Harness) -> None:
    write(project)
    said = typed(harness)
    assert said.code == 0, said
    assert "the machine is used" in said.out
    assert "grade 1 of the machine: 100% relevant to people" in said.out
    assert "PASS: " in said.out
    assert typed(harness, "--margin", "0").code == 3


def test_one_that_does_not_is_not_used_at_all(project: Toy, harness: Harness) -> None:
    write(project, opposite=True)
    said = typed(harness)
    assert "kappa of people and machine -" in said.out
    assert "the machine is not used: its agreement is not surely above the bound" in said.out
    alone, used = (line.split(": ")[1] for line in said.out.splitlines()[-3::2])
    assert used.startswith(alone.split(",  ")[0].split(", n")[0])


def test_what_is_refused_is_named(project: Toy, harness: Harness) -> None:
    human, _ = write(project)
    error = typed(harness, measure="nDCG@10").error
    assert "no measure to which each document adds by itself named 'nDCG@10'; there is P@5" in error
    lines = human.read_text().splitlines(keepends=True)
    judging = Judging(CONTROL, CANDIDATE, "P@10", human, project.root / "machine.qrels", 0.4, 0.5)
    found = difference(project.layout, judging, RULES)
    assert found.queries > found.judged > 0
    human.write_text("".join(line for line in lines if hash(line) is None or line != lines[0]))
    apart = [line for line in lines if line.split()[0] == "q01"]
    human.write_text("".join(line for line in lines if line not in apart[1:]))
    assert "human.qrels: 1 query is judged in part, for example q01; judge" in (
        typed(harness).error
    )
    human.write_text("".join(apart))
    assert "people judged" in typed(harness).error
    (project.root / "machine.qrels").write_text("q01 0 elsewhere 1\n")
    human.write_text("".join(lines))
    assert "no document was judged by people and by the machine" in typed(harness).error


def test_pairs_that_were_drawn_are_judged_by_themselves(project: Toy, harness: Harness) -> None:
    """A pool is drawn of what one arm alone shows; the machine judges all of it, people a part."""
    human, machine = write(project)
    arms = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", "P@10")
    drawn = ("pool", "--dataset", "toy", *arms, "--order", "random", "--size")
    said = harness(*drawn, "60", "--out", "people.qrels")
    assert said.code == 0, said
    every = harness(*drawn, "100000", "--out", "all.qrels")
    count = len(pool.read(project.root / "all.qrels").pairs)
    assert f"{count} pairs are shown by one arm alone; {count} were drawn." in every.out
    first = pool.read(project.root / "people.qrels").pairs
    assert first == pool.read(project.root / "all.qrels").pairs[:60]
    assert len({pair.query_id for pair in first}) > 20
    grades = {
        tuple(line.split()[::2]): line.split()[3] for line in machine.read_text().splitlines()
    }
    human.write_text(
        "".join(f"{p.query_id} 0 {p.doc_id} {grades[p.query_id, p.doc_id]}\n" for p in first)
    )
    assert "If the pairs were drawn over all queries, say --sampled pairs" in typed(harness).error
    said = typed(harness, "--sampled", "pairs")
    assert said.code == 0, said
    assert "n = 60 pairs" in said.out
    assert "the machine is used" in said.out
    assert "kind of what was drawn named 'words'" in typed(harness, "--sampled", "words").error


def test_only_a_precision_is_drawn_for(project: Toy, harness: Harness) -> None:
    arms = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", "nDCG@10")
    words = ("--order", "random", "--size", "5", "--out", "p.qrels")
    said = harness("pool", "--dataset", "toy", *arms, *words)
    assert said.code == 2
    assert "no measure for the order random named 'nDCG@10'; there is P@5, P@10" in said.error
    assert not (project.root / "p.qrels").exists()
