"""Questions of the tools, their diagnostics, and the tools that change messages."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.mcp_server import RefusalCode, ToolRefusal, parameters, resolved
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.contract import CandidateList, MailEngine, SearchMode
from harness_engines.stacks.agent_mail.mcp_tools import arguments
from harness_engines.stacks.agent_mail.mcp_tools.arguments import HINTS, InProduct, InProject
from harness_engines.stacks.agent_mail.mcp_tools.server import TOOLS, Surface, writing
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, viewer
from harness_engines.stacks.agent_mail.sqlite import store
from tests.engines.agent_mail import whole
from tests.engines.agent_mail.whole import DAY_US, MAY_1, Counting, Tools, message, over, service
from tests.make.mail_engines import built_live as built
from tests.make.mail_engines import served

pytestmark = pytest.mark.slow
ALL = [1, 2, 3, 4, 6]
"""Messages about a review; the fifth is about lunch."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ALL),
        ({"project_key": "project-2"}, [3, 4]),
        ({"sender": "Ann"}, [1, 3]),
        ({"sender": "ann"}, []),
        ({"recipient": "Dee"}, [1, 3, 4]),
        ({"agent_name": "Ann"}, [1, 2, 3, 6]),
        ({"agent_name": "Ann", "direction": "inbox"}, [2, 6]),
        ({"agent_name": "Ann", "direction": "OUTBOX"}, [1, 3]),
        ({"importance": "high, Urgent,"}, [1, 2]),
        ({"thread_id": "t1"}, [1, 2]),
        ({"ack_required": True}, [3]),
        ({"ack_required": False}, [1, 2, 4, 6]),
        ({"date_start": "2026-05-03"}, [3, 4, 6]),
        ({"date_end": "2026-05-03"}, [1, 2, 3]),
        ({"date_end": "2026-05-03T23:59:59.999998Z"}, [1, 2]),
        ({"date_start": "2026-05-03T23:59:59.999999Z", "date_end": "2026-05-03"}, [3]),
        ({"after": "2026-05-04T01:00+01:00", "until": "2026-05-04"}, [4]),
        ({"sender": "Ann", "importance": "high", "project_key": "project-1"}, [1]),
    ],
)
def test_a_parameter_is_a_filter(tools: Tools, given: dict[str, Any], expected: list[int]) -> None:
    assert tools.ids(**given) == expected


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"product_key": "nothing"}, "NOT_FOUND"),
        ({"project": "nowhere"}, "NOT_FOUND"),
        ({"project": "project-3"}, "NOT_FOUND"),
        ({"project": "project-1", "proj": "project-2"}, "INVALID_ARGUMENT"),
    ],
)
def test_a_product_has_its_own_projects(tools: Tools, given: dict[str, Any], code: str) -> None:
    assert f"{code}: " in tools.refused("search_messages_product", **given)


def test_a_product_is_all_of_its_projects_or_one(tools: Tools) -> None:
    def ids(**given: object) -> list[int]:
        return sorted(row["id"] for row in tools.product(**given)["result"])  # type: ignore[arg-type]

    assert ids() == [1, 2, 3, 4]
    for name in ("project", "project_key_filter", "project_slug", "proj"):
        assert ids(**{name: "project-2"}) == [3, 4]
    assert ids(query="review project:project-1") == [1, 2]
    assert {row["project_id"] for row in tools.product()["result"]} == {1, 2}
    said = tools.product(project="project-2", explain=True)["explain"]
    assert said["facets_applied"] == ["project_id"]
    found = tools.product("review project:project-3", explain=True)
    (unread,) = found["assistance"]["unread"]
    assert unread["reason"] == "the project 'project-3' is not one of the product"
    assert "product_id" in found["explain"]["facets_applied"]


