"""Lifecycle events: their names, what each carries, and the line that is logged."""

from __future__ import annotations

import json
import logging
from dataclasses import fields
from pathlib import Path

import pytest

from engines.stacks.agent_mail.contract import (
    Event,
    SearchMode,
    SearchQuery,
    ShadowComparison,
    to_log,
)
from engines.stacks.agent_mail.pipeline.plan import (
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from engines.stacks.agent_mail.tantivy.index import HASH
from tests.engines.agent_mail.whole import build, whole
from tests.make.mail.messages import one, some_mail
from tests.make.mail.tantivy import upsert

CARRIED = {
    "index.rebuild.start": {"doc_count", "engine"},
    "index.rebuild.complete": {"doc_count", "duration_ms", "engine"},
    "index.incremental.batch": {"batch_size", "engine"},
    "index.schema.mismatch": {"expected", "actual"},
    "search.mode.downgrade": {"requested", "actual", "reason"},
    "search.shadow.comparison": {field.name for field in fields(ShadowComparison)},
    "search.cursor.invalidated": {"cursor_engine", "current_engine"},
}


def test_everything_that_can_happen_is_told_with_what_the_contract_says(tmp_path: Path) -> None:
    build(tmp_path, some_mail(58, 40).messages)
    other = SearchCursor(0.5, 1, CursorEngine.FTS5).encode()
    with whole(tmp_path) as mail:
        (tmp_path / "tantivy" / HASH).write_text('{"sha256": "0"}')
        mail.ask(SearchQuery("review"))
        mail.tantivy.update_incremental([upsert(one(9_000, "moss"))])
        mail.without(FallbackTier.HYBRID).ask(SearchQuery("review", mode=SearchMode.HYBRID))
        mail.under(KillSwitch.SHADOW).ask(SearchQuery("review"))
        mail.ask(SearchQuery("review", cursor=other))
        told = {event.value: set(payload) for event, payload in mail.log.events}
        payloads = {event.value: payload for event, payload in mail.log.events}
    assert told == CARRIED
    assert payloads["index.rebuild.start"] == {"doc_count": 40, "engine": "tantivy"}
    assert payloads["index.incremental.batch"] == {"batch_size": 1, "engine": "tantivy"}


def test_there_is_no_event_of_the_contract_that_is_missing() -> None:
    assert set(CARRIED) <= {event.value for event in Event}


def test_an_event_is_logged_as_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="engines.mail"):
        to_log(Event.INCREMENTAL_BATCH, {"batch_size": 3, "engine": "tantivy"})
    (line,) = caplog.messages
    assert "\n" not in line
    assert json.loads(line) == {
        "event": "index.incremental.batch",
        "batch_size": 3,
        "engine": "tantivy",
    }
