"""Log lines of a server: what happened, with its values, for people or programs."""

from __future__ import annotations

import json
import logging

import pytest

from engines.stacks.agent_mail.contract import Event, to_log
from harness.cli.mail import logged

EVENT = {"requested": "hybrid", "actual": "lexical", "reason": "no\nmodel"}
OTHER = logging.getLogger("engines.mail.surface")


def test_events_are_lines_of_json_where_programs_read_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logged("engines.mail", as_json=True):
        to_log(Event.MODE_DOWNGRADE, EVENT)
        OTHER.warning("no view of %s", "x")
        OTHER.debug("not this")
    to_log(Event.MODE_DOWNGRADE, EVENT)
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time") <= second.pop("time")
    own = {"level": "INFO", "logger": "engines.mail", "event": "search.mode.downgrade"}
    assert first == {**own, **EVENT}
    about = {"level": "WARNING", "logger": "engines.mail.surface"}
    assert second == {**about, "message": "no view of x"}


def test_for_people_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("engines.mail", as_json=False):
        to_log(Event.MODE_DOWNGRADE, EVENT)
        OTHER.error("search failed", exc_info=ZeroDivisionError())
    first, second = capsys.readouterr().err.splitlines()
    assert " INFO search.mode.downgrade requested=hybrid actual=lexical reason=no" in first
    assert second.endswith(" ERROR search failed error=ZeroDivisionError")