@pytest.mark.parametrize(
    ("query", "given", "expected", "ignored"),
    [
        ("review from:Ann", {}, [1, 3], ""),
        ("from:Ann", {}, [1, 3, 5], ""),
        ('review thread:"t 2"', {}, [3], ""),
        ("review project:project-3", {}, [6], ""),
        ("review before:2026-05-03", {}, [1, 2, 3], ""),
        ("review after:2026-05-03", {}, [3, 4, 6], ""),
        ("review after:2026-05-02 until:2026-05-03", {}, [2, 3], ""),
        ("review importance:high,urgent", {}, [1, 2], ""),
        ("review priority:low sender:Cid", {}, [4], ""),
        ("review from:Bob", {"sender": "Ann"}, [1, 3], "from:Bob"),
        ("review from:Ann from:Bob", {}, [1, 3], "from:Bob"),
        ("review project:project-1", {"project_key": "project-2"}, [3, 4], "project:project-1"),
        ("review after:2026-05-04 before:2026-05-02", {}, [4, 6], "before:2026-05-02"),
    ],
)
def test_a_hint_acts_as_its_parameter_unless_that_or_an_earlier_hint_does(
    tools: Tools, query: str, given: dict[str, Any], expected: list[int], ignored: str
) -> None:
    found = tools.found(query, **given)
    assert sorted(row["id"] for row in found["result"]) == expected
    hints = found["assistance"]["hints"]
    assert [hint["typed"] for hint in hints if not hint["applied"]] == ignored.split()
    assert ":" not in found["assistance"]["text"]


@pytest.mark.parametrize(
    "query", ["after:soon", "importance:loud", "project:nowhere", "before:2026-02-30"]
)
def test_what_cannot_be_read_as_a_hint_is_words_and_said(tools: Tools, query: str) -> None:
    found = tools.found(f"review {query}", explain=True)
    (unread,) = found["assistance"]["unread"]
    assert unread["typed"] == query
    assert query.partition(":")[2] in unread["reason"]
    assert found["explain"]["facets_applied"] == []
    (suggestion,) = tools.found(f"nowhere {query}")["guidance"]["suggestions"]
    assert suggestion["kind"] == "fix_hint"
    assert unread["reason"] in suggestion["detail"]


def test_guidance_is_for_a_first_page_without_messages(tools: Tools) -> None:
    guidance = tools.found("nowhere from:Ann importance:low")["guidance"]
    kinds = [one["kind"] for one in guidance["suggestions"]]
    assert kinds == ["drop_importance_filter", "drop_agent_filter"]
    last = tools.found(limit=4)["next_cursor"]
    beyond = tools.found(cursor=last, limit=1)["next_cursor"]
    for given in ({}, {"offset": 100}, {"cursor": beyond}):
        assert "guidance" not in tools.found(**given)
    found = tools.found("nowhere form:Ann")
    assert found["assistance"] == {
        "text": "nowhere form:Ann",
        "hints": [],
        "unread": [],
        "did_you_mean": [{"typed": "form:Ann", "suggestion": "from:Ann"}],
    }
    assert [one["kind"] for one in found["guidance"]["suggestions"]] == ["fix_typo"]
    assert "assistance" not in tools.found('review "from:Ann"')


@pytest.mark.parametrize("ranking", ["relevance", "recency"])
def test_pages_by_cursor_and_by_offset_are_parts_of_the_whole(tools: Tools, ranking: str) -> None:
    everything = tools.found(ranking=ranking)["result"]
    assert len(everything) == len(ALL)
    assert "next_cursor" not in tools.found(ranking=ranking)
    for size in (2, 3):
        paged: list[object] = []
        page = tools.found(ranking=ranking, limit=size)
        while "next_cursor" in page:
            paged += page["result"]
            page = tools.found(ranking=ranking, limit=size, cursor=page["next_cursor"])
        assert [*paged, *page["result"]] == everything
        for offset in range(len(ALL) + 2):
            part = tools.found(ranking=ranking, limit=size, offset=offset)["result"]
            assert part == everything[offset : offset + size]


def test_the_limit_is_twenty_and_at_most_a_thousand() -> None:
    many = over(service([message(at, "plan") for at in range(1, 1_202)]))
    assert len(many.found("plan")["result"]) == 20
    assert len(many.found("plan", limit=5_000)["result"]) == 1_000
    assert len(many.found("plan", limit=0)["result"]) == 1
    (row,) = many.found("plan", limit=1, offset=1_200)["result"]
    assert row["id"] == 1_201
    assert many.found("plan", offset=1_201)["result"] == []
    served = over(service([message(1, "plan")]), mode=SearchMode.HYBRID).found("plan", explain=True)
    assert served["explain"]["requested_mode"] == "lexical"
    assert "diagnostics" not in served
    assert arguments.levels("high,HIGH, low,") == ("high", "low")


