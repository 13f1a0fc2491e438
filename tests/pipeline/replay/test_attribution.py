"""An arm whose index was damaged after it was built is invalid: it is never scored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.engine import Answer
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.pipeline.index import index, note_files
from harness.pipeline.replay import check_served, replay
from harness_engines.stacks.agent_mail import arm as mail
from tests.make.arms import Table, hits
from tests.make.damage import cut, flip, run_sql
from tests.make.toy import Toy

ARM = """\
summary = "Message search in a test"
stack = "mail"
[settings]
mode = "{mode}"
search_engine = "{switch}"
subject_weight = 2
identifiers_weight = 4
embedder = "hash"
max_tokens = 64
"""
Damage = Callable[[Path], object]


def a_segment(index_folder: Path) -> Path:
    return next((index_folder / mail.TANTIVY / "index").glob("*.term"))


DAMAGE: dict[str, tuple[str, str, Damage, str]] = {
    "tantivy-gone": (
        "lexical",
        "tantivy",
        lambda at: shutil.rmtree(at / mail.TANTIVY),
        "no index here.*answered by fts5",
    ),
    "tantivy-flipped": (
        "lexical",
        "",
        lambda at: flip(a_segment(at), 20),
        "its bytes were altered.*answered by fts5",
    ),
    "tantivy-flipped-below-hybrid": (
        "hybrid",
        "",
        lambda at: flip(a_segment(at), 20),
        "hybrid: tantivy: .*its bytes were altered.*answered by fts5",
    ),
    "vectors-cut": (
        "hybrid",
        "",
        lambda at: cut(at / mail.VECTORS),
        "vectors.amvi: it has .* bytes.*answered by tantivy",
    ),
    "vectors-flipped": (
        "semantic",
        "",
        lambda at: flip(at / mail.VECTORS),
        "its CRC-32 is .*answered by tantivy",
    ),
    "fts5-dropped": (
        "lexical",
        "fts5",
        lambda at: run_sql(at / mail.STORE, "DROP TABLE messages_fts"),
        "no such table: messages_fts.*answered by like",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("damaged", DAMAGE)
def test_an_arm_whose_index_was_damaged_is_invalid_and_has_no_run(
    project: Toy, damaged: str
) -> None:
    mode, switch, spoil, why = DAMAGE[damaged]
    own = project.root / "own.toml"
    own.write_text(ARM.format(mode=mode, switch=switch))
    params = project.params.replay
    index(project.layout, str(own), project.cache)
    replay(project.layout, str(own), project.cache, params)
    run = project.layout.run("own")
    run.unlink()
    spoil(project.layout.index("own"))
    note_files(project.layout.index("own"))
    with pytest.raises(InvalidArm, match=f"own: 41 of 41 answers were served .*{why}"):
        replay(project.layout, str(own), project.cache, params)
    assert not run.exists()


def test_a_store_that_is_broken_is_not_opened(project: Toy) -> None:
    own = project.root / "own.toml"
    own.write_text(ARM.format(mode="lexical", switch="tantivy"))
    index(project.layout, str(own), project.cache)
    run_sql(project.layout.index("own") / mail.STORE, "DROP TABLE messages")
    note_files(project.layout.index("own"))
    with pytest.raises(IndexNotReady, match="no such table"):
        replay(project.layout, str(own), project.cache, project.params.replay)


QUERIES = [Query("q1", "one"), Query("q2", "two")]


def run_of(*rows: Row) -> Run:
    return Run.of("arm", rows)


def test_one_answer_of_another_engine_is_enough_and_the_arm_says_why() -> None:
    table = Table(answers={"two": lambda: Answer(hits("d"), "somebody else", "the disk is full")})
    own = table.manifest.fingerprint
    answered = Row("q1", Status.ANSWERED, hits("d"), own)
    check_served(run_of(answered, Row("q2", Status.FAILED, error="x")), table, QUERIES)
    strange = Row("q2", Status.ANSWERED, hits("d"), "somebody else")
    with pytest.raises(InvalidArm, match=r"1 of 2 .* of q2, by somebody els: the disk is full"):
        check_served(run_of(answered, strange), table, QUERIES)


def test_an_arm_that_answers_itself_when_asked_again_was_late_perhaps() -> None:
    table = Table(answers={"two": lambda: Answer(hits("d"), "own")})
    strange = Row("q2", Status.ANSWERED, hits("d"), "somebody else")
    said = "queried once more it gives no reason; on a busy machine a time limit may have passed"
    with pytest.raises(InvalidArm, match=said):
        check_served(run_of(strange), table, QUERIES)


def test_an_arm_that_breaks_when_asked_why_is_quoted() -> None:
    def broken() -> Answer:
        raise ValueError("broken pipe")

    table = Table(answers={"one": broken})
    with pytest.raises(InvalidArm, match=r"by an unknown one: ValueError: broken pipe"):
        check_served(run_of(Row("q1", Status.ANSWERED)), table, QUERIES)
