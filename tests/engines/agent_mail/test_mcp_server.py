"""The server of the tools, and each way that a client goes."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx
import jsonschema
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, Implementation, Tool
from mcp_types.methods import SPEC_CLIENT_METHODS
from starlette.types import Receive, Send
from starlette.types import Scope as Request

from harness.core.errors import BadFile, HarnessError, UnknownName
from harness_engines.kept.kit import NOTES
from harness_engines.mcp_server import (
    BY_THE_GUARD,
    CALLER,
    RefusalCode,
    ToolArguments,
    ToolRefusal,
    admitted,
    called,
    check_loopback,
    digest,
    serve_http,
)
from harness_engines.mcp_server import Tool as ToolChecked
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail.budget import SwitchFile
from harness_engines.stacks.agent_mail.contract import SearchMode
from harness_engines.stacks.agent_mail.mcp_tools import results, server
from harness_engines.stacks.agent_mail.mcp_tools.arguments import nobody, read_callers, scope_of
from harness_engines.stacks.agent_mail.mcp_tools.server import SUBJECT, Switched, under
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, viewer
from harness_engines.stacks.agent_mail.service import Completes
from tests.docs.contract import rows
from tests.docs.reached import TOOL
from tests.engines.agent_mail.fakes import message, service
from tests.engines.agent_mail.tools import DOCUMENTS, SETTINGS, Names, Tools, over
from tests.engines.test_kept_index import live


def told(tools: Tools) -> tuple[Implementation | None, dict[str, Tool]]:
    async def ask() -> tuple[Implementation | None, dict[str, Tool]]:
        async with Client(tools.app) as client:
            found = await client.list_tools()
            return client.server_info, {tool.name: tool for tool in found.tools}

    return anyio.run(ask)


def test_all_tools_are_there_and_every_parameter_says_what_it_is(tools: Tools) -> None:
    about, _ = told(tools)
    assert about is not None
    assert (about.name, about.title) == (server.NAME, "mine")
    assert about.version == tools.surface.identity.manifest.fingerprint
    _, found = told(tools)
    assert set(found) == {"search_messages", "search_messages_product", "complete_subject"}
    for tool in found.values():
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        for about in tool.input_schema["properties"].values():
            assert about["description"]
    assert set(found["search_messages"].input_schema["required"]) == {"project_key", "query"}
    required = found["search_messages_product"].input_schema["required"]
    assert set(required) == {"product_key", "query"}


def test_every_kind_of_answer_keeps_the_schema(tools: Tools) -> None:
    _, found = told(tools)
    schema = found["search_messages"].output_schema
    assert schema is not None
    for given in (
        {},
        {"explain": True, "limit": 1},
        {"query": "nowhere form:x from:Ann"},
        {"query": ""},
        {"mode": "hybrid_rerank", "explain": True},
    ):
        answer = tools.found(**given)
        jsonschema.validate(answer, schema)
        assert None not in answer.values()
        results.SearchResult.model_validate(answer)
    jsonschema.validate(completed(tools), found[SUBJECT].output_schema or {"not": {}})
    called = tools.call("search_messages", project_key="*", query="review")
    (said,) = called.content
    assert json.loads(getattr(said, "text", "")) == called.structured_content


EVERYBODY = str(ip_address(0))
OUTSIDE = (EVERYBODY, "::", "192.168.0.1", "10.0.0.1", "localhost", "example.org", "", "::2")


@pytest.mark.parametrize("host", OUTSIDE)
def test_only_loopback_is_served(tools: Tools, host: str) -> None:
    with pytest.raises(HarnessError, match="loopback"):
        check_loopback(host)
    with pytest.raises(HarnessError, match="loopback"):
        serve_http(tools.app, host, 0, lambda _: pytest.fail("served"), None)
    for good in ("127.0.0.1", "127.8.8.8", "::1"):
        check_loopback(good)


def test_a_port_that_is_taken_is_named(tools: Tools) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(HarnessError, match=str(port)):
            serve_http(tools.app, "127.0.0.1", port, lambda _: pytest.fail("served"), None)


EYE = viewer("Ann", frozenset(), frozenset())
TOKENS: Mapping[str, Scope | None] = {digest("operator's"): None, digest("Ann's"): EYE}
ADDRESSES = [("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("::1", "[::1]")]


async def who(scope: Request, receive: Receive, send: Send) -> None:
    """Answer with the policy of whoever calls."""
    del scope, receive
    caller = CALLER.get()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    said = caller.policy if caller else "operator"
    await send({"type": "http.response.body", "body": said.encode()})


def shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def ask(
    host: str = "127.0.0.1",
    *,
    headers: Mapping[str, str] | None = None,
    query: str = "",
    tokens: Mapping[str, Scope | None] | None = None,
) -> tuple[int, str]:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(admitted(who, f"http://{shown(host)}:8080", tokens))
        async with httpx.AsyncClient(transport=transport) as client:
            given = {"host": "127.0.0.1:8080", **(headers or {})}
            return await client.post(f"http://127.0.0.1:8080/mcp{query}", headers=given)

    found = anyio.run(asked)
    return found.status_code, found.text


@pytest.mark.parametrize(("host", "named"), ADDRESSES)
def test_host_and_origin_are_checked(host: str, named: str) -> None:
    own = f"{named}:8080"
    for good in (own, "localhost:8080", "LocalHost:8080"):
        assert ask(host, headers={"host": good}) == (200, "operator")
    for bad in ("evil.example", "evil.example:8080", "127.0.0.9:8080", named, f"{named}:80", ""):
        assert ask(host, headers={"host": bad})[0] == 421
    assert ask(host, headers={"host": own, "origin": f"http://{own}"})[0] == 200
    for bad in ("http://evil.example", "null", f"https://{own}", f"http://{named}:80", ""):
        assert ask(host, headers={"host": own, "origin": bad})[0] == 403


@pytest.mark.parametrize(("token", "said"), [("operator's", "operator"), ("Ann's", "viewer:Ann")])
def test_a_token_says_who_calls(token: str, said: str) -> None:
    assert ask(headers={"authorization": f"Bearer {token}"}, tokens=TOKENS) == (200, said)
    assert ask(query=f"?token={token}", tokens=TOKENS) == (200, said)


@pytest.mark.parametrize("said", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic Ann's", "Ann's"])
def test_without_a_token_no_one_is_answered(said: str) -> None:
    headers = {"authorization": said} if said else {}
    assert ask(headers=headers, tokens=TOKENS)[0] == 401
    assert ask(query="?token=Ann's&token=operator's", tokens=TOKENS)[0] == 401


def test_a_request_for_a_stream_takes_no_place() -> None:
    """The server sends no messages of its own; each such stream kept one of the places for ever."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(admitted(who, "http://127.0.0.1:8080", None))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.get("http://127.0.0.1:8080/mcp")

    found = anyio.run(asked)
    assert (found.status_code, found.headers["allow"]) == (405, "POST")