def test_a_message_has_the_keys_of_section_6_and_its_scores(tools: Tools) -> None:
    (row,) = tools.found("br-2tnl")["result"]
    assert row == {
        "id": 3,
        "subject": "review br-2tnl",
        "importance": "normal",
        "ack_required": True,
        "created_ts": MAY_1 + 3 * 86_400_000_000 - 1,
        "thread_id": "t 2",
        "from": "Ann",
        "project_id": 2,
        "score": 1.0,
        "raw_score": row["raw_score"],
        "redacted": False,
    }
    assert row["raw_score"] > 0
    assert tools.ids(min_score=1.0) != tools.ids()
    assert "explain" not in tools.found()
    said = tools.found(explain=True, sender="Ann", project_key="project-1")["explain"]
    assert said["facets_applied"] == ["project_id", "sender_name"]
    assert (said["engine"], said["actual_mode"]) == ("tantivy", "lexical")
    found = tools.found(mode="Hybrid", sender="Ann")
    assert {1, 3} <= {row["id"] for row in found["result"]}
    assert (found["served_by"]["engine"], found["served_by"]["mode"]) == ("hybrid", "hybrid")
    assert "diagnostics" not in found
    assert [row["id"] for row in tools.found(ranking="recency")["result"]] == [6, 4, 3, 2, 1]


def test_a_hidden_product_is_refused_as_one_that_is_not_there(tools: Tools) -> None:
    stranger = Tools(tools.surface, viewer("Eve", frozenset({3}), frozenset({"Bob"})))
    for given in ({}, {"project": "project-1"}, {"query": "project:project-1"}):
        hidden, absent = (
            stranger.refused("search_messages_product", **{**given, "product_key": name})
            for name in ("product-5", "product-9")
        )
        assert hidden.replace("product-5", "product-9") == absent
    assert stranger.found("project:project-2")["assistance"]["unread"] == [
        {"typed": "project:project-2", "reason": "no project 'project-2'"}
    ]


MAIL = [message(at, f"plan {at}") for at in range(1, 6)]
WORKS: Mapping[FallbackTier, MailEngine] = {at: Counting(at, MAIL) for at in whole.LEXICAL}
TANTIVY = FallbackTier.TANTIVY
WHOLE = over(service(MAIL))


def broken(*tiers: FallbackTier, error: BaseException | None = None) -> Tools:
    failing = {tier: whole.Failing(tier, error or IndexUnavailable("torn")) for tier in tiers}
    return over(service(MAIL, lexical={**WORKS, **failing}))


class ByLike(Counting):
    """Finds by LIKE, as FTS5 does with what it cannot match."""

    def search(self, *asked: Any) -> CandidateList:  # noqa: ANN401  as Counting
        return replace(super().search(*asked), used_like_fallback=True, method="like")


FALLS = {"signals": ["engine_fallback"], "degraded": True, "cursor_invalidated": False}
LOWERED = {"signals": ["mode_downgraded", "engine_fallback"], "fallback_mode": "tantivy"}
FORCED: Mapping[FallbackTier, MailEngine] = {**WORKS, FallbackTier.FTS5: ByLike("fts5", MAIL)}


@pytest.mark.parametrize(
    ("tools", "mode", "expected", "reason"),
    [
        (broken(TANTIVY), None, {**FALLS, "fallback_mode": "fts5"}, "torn"),
        (broken(TANTIVY, error=EngineError("x")), None, {**FALLS, "fallback_mode": "fts5"}, "x"),
        (broken(TANTIVY, error=RuntimeError("boom")), None, FALLS, "boom"),
        (broken(TANTIVY, FallbackTier.FTS5), None, {**FALLS, "fallback_mode": "like"}, "torn"),
        *(
            (WHOLE, mode, {**LOWERED, "requested_mode": mode, "actual_mode": "lexical"}, "no model")
            for mode in ("semantic", "hybrid", "hybrid_rerank")
        ),
        (
            over(service(MAIL, switch=KillSwitch.FTS5)),
            "hybrid",
            {"signals": ["mode_downgraded"], "fallback_mode": "fts5"},
            "fts5",
        ),
        (
            over(service(MAIL, lexical=FORCED, switch=KillSwitch.FTS5)),
            None,
            {"signals": ["like_fallback"], "fallback_mode": None},
            "",
        ),
    ],
)
def test_who_answered_instead_is_told(
    tools: Tools, mode: str | None, expected: dict[str, object], reason: str
) -> None:
    found = tools.found("plan", mode=mode)
    said = found["diagnostics"]
    assert len(found["result"]) == len(MAIL)
    assert {name: said[name] for name in expected} == expected
    assert said["reason"]
    assert reason in said["reason"]
    assert tools.found("plan", mode=mode)["diagnostics"] == said


