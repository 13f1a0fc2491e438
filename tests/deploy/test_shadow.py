"""What ``deploy/shadow/`` describes: mirrors that send copies to the receiver, and no loop."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import httpx
import pytest
import yaml
from typer.main import get_command

from harness.cli import application
from harness.shadow.http import SENT_BY_US
from tests.source import ROOT

SHADOW = ROOT / "deploy" / "shadow"
RECEIVER, CONTROL = ":9400", ":9200"


def parsed(name: str) -> Any:  # noqa: ANN401  any YAML
    return yaml.safe_load((SHADOW / name).read_text())


def test_the_receiver_of_compose_is_a_command_of_the_harness() -> None:
    words = parsed("compose.yaml")["services"]["receiver"]["command"]
    group: Any = get_command(application())
    command = group.commands[words[0]].commands[words[1]]
    given = command.make_context(words[1], words[2:]).params
    assert f":{given['port']}" == RECEIVER
    assert given["control"].endswith(CONTROL)


def test_every_mirror_leaves_out_what_a_comparison_sends() -> None:
    for file in SHADOW.iterdir():
        if file.suffix in {".conf", ".py"} or file.name in {"envoy.yaml", "traefik.yaml"}:
            assert SENT_BY_US.replace("-", "_") in file.read_text().replace("-", "_"), file


def test_envoy_mirrors_to_a_cluster_that_it_has() -> None:
    found = parsed("envoy.yaml")["static_resources"]
    hosts = found["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    loop, mirrored = hosts["route_config"]["virtual_hosts"][0]["routes"]
    names = {one["name"] for one in found["clusters"]}
    (policy,) = mirrored["route"]["request_mirror_policies"]
    assert {policy["cluster"], mirrored["route"]["cluster"]} == names
    assert loop["route"] == {"cluster": "control"}


def test_traefik_mirrors_to_a_service_that_it_has() -> None:
    services = parsed("traefik.yaml")["http"]["services"]
    mirrored = services["mirrored"]["mirroring"]
    names = {mirrored["service"], *(one["name"] for one in mirrored["mirrors"])}
    assert names == set(services) - {"mirrored"}


@pytest.fixture
def middleware() -> ModuleType:
    spec = importlib.util.spec_from_file_location("middleware", SHADOW / "middleware.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


async def answers(scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:  # noqa: ANN401
    """Answer a request with its own body."""
    del scope
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("receiver", ["serves", "fails"])
def test_the_middleware_sends_copies_and_changes_no_answer(
    middleware: ModuleType, receiver: str
) -> None:
    copies: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        if receiver == "fails":
            raise httpx.ConnectError("absent")
        copies.append(request)
        return httpx.Response(204)

    async def run() -> list[bytes]:
        mirror = middleware.Mirror(answers, to=f"http://127.0.0.1{RECEIVER}", paths={"/search"})
        mirror.client = httpx.AsyncClient(transport=httpx.MockTransport(take))
        got = []
        transport = httpx.ASGITransport(mirror)
        async with httpx.AsyncClient(transport=transport, base_url="http://site.test") as client:
            for path, headers in (
                ("/search?q=a%20b", {"Authorization": "secret"}),
                ("/other", {}),
                ("/search", {SENT_BY_US: "1"}),
            ):
                answer = await client.post(path, content=b"body", headers=headers)
                got.append(answer.content)
        await asyncio.gather(*mirror.waiting)
        return got

    assert asyncio.run(run()) == [b"body"] * 3
    if receiver == "serves":
        (copy,) = copies
        assert (copy.url.raw_path, copy.content) == (b"/search?q=a%20b", b"body")
        assert "authorization" not in copy.headers
        assert copy.headers["x-real-ip"]