VERSIONS = ("2025-06-18", "2026-07-28")
PATIENCE_S = 20
"""Far more than any answer takes; a stream would take for ever."""


@pytest.fixture(params=["mail", "notes"])
def app(request: pytest.FixtureRequest, tools: Tools, tmp_path: Path) -> Server[Any]:
    if request.param == "mail":
        return tools.app
    return NOTES.application(live("notes", tmp_path, tmp_path / "kept"), "notes")


async def asked(app: Server[Any], method: str, version: str) -> httpx.Response:
    """Send one request as a client of this version of the protocol does."""
    asgi = app.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=BY_THE_GUARD
    )
    meta = {PROTOCOL_VERSION_META_KEY: version, CLIENT_CAPABILITIES_META_KEY: {}}
    given = {"name": "none", "uri": "file:///etc/passwd", "notifications": {}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": method,
        "mcp-name": "file:///etc/passwd" if method.startswith("resources") else "none",
    }
    transport = httpx.ASGITransport(asgi)
    async with (
        asgi.router.lifespan_context(asgi),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        with anyio.fail_after(PATIENCE_S):
            return await client.post("/mcp", json=body, headers=headers)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_method_crashes(
    app: Server[Any], version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream kept one of the places for ever, and an unknown prompt was a traceback."""
    said = {name: anyio.run(asked, app, name, version) for name in sorted(SPEC_CLIENT_METHODS)}
    assert {name for name, one in said.items() if one.status_code >= 500} == set()
    assert said["tools/list"].json()["result"]["tools"]
    assert "error" in said["subscriptions/listen"].json()
    assert said["prompts/get"].json()["error"]["message"] == "Method not found"
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


EVERY = (
    "limit", "offset", "ranking", "sender", "importance", "thread_id", "date_start", "explain",
    "cursor", "mode", "recipient", "agent_name", "direction", "ack_required", "min_score", "since",
)  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_null_is_absent(tools: Tools, name: str) -> None:
    null: dict[str, Any] = {name: None}
    plain, given = tools.found(), tools.found(**null)
    assert given["result"] == plain["result"]
    assert given["served_by"] == plain["served_by"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": "many"}, "limit is 'many', give a whole number"),
        ({"limit": 1.5}, "limit is 1.5, give a whole number"),
        ({"offset": -1}, "offset is -1, give at least 0"),
        ({"offset": 10**6}, "offset is 1000000, give at most 5000"),
        ({"explain": "perhaps"}, "explain is 'perhaps', give true or false"),
        ({"min_score": "high"}, "min_score is 'high', give a number"),
        ({"sender": 7}, "sender is 7, give a text"),
        ({"query": None}, "query is missing, give it"),
        ({"sendr": "Ann"}, "no parameter named 'sendr'"),
        ({"sendr": "Ann"}, "Did you mean sender?"),
        ({"limit": "x" * 10_000}, f"limit is '{'x' * 59}..., give a whole number"),
        ({"limit": [], "offset": -1}, "limit is [], give a whole number; offset is -1, give"),
    ],
)
def test_errors_have_code_and_remedy(tools: Tools, given: dict[str, Any], said: str) -> None:
    told = tools.refused(**given)
    assert told.startswith("INVALID_ARGUMENT: ")
    assert said in told
    assert "pydantic" not in told
    assert len(told) < 800


class Mode(ToolArguments):
    """Takes a mode."""

    mode: Literal["code", "prose"]


def act(args: Mode) -> dict[str, Any]:
    raise (
        ToolRefusal("the index is gone", RefusalCode.FAILED)
        if args.mode == "code"
        else ValueError("secret")
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("both", "INVALID_ARGUMENT: mode is 'both', give 'code' or 'prose'"),
        ("code", "FAILED: the index is gone"),
        ("prose", "FAILED: act failed; its server's log says why"),
    ],
)
def test_a_refusal_begins_with_its_code_and_a_crash_tells_nothing(given: str, said: str) -> None:
    found = called(ToolChecked("act", "Act.", Mode, act), {"mode": given})
    assert found.is_error
    assert [getattr(part, "text", "") for part in found.content] == [said]


@pytest.mark.parametrize("name", ["ranking", "importance", "date_start", "mode", "project_key"])
def test_a_value_of_any_length_makes_no_long_message(tools: Tools, name: str) -> None:
    told = tools.refused(**{name: "x\u202e\x1b" * 50_000})
    assert len(told) < 1_100
    assert told.isprintable()
    (said,) = tools.call("search_mesages").content
    unknown = getattr(said, "text", "")
    assert unknown.startswith("NOT_FOUND: no tool named 'search_mesages'")
    assert "Did you mean search_messages?" in unknown


ANN = f"""[viewers.ann]
agent = "Ann"
projects = ["p1"]
contacts = ["Zoe"]
token_sha256 = "{digest("a token")}"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "viewers.toml").write_text(text, encoding="utf-8")
    return folder / "viewers.toml"


def test_a_viewer_is_an_agent_with_projects_and_contacts(tmp_path: Path) -> None:
    (listed,) = read_callers(written(tmp_path, ANN)).values()
    scope = scope_of(listed, Names())
    assert scope.policy == "viewer:Ann"
    assert scope.sees(message(1, "a", project=1, sender="Mal")) is Visibility.ALLOW
    assert scope.sees(message(1, "a", project=2, sender="Zoe")) is Visibility.REDACT
    assert scope.sees(message(1, "a", project=2, sender="Mal")) is Visibility.DENY
    (listed,) = read_callers(written(tmp_path, ANN.replace("p1", "p9"))).values()
    with pytest.raises(UnknownName, match="p9"):
        scope_of(listed, Names())
    assert over(service([message(1, "a")]), scope=nobody()).found("a")["result"] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[viewers]",
        ANN.replace('agent = "Ann"', ""),
        ANN.replace("token_sha256", "token"),
        ANN.replace(digest("a token"), "f00"),
        ANN + "all = true\n",
        ANN + ANN.replace("viewers.ann", "viewers.bob"),
        ANN.replace('["p1"]', '"p1"'),
        "viewers = ",
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFile, match=r"viewers\.toml"):
        read_callers(written(tmp_path, text))


