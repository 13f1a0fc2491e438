"""``--threads``: how many draw resamples is a question of time, and of nothing else."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.pipeline.gate import gate
from harness.stats import bootstrap
from tests.cli.conftest import Harness
from tests.make.toy import NAME, Toy

pytestmark = pytest.mark.slow
DRAWING = (
    ("stage", "score", "--dataset", NAME),
    ("stage", "compare", "--dataset", NAME),
    ("gate", "--dataset", NAME),
    ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out"),
)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each draw was given, where it was given more than one."""
    seen: list[int] = []

    def counted(workers: int, **rest: Any) -> ThreadPoolExecutor:  # noqa: ANN401  passed on
        seen.append(workers)
        return ThreadPoolExecutor(workers, **rest)

    monkeypatch.setattr(bootstrap, "ThreadPoolExecutor", counted)
    return seen


@pytest.fixture
def counts(project: Toy) -> Toy:
    """Measure a count first: its greatest value is unknown, so that its interval is drawn."""
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace("measures: [", "measures: [NumRet, "))
    project.judge_again()
    return project


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", DRAWING, ids=lambda words: words[0])
def test_every_command_that_draws_takes_them(
    counts: Toy, harness: Harness, pools: list[int], words: tuple[str, ...]
) -> None:
    assert counts.layout.scores.is_file()
    plain = harness(*words)
    assert plain.code in {0, 3}, plain
    assert not pools
    assert harness(*words, "--threads", "2").out == plain.out
    assert set(pools) == {2}


def test_no_byte_of_a_decision_depends_on_them(
    counts: Toy, harness: Harness, pools: list[int]
) -> None:
    """Every file below a decision, from the scores on, made twice at one time as a first look."""
    now, layout = datetime.now(UTC), counts.layout
    files = (
        layout.scores, layout.slices, layout.differences, layout.decision, layout.findings,
        layout.junit,
    )  # fmt: skip
    made = []
    for threads in (1, 2):
        shutil.rmtree(layout.experiments, ignore_errors=True)
        for command in (("stage", "score"), ("stage", "compare")):
            words = (*command, "--dataset", NAME, "--threads", str(threads))
            assert harness(*words).code == 0
        gate(layout, counts.project.subject(NAME, threads), now=now)
        made.append([path.read_bytes() for path in files])
        assert bool(pools) is (threads > 1)
    assert made[0] == made[1]


def test_less_than_one_is_refused(harness: Harness) -> None:
    said = harness("gate", "--threads", "0")
    assert said.code == 2
    assert "--threads" in said.err
