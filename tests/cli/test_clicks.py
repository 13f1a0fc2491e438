"""``harness clicks``, and the switch that lets users see mixed lists."""

from __future__ import annotations

import shutil

import pytest

from harness.corpus import trec
from harness.corpus.beir import Beir
from harness.shadow.clicks.log import Click, ClickLog, ShownList
from tests.cli import click_log
from tests.cli.conftest import Harness
from tests.make.shadow.attempts import WATCH
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_a_log_says_whom_sessions_prefer(project: Toy, harness: Harness) -> None:
    folder = project.root / "clicks"
    click_log.write(folder, "red")
    log = ClickLog(folder)
    alone = ShownList("x", click_log.AT, "x", "red", ("fts5",), ("d00",), (0,))
    failed = ShownList(
        "y", click_log.AT, "y", "red", click_log.ARMS, ("d00",), (0,), "tantivy: down"
    )
    for record in (alone, failed, Click("none", "d00")):
        log.add(record)
    log.close()
    said = harness("clicks", "report", "clicks")
    assert said.code == 0, said
    assert "40 sessions saw 40 mixed lists and clicked 40 documents" in said.out
    assert "tantivy against fts5: +1.000 [" in said.out
    assert "(40 to 0, 0 ties), p = 0.0000: tantivy is preferred" in " ".join(said.out.split())
    assert "1 list was the control's own, because an arm failed" in said.out
    assert "1 list was shown while mixing was off" in said.out
    assert "1 click is on no list or document of the log" in said.out


def test_clicks_become_labels(project: Toy, harness: Harness) -> None:
    query = Beir(project.root / "beir", "test").queries()[0]
    click_log.write(project.root / "clicks", query.text)
    words = ("clicks", "labels", "clicks", "--queries", "beir/queries.jsonl")
    said = harness(*words, "--attractive", "0.5", "--min-shown", "2", "--out", "c.qrels")
    assert said.code == 0, said
    assert "a rank is looked at with probability 1.00, " in said.out
    assert "wrote 2 labels to c.qrels, 1 of them relevant" in said.out
    found = trec.qrels(project.root / "c.qrels")
    assert found.grades == {query.query_id: {"d00": 1, "d01": 0}}


def test_only_an_operator_switches_mixing_on(project: Toy, harness: Harness) -> None:
    shutil.copy(WATCH.parent / "mail.toml", project.root / "mail.toml")
    move = ("migrate", "interleave", "--reason", "two weeks", "--at", "moved")
    assert "has not begun" in harness(*move, "--arms", "fts5,tantivy").error
    harness("migrate", "begin", "--serving", "fts5", "--at", "moved", "--policy", "mail.toml")
    assert "name two arms or more" in harness(*move, "--arms", "fts5").error
    assert "is not a name of an arm" in harness(*move, "--arms", "fts5,../x").error
    said = harness(*move, "--arms", "fts5,tantivy")
    assert "on: users see lists of fts5, tantivy" in said.out
    status = ("migrate", "status", "--at", "moved", "--policy", "mail.toml", "--dataset", "toy")
    assert "interleaved" in harness(*status).out
    assert "two weeks" in harness(*status).out
    assert "off: users see the list" in harness(*move, "--arms", "none").out
    assert "two weeks" not in harness(*status).out


@pytest.mark.parametrize("command", [("report",), ("labels", "--queries", "beir/queries.jsonl",
    "--attractive", "0.3", "--min-shown", "1", "--out", "new")])  # fmt: skip
def test_a_log_that_is_missing_or_cut_is_named(
    project: Toy, harness: Harness, command: tuple[str, ...]
) -> None:
    name, *rest = command
    assert "clicks.jsonl: missing file" in harness("clicks", name, "clicks", *rest).error
    click_log.write(project.root / "clicks", "red")
    with (project.root / "clicks" / "clicks.jsonl").open("a") as out:
        out.write('{"id": "l1", "docu')
    said = harness("clicks", name, "clicks", *rest).error
    assert "clicks.jsonl:81: the line is not a record" in said
    assert not (project.root / "new").exists()
