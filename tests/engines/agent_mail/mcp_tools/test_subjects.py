"""``complete_subject``: what is typed, completed by the subjects that a caller may see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from engines.stacks.agent_mail.mcp_tools.server import SUBJECT
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.scope import Scope, viewer
from engines.stacks.agent_mail.service import Completes
from tests.engines.agent_mail.mcp_tools.conftest import Tools
from tests.engines.agent_mail.mcp_tools.test_server import told


def completed(tools: Tools, prefix: str = "re", **given: object) -> dict[str, Any]:
    asked = {"project_key": "*", "prefix": prefix, **given}
    answer = tools.call(SUBJECT, **asked)
    assert not answer.is_error, answer.content
    assert isinstance(answer.structured_content, dict)
    return answer.structured_content


def ids(tools: Tools, prefix: str = "re", **given: object) -> list[int]:
    return [row["id"] for row in completed(tools, prefix, **given)["subjects"]]


def seen_by(tools: Tools, scope: Scope | None) -> Tools:
    return Tools(tools.surface.seen_by(scope))


def test_a_beginning_finds_subjects_and_short_ones_come_first(tools: Tools) -> None:
    rows = completed(tools)["subjects"]
    assert [row["id"] for row in rows] == [6, 2, 3, 1, 4]
    assert [row["subject"] for row in rows[:2]] == ["review late", "review again"]
    assert ids(tools, "review la") == [6]
    assert ids(tools, "LUN") == [5]


@pytest.mark.parametrize("prefix", ["", "r", "zz", "again la"])
def test_what_no_subject_has_completes_nothing(tools: Tools, prefix: str) -> None:
    assert completed(tools, prefix) == {"subjects": []}


def test_a_project_and_a_limit_hold(tools: Tools) -> None:
    assert set(ids(tools, project_key="project-1")) == {1, 2}
    assert len(ids(tools, limit=2)) == 2
    assert "NOT_FOUND: no project 'none'" in tools_refused(tools, project_key="none")
    assert "limit is 51, give at most 50" in tools_refused(tools, limit=51)


def tools_refused(tools: Tools, **given: object) -> str:
    asked = {"project_key": "*", "prefix": "re", **given}
    answer = tools.call(SUBJECT, **asked)
    assert answer.is_error
    return str(getattr(answer.content[0], "text", ""))


def test_a_viewer_is_told_no_subject_that_is_hidden(tools: Tools) -> None:
    """Message 4 is from Cid and not to Ann, in a project not hers: its subject is redacted."""
    ann = seen_by(tools, viewer("Ann", frozenset({1}), frozenset({"Cid"})))
    (row,) = ann.found("", sender="Cid")["result"]
    assert (row["id"], row["redacted"]) == (4, True)
    assert ids(ann) == [6, 2, 3, 1]
    stranger = seen_by(tools, viewer("Eve", frozenset(), frozenset()))
    assert completed(stranger) == {"subjects": []}


def test_who_asks_the_service_itself_is_told_no_more(tools: Tools) -> None:
    """The best of all, message 6, is hidden: it takes no place, and an auditor sees none of it."""
    scope, service = viewer("Zoe", frozenset({1}), frozenset()), tools.surface.service
    assert [one.message_id for one in service.beginning("re", None, 1, scope)] == [2]
    through = replace(scope, audited=True)
    assert [one.message_id for one in service.beginning("re", None, 50, through)] == [2, 1]


def test_where_tantivy_is_off_or_absent_the_reason_is_told(tools: Tools) -> None:
    service = tools.surface.service
    off = Tools(replace(tools.surface, service=replace(service, switch=KillSwitch.FTS5)))
    lexical: dict[FallbackTier, Any] = dict(service.tiers.lexical)
    del lexical[FallbackTier.TANTIVY]
    absent = replace(service, tiers=replace(service.tiers, lexical=lexical))
    for without in (off, Tools(replace(tools.surface, service=absent))):
        found = completed(without)
        assert found["subjects"] == []
        assert "index of Tantivy alone" in found["reason"]


def test_an_index_that_is_gone_is_told_and_no_path_with_it(tools: Tools) -> None:
    class Gone:
        def typeahead(self, *_: object) -> object:
            raise OSError("/srv/mail/index: gone")

    assert isinstance(Gone(), Completes)
    service = tools.surface.service
    lexical: Any = {**service.tiers.lexical, FallbackTier.TANTIVY: Gone()}
    broken = replace(service, tiers=replace(service.tiers, lexical=lexical))
    found = completed(Tools(replace(tools.surface, service=broken)))
    assert found["subjects"] == []
    assert found["reason"]
    assert "/srv" not in found["reason"]


def test_an_answer_keeps_its_schema(tools: Tools) -> None:
    _, found = told(tools)
    schema = found[SUBJECT].output_schema
    assert schema is not None
    jsonschema.validate(completed(tools), schema)
