"""Clicks from the command line."""

from __future__ import annotations

import shutil

import pytest

from harness.clicks.credit import Click, ClickLog, ShownList
from tests.cli import click_log
from tests.cli.conftest import Harness
from tests.make.shadow_records import WATCH
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_a_log_says_whom_users_prefer(project: Toy, harness: Harness) -> None:
    folder = project.root / "clicks"
    click_log.write(folder, "red")
    log = ClickLog(folder)
    alone = ShownList("x", click_log.AT, "red", ("fts5",), ("d00",), (0,))
    failed = ShownList("y", click_log.AT, "red", click_log.ARMS, ("d00",), (0,), "tantivy: down")
    unknown = ShownList("z", click_log.AT, "red", click_log.ARMS, ("d00",), (0,))
    robot = [
        ShownList(f"r{at}", click_log.AT, "red", click_log.ARMS, ("d00",), (0,), user="robot")
        for at in range(61)
    ]
    records: tuple[ShownList | Click, ...] = (alone, failed, unknown, *robot, Click("none", "d00"))
    for record in records:
        log.add(record)
    log.close()
    said = harness("clicks", "report", "clicks")
    assert said.code == 0, said
    assert "40 users saw 40 mixed lists and clicked 40 documents" in said.out
    assert "tantivy against fts5: +1.000 [" in said.out
    assert "(40 to 0, 0 ties): tantivy is preferred" in " ".join(said.out.split())
    assert "1 list was the control's own, because an arm failed" in said.out
    assert "1 user is left out as robots: more than 60 lists within an hour" in said.out
    assert "1 list is left out: its user is unknown" in said.out
    assert "1 list was shown while mixing was off" in said.out
    assert "1 click is on no list or document of the log" in said.out


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


def test_a_log_that_is_missing_or_cut_is_named(project: Toy, harness: Harness) -> None:
    assert "clicks.jsonl: missing file" in harness("clicks", "report", "clicks").error
    click_log.write(project.root / "clicks", "red")
    with (project.root / "clicks" / "clicks.jsonl").open("a") as out:
        out.write('{"id": "l1", "docu')
    said = harness("clicks", "report", "clicks").error
    assert "clicks.jsonl:81: not a record of clicks" in said


def test_a_log_without_users_has_no_verdict(project: Toy, harness: Harness) -> None:
    click_log.write(project.root / "clicks", "red", user="")
    said = harness("clicks", "report", "clicks")
    assert said.code == 2
    assert "0 users are known" in said.error
    assert "log who sees each list" in said.error