@pytest.mark.parametrize("explain", [False, True])
def test_nothing_is_said_where_nothing_is_wrong(*, explain: bool) -> None:
    for tools in (WHOLE, over(service(MAIL, switch=KillSwitch.FTS5))):
        assert "diagnostics" not in tools.found("plan", explain=explain)


@pytest.mark.parametrize(
    ("tools", "text", "signals", "degraded"),
    [
        (WHOLE, "  ", ["invalid_query"], False),
        (broken(*WORKS), "plan", ["search_failed", "engine_fallback"], True),
    ],
    ids=["nothing was asked", "nothing could answer"],
)
def test_an_empty_answer_says_why(
    tools: Tools, text: str, signals: list[str], *, degraded: bool
) -> None:
    found = tools.found(text, explain=True)
    said = found["diagnostics"]
    assert (found["result"], said["signals"], said["degraded"]) == ([], signals, degraded)
    assert found["explain"]["note"] == said["reason"]
    assert "guidance" not in found
    assert set(HINTS) == set(arguments.Signal)


class Torn(whole.Names):
    """A directory whose file is broken."""

    def project_called(self, slug: str) -> int | None:
        raise RuntimeError(slug)


@pytest.mark.parametrize(
    ("tools", "given", "own"),
    [
        (WHOLE, {}, True),
        (WHOLE, {"query": ""}, True),
        (WHOLE, {"mode": "lexical"}, True),
        (over(service(MAIL), mode=SearchMode.HYBRID), {}, False),
        (over(service(MAIL), mode=SearchMode.HYBRID), {"mode": "lexical"}, False),
        (WHOLE, {"cursor": "rubbish"}, False),
        (broken(FallbackTier.TANTIVY), {}, False),
        (broken(*WORKS), {}, False),
        (over(service(MAIL), Torn()), {"project_key": "p1"}, False),
    ],
)
def test_only_the_arms_answer_is_signed(
    tools: Tools, given: dict[str, object], *, own: bool
) -> None:
    said = tools.found(**{"query": "plan", **given})["served_by"]  # type: ignore[arg-type]
    arm = tools.surface.manifest
    assert (said["fingerprint"] == arm.fingerprint) is own
    assert (said["arm"], said["corpus_sha256"]) == ("served", arm.corpus_sha256)


NEW = {"project_key": "project-1", "sender": "Ann", "subject": "zeppelin", "recipients": "Bob, Cid"}


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[Tools]:
    index = built(tmp_path, mode="hybrid")
    with (
        served(tmp_path, mode="hybrid") as searcher,
        store.opened(index / mail.STORE) as names,
        ingest.opened(index / mail.STORE) as box,
    ):
        surface = Surface(searcher.service, names, "mine", searcher.manifest, SearchMode.HYBRID)
        yield Tools(surface, box=box)


def test_what_a_tool_changed_the_next_search_finds(writable: Tools) -> None:
    new = int(writable.answer("insert_message", **NEW, importance="high")["id"])
    (shown,) = writable.found("zeppelin", limit=1)["result"]
    assert (shown["id"], shown["from"], shown["importance"]) == (new, "Ann", "high")
    assert writable.ids("zeppelin", recipient="Cid", mode="lexical") == [new]
    edited = writable.answer("edit_message", id=new, subject="balloon", recipients="Dee")
    assert edited["id"] == new
    assert writable.ids("zeppelin", mode="lexical") == []
    assert writable.ids("balloon", recipient="Dee", mode="lexical") == [new]
    assert writable.answer("delete_message", id=new)["id"] == new
    assert writable.ids("balloon", mode="lexical") == []