ARM = mail.MailSettings.model_validate(SETTINGS).model_dump()


def through(made: Switched) -> Tools:
    return Tools(made)  # type: ignore[arg-type]


def said(tools: Tools) -> tuple[str, str]:
    by = tools.found()["served_by"]
    return by["fingerprint"], by["engine"]


def test_the_switch_file_names_the_next_engine(tools: Tools, tmp_path: Path) -> None:
    file = tmp_path / "switch.env"
    file.write_text("# by hand\nSEARCH_ENGINE=tantivy\n")
    here = through(Switched(tools.surface, ARM, SwitchFile(file).read))
    seen = [said(here)]
    for value in ("fts5", "hybrid", "shadow", "tantivy"):
        file.with_suffix(".new").write_text(f"SEARCH_ENGINE={value}\n")
        file.with_suffix(".new").replace(file)
        seen.append(said(here))
    assert [engine for _, engine in seen] == ["tantivy", "fts5", "hybrid", "fts5", "tantivy"]
    assert seen[0] == seen[-1]
    assert len({fingerprint for fingerprint, _ in seen}) == 4


@pytest.mark.parametrize("switch", sorted(set(KillSwitch) - {KillSwitch.HYBRID_RERANK}))
def test_who_is_meant_is_who_answers(tools: Tools, switch: KillSwitch) -> None:
    made = Switched(tools.surface, ARM, lambda: switch)
    assert said(through(made)) == made.who(switch)


