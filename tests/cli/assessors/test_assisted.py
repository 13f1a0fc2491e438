"""``harness labels``: two files of judgements, one verdict, and what is refused."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from harness.corpus.runs import read_run
from harness.judge.judge import Judging, difference
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


def typed(harness: Harness, *more: str, measure: str = "P@10") -> Said:
    arms = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", measure)
    files = ("human.qrels", "--machine", "machine.qrels")
    return harness("labels", *files, "--dataset", "toy", *arms, "--margin", "0.5", *more)


@pytest.mark.parametrize("opposite", [False, True])
def test_people_decide_and_the_machine_describes(
    project: Toy, harness: Harness, *, opposite: bool
) -> None:
    write(project, opposite=opposite)
    said = typed(harness)
    assert said.code == 0, said
    assert f"kappa of people and machine {'-' if opposite else ''}" in said.out
    assert f"grade {1 - opposite:d} of the machine: 100% relevant to people" in said.out
    assert "it describes and decides nothing" in said.out
    alone, used = (line.split(": ")[1] for line in said.out.splitlines()[-2:])
    assert used.split(", allowed")[0] == alone.split(", n")[0]
    assert typed(harness, "--margin", "0.15").code == 3, "the machine alone would pass"


def test_what_is_refused_is_named(project: Toy, harness: Harness) -> None:
    human, _ = write(project)
    error = typed(harness, measure="nDCG@10").error
    assert "no measure to which each document adds by itself named 'nDCG@10'; there is P@5" in error
    lines = human.read_text().splitlines(keepends=True)
    judging = Judging(CONTROL, CANDIDATE, "P@10", human, project.root / "machine.qrels", 0.5)
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