def test_what_cannot_be_meant_is_refused_with_a_code(writable: Tools) -> None:
    said = writable.refusal("insert_message", **{**NEW, "project_key": "nowhere"})
    assert "NOT_FOUND: no project 'nowhere'" in said
    said = writable.refusal("insert_message", **NEW, importance="dire")
    assert "INVALID_ARGUMENT: importance is 'dire': Input should be 'low', 'normal', " in said
    for tool in ("edit_message", "delete_message"):
        assert "NOT_FOUND: message 999 is missing" in writable.refusal(tool, id=999)
    assert writable.box
    writable.box.store.db.execute("PRAGMA query_only = ON")
    said = writable.refusal("delete_message", id=1)
    assert "FAILED: the message store cannot be written" in said


def test_a_viewer_changes_nothing(writable: Tools) -> None:
    box = writable.box
    assert box
    before = box.store.total_count()
    everyone = Scope("everyone", lambda _: Visibility.ALLOW)
    theirs = replace(writable, caller=everyone)
    asked: dict[str, dict[str, object]] = {
        "insert_message": {**NEW},
        "edit_message": {"id": 1, "subject": "x"},
        "delete_message": {"id": 1},
    }
    assert set(asked) == set(writing(box))
    for tool, given in asked.items():
        assert "FORBIDDEN: only an operator may change" in theirs.refusal(tool, **given)
    assert box.store.total_count() == before
    assert not set(asked) & set(TOOLS)


HERE = {"project_key": "*", "query": "x"}
PAIRS = [
    *(("sender", other) for other in ("from_agent", "sender_name")),
    ("recipient", "recipient_name"),
    *(("date_start", other) for other in ("date_from", "after", "since")),
    *(("date_end", other) for other in ("date_to", "before", "until")),
]
"""Of section 6, written apart from the code."""


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_every_other_name_means_the_same(name: str, other: str) -> None:
    value, another = ("2026-05-01", "2026-05-02") if "date" in name else ("Ann", "Bob")
    alone = resolved(InProject, {**HERE, name: value})
    assert getattr(alone, name)
    assert resolved(InProject, {**HERE, other: value}) == alone
    for beside in (value, ""):
        assert resolved(InProject, {**HERE, name: value, other: beside}) == alone
    with pytest.raises(ToolRefusal, match=rf"^INVALID_ARGUMENT: .*\b{name}\b") as told:
        resolved(InProject, {**HERE, name: value, other: another})
    assert told.value.code is RefusalCode.INVALID_ARGUMENT
    assert other in str(told.value)


def test_the_signature_names_every_parameter_of_section_6() -> None:
    both = {
        "query", "limit", "sender", "from_agent", "sender_name", "importance", "thread_id",
        "date_start", "date_from", "after", "since", "date_end", "date_to", "before", "until",
    }  # fmt: skip
    messages, product = (parameters(of)["properties"].keys() for of in (InProject, InProduct))
    assert {*both, "project_key", "offset", "ranking", "explain"} <= messages
    projects = {"project", "project_key_filter", "project_slug", "proj"}
    assert {*both, "product_key", *projects} <= product
    assert set(parameters(InProject)["required"]) == {"project_key", "query"}
    assert not {"project", "proj"} & messages


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-05-01", 0, DAY_US - 1),
        (" 2026-05-01 ", 0, DAY_US - 1),
        ("2026-05-01T00:00:00Z", 0, 0),
        ("2026-05-01t00:00:00z", 0, 0),
        ("2026-05-01 00:00", 0, 0),
        ("2026-05-01T02:00:00+02:00", 0, 0),
        ("2026-04-30T22:30:00-0130", 0, 0),
        ("2026-05-01T00:00:00.5", 500_000, 500_000),
        ("2026-05-01T00:00:00,000001Z", 1, 1),
        ("2026-05-01T00:00:00.000001000Z", 1, 1),
        ("20260501T000000,000001Z", 1, 1),
        ("2026-05-01T23:59:59.999999", DAY_US - 1, DAY_US - 1),
    ],
)
def test_a_bound_is_inclusive_and_in_utc(text: str, first: int, last: int) -> None:
    assert (arguments.earliest(text) - MAY_1, arguments.latest(text) - MAY_1) == (first, last)