@pytest.mark.parametrize(
    ("switch", "by"), [(KillSwitch.HYBRID_RERANK, "rerank"), (KillSwitch.HYBRID, "hybrid")]
)
def test_what_is_degraded_is_not_signed(tools: Tools, switch: KillSwitch, by: str) -> None:
    """Without a reranker, or vectors, the fingerprint is not the one that is meant."""
    tiers = tools.surface.service.tiers
    if switch is KillSwitch.HYBRID:
        tiers = replace(tiers, semantic=None)
    lame = replace(tools.surface, service=replace(tools.surface.service, tiers=tiers))
    made = Switched(lame, ARM, lambda: switch)
    fingerprint, engine = said(through(made))
    assert made.who(switch).engine == by != engine
    assert fingerprint != made.who(switch).fingerprint
    assert made.base.mode is SearchMode.LEXICAL


def test_an_arm_under_the_switch_signs_as_the_arm_that_has_it(tools: Tools, index: Path) -> None:
    """Built on its own, the arm with ``search_engine = "fts5"`` has this very fingerprint."""
    set_so = {**SETTINGS, "search_engine": "fts5"}
    made = mail.Mail(mail.MailSettings.model_validate(set_so), index.parent).build(DOCUMENTS, index)
    own = tools.surface.identity
    assert under(own, ARM, KillSwitch.FTS5).manifest == made
    assert under(own, ARM, None) is own
    assert under(own, {**ARM, "search_engine": "fts5"}, KillSwitch.FTS5) is own


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
    for prefix in ("", "r", "zz", "again la"):
        assert completed(tools, prefix) == {"subjects": []}
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
    scope, service = viewer("Zoe", frozenset({1}), frozenset()), tools.surface.service
    assert [one.message_id for one in service.beginning("re", None, 1, scope)] == [2]
    through = replace(scope, audited=True)
    assert [one.message_id for one in service.beginning("re", None, 50, through)] == [2, 1]


