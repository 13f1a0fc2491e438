"""The server of the tools, and each way that a client goes."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
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

from harness.core.errors import BadFile, UnknownName
from harness_engines import mcp_server
from harness_engines.mcp_server import BY_THE_GUARD, CALLER, RefusalCode, admitted, called, digest
from harness_engines.mcp_server import Tool as ToolChecked
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail.mcp_tools import server
from harness_engines.stacks.agent_mail.mcp_tools.arguments import InProject
from harness_engines.stacks.agent_mail.mcp_tools.server import SUBJECT
from harness_engines.stacks.agent_mail.pipeline import scope as scopes
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, SwitchFile
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, read_callers, viewer
from tests.engines.agent_mail.whole import SETTINGS, Names, Tools, message, over, service


def told(tools: Tools) -> tuple[Implementation | None, dict[str, Tool]]:
    async def ask() -> tuple[Implementation | None, dict[str, Tool]]:
        async with Client(tools.app) as client:
            found = await client.list_tools()
            return client.server_info, {tool.name: tool for tool in found.tools}

    return anyio.run(ask)


def test_all_tools_are_there_and_every_parameter_says_what_it_is(tools: Tools) -> None:
    about, found = told(tools)
    assert about is not None
    assert (about.name, about.title) == (server.NAME, "mine")
    assert about.version == tools.surface.manifest.fingerprint
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
    jsonschema.validate(completed(tools), found[SUBJECT].output_schema or {"not": {}})
    called = tools.call("search_messages", project_key="*", query="review")
    (said,) = called.content
    assert json.loads(getattr(said, "text", "")) == called.structured_content


ANNS = viewer("Ann", frozenset(), frozenset())
TOKENS: Mapping[str, Scope | None] = {digest("operator's"): None, digest("Ann's"): ANNS}


async def who(scope: Request, receive: Receive, send: Send) -> None:
    """Answer with the policy of whoever calls."""
    del scope, receive
    caller = CALLER.get()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    said = caller.policy if caller else "operator"
    await send({"type": "http.response.body", "body": said.encode()})


def ask(
    headers: Mapping[str, str] | None = None,
    *,
    host: str = "127.0.0.1",
    query: str = "",
    tokens: Mapping[str, Scope | None] | None = None,
    method: str = "POST",
) -> tuple[int, str]:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(admitted(who, f"http://{host}:8080", tokens))
        async with httpx.AsyncClient(transport=transport) as client:
            given = {"host": "127.0.0.1:8080", **(headers or {})}
            return await client.request(method, f"http://127.0.0.1:8080/mcp{query}", headers=given)

    found = anyio.run(asked)
    return found.status_code, found.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]"])
def test_host_and_origin_are_checked(host: str) -> None:
    own = f"{host}:8080"
    for good in (own, "localhost:8080", "LocalHost:8080"):
        assert ask({"host": good}, host=host) == (200, "operator")
    for bad in ("evil.example", "evil.example:8080", "127.0.0.9:8080", host, f"{host}:80", ""):
        assert ask({"host": bad}, host=host)[0] == 421
    assert ask({"host": own, "origin": f"http://{own}"}, host=host)[0] == 200
    for bad in ("http://evil.example", "null", f"https://{own}", f"http://{host}:80", ""):
        assert ask({"host": own, "origin": bad}, host=host)[0] == 403


@pytest.mark.parametrize("said", ["", "Bearer ", "Bearer wrong", "Basic Ann's"])
def test_without_a_token_no_one_is_answered(said: str) -> None:
    assert ask({"authorization": said} if said else {}, tokens=TOKENS)[0] == 401
    assert ask(query="?token=Ann's&token=operator's", tokens=TOKENS)[0] == 401
    assert ask({"authorization": "Bearer Ann's"}, tokens=TOKENS) == (200, "viewer:Ann")


def test_a_request_for_a_stream_takes_no_place() -> None:
    """The server sends no messages of its own; each such stream kept one of the places for ever."""
    assert ask(method="GET")[0] == 405


PATIENCE_S = 20
"""Far more than any answer takes; a stream would take for ever."""


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


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_no_method_crashes(tools: Tools, version: str, caplog: pytest.LogCaptureFixture) -> None:
    """A stream kept one of the places for ever, and an unknown prompt was a traceback."""
    said = {
        name: anyio.run(asked, tools.app, name, version) for name in sorted(SPEC_CLIENT_METHODS)
    }
    assert {name for name, one in said.items() if one.status_code >= 500} == set()
    assert said["tools/list"].json()["result"]["tools"]
    assert "error" in said["subscriptions/listen"].json()
    assert said["prompts/get"].json()["error"]["message"] == "Method not found"
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_null_is_absent(tools: Tools) -> None:
    names = mcp_server.parameters(InProject)["properties"].keys() - {"project_key", "query"}
    null: dict[str, Any] = dict.fromkeys(names)
    plain, given = tools.found(), tools.found(**null)
    assert given["result"] == plain["result"]
    assert given["served_by"] == plain["served_by"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": "many"}, "limit is 'many': Input should be a valid integer"),
        ({"offset": -1}, "offset is -1: Input should be greater than or equal to 0"),
        ({"offset": 5_001}, "offset is 5001: Input should be less than or equal to 5000"),
        ({"min_score": "nan"}, "min_score is 'nan': Input should be a finite number"),
        ({"query": None}, "query is missing, give it"),
        ({"sendr": "Ann"}, "Did you mean sender?"),
        ({"colour": "red"}, "colour"),
        ({"limit": "x" * 10_000}, f"limit is '{'x' * 59}...: Input should be a valid integer"),
        ({"limit": [], "offset": -1}, "limit is []: Input should be a valid integer; offset is"),
    ],
)
def test_errors_have_code_and_remedy(tools: Tools, given: dict[str, Any], said: str) -> None:
    told = tools.refused(**given)
    assert told.startswith("INVALID_ARGUMENT: ")
    assert said in told
    assert "pydantic" not in told
    assert len(told) < 800


class Mode(mcp_server.ToolArguments):
    """Takes a mode."""

    mode: Literal["code", "prose"]


def act(args: Mode) -> dict[str, Any]:
    raise (
        mcp_server.ToolRefusal("the index is gone", RefusalCode.FAILED)
        if args.mode == "code"
        else ValueError("secret")
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("both", "INVALID_ARGUMENT: mode is 'both': Input should be 'code' or 'prose'"),
        ("code", "FAILED: the index is gone"),
        ("prose", "FAILED: act failed; its server's log says why"),
    ],
)
def test_a_refusal_begins_with_its_code_and_a_crash_tells_nothing(given: str, said: str) -> None:
    found = called(ToolChecked("act", "Act.", Mode, act), {"mode": given})
    assert found.is_error
    assert [getattr(part, "text", "") for part in found.content] == [said]


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
    scope = scopes.scope_of(listed, Names())
    assert scope.policy == "viewer:Ann"
    assert scope.sees(message(1, "a", project=1, sender="Mal")) is Visibility.ALLOW
    assert scope.sees(message(1, "a", project=2, sender="Zoe")) is Visibility.REDACT
    assert scope.sees(message(1, "a", project=2, sender="Mal")) is Visibility.DENY
    (listed,) = read_callers(written(tmp_path, ANN.replace("p1", "p9"))).values()
    with pytest.raises(UnknownName, match="p9"):
        scopes.scope_of(listed, Names())
    assert over(service([message(1, "a")]), scope=scopes.nobody()).found("a")["result"] == []


@pytest.mark.parametrize(
    "text",
    ["", ANN.replace('agent = "Ann"', ""), ANN + ANN.replace("viewers.ann", "viewers.bob")],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFile, match=r"viewers\.toml"):
        read_callers(written(tmp_path, text))


ARM = mail.MailSettings.model_validate(SETTINGS).model_dump()


def said(tools: Tools) -> tuple[str, str]:
    by = tools.found()["served_by"]
    return by["fingerprint"], by["engine"]


def put(path: Path, value: str) -> None:
    """Replace the file as its writer does."""
    path.with_suffix(".new").write_text(f"SEARCH_ENGINE={value}\n")
    path.with_suffix(".new").replace(path)


def test_the_switch_file_names_the_next_engine(tools: Tools, tmp_path: Path) -> None:
    file = tmp_path / "switch.env"
    file.write_text("# by hand\nSEARCH_ENGINE=tantivy\n")
    here = Tools(replace(tools.surface, settings=ARM, switch=SwitchFile(file).read))
    seen = [said(here)]
    for value in ("fts5", "hybrid", "shadow", "tantivy"):
        put(file, value)
        seen.append(said(here))
    assert [engine for _, engine in seen] == ["tantivy", "fts5", "hybrid", "fts5", "tantivy"]
    assert seen[0] == seen[-1]
    assert len({fingerprint for fingerprint, _ in seen}) == 4


def completed(tools: Tools, prefix: str = "re", **given: object) -> dict[str, Any]:
    return tools.answer(SUBJECT, **{"project_key": "*", "prefix": prefix, **given})


def ids(tools: Tools, prefix: str = "re", **given: object) -> list[int]:
    return [row["id"] for row in completed(tools, prefix, **given)["subjects"]]


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
    assert "NOT_FOUND: no project 'none'" in tools.refusal(SUBJECT, project_key="none", prefix="re")
    assert "limit is 51: Input should be less than or equal to 50" in tools.refusal(
        SUBJECT, project_key="*", prefix="re", limit=51
    )


def test_a_viewer_is_told_no_subject_that_is_hidden(tools: Tools) -> None:
    """Message 4 is from Cid and not to Ann, in a project not hers: its subject is redacted."""
    ann = Tools(tools.surface, viewer("Ann", frozenset({1}), frozenset({"Cid"})))
    (row,) = ann.found("", sender="Cid")["result"]
    assert (row["id"], row["redacted"]) == (4, True)
    assert ids(ann) == [6, 2, 3, 1]
    stranger = Tools(tools.surface, viewer("Eve", frozenset(), frozenset()))
    assert completed(stranger) == {"subjects": []}
    assert stranger.found()["served_by"]["documents"] == 0
    scope, service = viewer("Zoe", frozenset({1}), frozenset()), tools.surface.service
    assert [one.message_id for one in service.seen_by(scope).beginning("re", None, 1)] == [2]
    through = service.seen_by(replace(scope, audited=True))
    assert [one.message_id for one in through.beginning("re", None, 50)] == [2, 1]


@pytest.mark.parametrize("text", ["SEARCH_ENGINE=lucene\n", "", "SEARCH_ENGINE\n", "\udcff"])
def test_a_bad_switch_file(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    file = tmp_path / "switch.env"
    file.write_text("# a comment\n\nOTHER=1\nSEARCH_ENGINE=shadow\n")
    switch = SwitchFile(file)
    with caplog.at_level(logging.ERROR):
        file.unlink()
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert {switch.read() for _ in range(3)} == {KillSwitch.SHADOW}
        assert len(caplog.records) == 1
    for written, value in (
        ("tantivy", KillSwitch.TANTIVY),
        (" 'fts5'", KillSwitch.FTS5),
        ("", None),
    ):
        put(file, written)
        assert switch.read() is value
