"""Notes on lines: what a stranger's text can do to them."""

from __future__ import annotations

import json

import pytest

from harness.report.decision.ci import Annotation, Level, github, gitlab

NOTE = Annotation(Level.ERROR, "own loses", "q1: 1 → 0", "data\nq1", "data/queries.jsonl", 7)


def test_a_note_is_a_workflow_command() -> None:
    assert github(NOTE) == "::error file=data/queries.jsonl,line=7,title=own loses::q1: 1 → 0"


def test_a_note_without_a_line_names_none() -> None:
    assert github(NOTE._replace(file="", line=None)) == "::error title=own loses::q1: 1 → 0"


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\x0b", "\x85", "\u2028"])
def test_no_text_begins_a_command_of_its_own(ends: str) -> None:
    evil = f"ask{ends}::stop-commands::x"
    for note in (NOTE._replace(message=evil), NOTE._replace(title=evil)):
        assert len(github(note).splitlines()) == 1


def test_what_separates_is_escaped() -> None:
    said = github(NOTE._replace(file="a,b:c%.jsonl", title="x,y::z", message="50 %: a,b"))
    assert said == "::error file=a%2Cb%3Ac%25.jsonl,line=7,title=x%2Cy%3A%3Az::50 %25: a,b"


def test_a_code_quality_report_has_what_gitlab_reads() -> None:
    (found,) = gitlab([NOTE])
    assert set(found) == {"description", "check_name", "fingerprint", "severity", "location"}
    assert found["severity"] in {"info", "minor", "major", "critical", "blocker"}
    assert found["location"] == {"path": "data/queries.jsonl", "lines": {"begin": 7}}
    assert json.loads(json.dumps(found)) == found


def test_a_fingerprint_lasts_while_the_note_is_about_the_same() -> None:
    moved = NOTE._replace(line=9, message="q1: 1 → 0.5", title="other words")
    other = NOTE._replace(key="data\nq2")
    prints = [row["fingerprint"] for row in gitlab([NOTE, moved, other])]
    assert prints[0] == prints[1] != prints[2]


def test_a_report_leaves_out_what_has_no_line() -> None:
    assert gitlab([NOTE._replace(line=None), NOTE._replace(file="")]) == []