class Gone:
    """Completes nothing, and says where it lay."""

    def typeahead(self, *_: object) -> object:
        raise OSError("/srv/mail/index: gone")


@pytest.mark.parametrize("how", ["off", "absent", "gone"])
def test_where_tantivy_is_off_absent_or_gone_the_reason_is_told(tools: Tools, how: str) -> None:
    assert isinstance(Gone(), Completes)
    service = tools.surface.service
    lexical: dict[FallbackTier, Any] = dict(service.tiers.lexical)
    if how == "gone":
        lexical[FallbackTier.TANTIVY] = Gone()
    if how == "absent":
        del lexical[FallbackTier.TANTIVY]
    switch = KillSwitch.FTS5 if how == "off" else service.switch
    left = replace(service, switch=switch, tiers=replace(service.tiers, lexical=lexical))
    found = completed(Tools(replace(tools.surface, service=left)))
    assert found["subjects"] == []
    assert found["reason"]
    assert "/srv" not in found["reason"]
    assert ("index of Tantivy alone" in found["reason"]) == (how != "gone")


NEEDED: Mapping[str, Mapping[str, object]] = {
    "search_messages": {"project_key": "*", "query": "review"},
    "search_messages_product": {"product_key": "product-5", "query": "review"},
    "complete_subject": {"project_key": "*", "prefix": "rev"},
}
"""What each tool cannot do without."""
SAID: Mapping[str, object] = {
    "query": "review",
    "prefix": "rev",
    "project_key": "project-1",
    "product_key": "product-5",
    **dict.fromkeys(("project", "project_key_filter", "project_slug", "proj"), "project-1"),
    "mode": "lexical",
    "doc_kind": "agent",
    "rrf_k": 30,
    "rerank_top_k": 50,
    "explain": True,
    "limit": 2,
    "offset": 1,
    "importance": "low,high",
    "ranking": "recency",
    "thread_id": "t1",
    "ack_required": True,
    "min_score": 0.5,
    "direction": "inbox",
    **dict.fromkeys(("sender", "from_agent", "sender_name", "agent_name", "recipient"), "Ann"),
    **dict.fromkeys(("date_start", "date_from", "after", "since"), "2026-05-01"),
    **dict.fromkeys(("date_end", "date_to", "before", "until"), "2026-05-06"),
}
WAYS = {way for row in rows() for way in row.reached_by}
CALLS = sorted(
    (found[1], tuple(found[2].split(", ")))
    for way in WAYS
    if (found := TOOL.fullmatch(way)) and found[1] in NEEDED
)


@pytest.mark.slow
def test_a_client_goes_each_way_to_a_promise(tools: Tools) -> None:
    assert {tool for tool, _ in CALLS} == NEEDED.keys()
    for tool, arguments in CALLS:
        given = {**NEEDED[tool], **{name: said_reached(tools, name) for name in arguments}}
        if "direction" in given:
            given["agent_name"] = "Ann"
        answer = tools.call(tool, **given)
        assert not answer.is_error, (tool, arguments, answer.content)
        found = answer.structured_content or {}
        assert "diagnostics" not in found, (tool, arguments, found)
        assert found.keys() >= {"subjects" if tool == "complete_subject" else "result"}
        assert ("explain" in found) == ("explain" in arguments)


def said_reached(tools: Tools, name: str) -> object:
    return tools.found(limit=1)["next_cursor"] if name == "cursor" else SAID[name]


@pytest.mark.parametrize("name", ["mode", "ranking", "importance", "direction", "cursor"])
def test_a_way_that_leads_nowhere_is_seen(tools: Tools, name: str) -> None:
    answer = tools.call("search_messages", **{**NEEDED["search_messages"], name: "nowhere"})
    assert answer.is_error or "diagnostics" in (answer.structured_content or {})
