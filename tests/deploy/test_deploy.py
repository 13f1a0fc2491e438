"""Files of the deployment, and the shadow beside a service."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import httpx
import pytest
import yaml
from typer.main import get_command

from harness.cli import application
from harness.shadow.http import SENT_BY_US
from tests.source import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PARTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
VERDICTS_AND_FAILURE = [1, 2, 3]


def kind(name: str) -> list[Any]:
    return [part for part in PARTS if part["kind"] == name]


def pods() -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Give each pod's labels and its specification."""
    for part in kind("Deployment") + kind("Job"):
        template = part["spec"]["template"]
        yield template["metadata"]["labels"], template["spec"]


def containers() -> list[Any]:
    return [one for _, pod in pods() for one in pod["containers"]]


def harness_words() -> list[list[str]]:
    """Give what the harness is started with, by Compose and by Kubernetes."""
    (job,) = kind("Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["harness"]
    return [COMPOSE["services"]["harness"]["command"], container["args"]]


@pytest.mark.parametrize("words", harness_words())
def test_the_job_is_a_command_of_the_harness(words: Sequence[str]) -> None:
    group = get_command(application())
    name, *rest = words
    command = group.commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, list(rest)).params
    assert given["dataset"] == "/data/collection"
    assert str(given["cluster"]).endswith("scheduler:8786")


def test_nothing_runs_as_root_or_writes_into_the_image() -> None:
    user = re.findall(r"^USER (\d+)$", CONTAINERFILE, re.MULTILINE)
    assert user == ["10001"]
    for _, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert str(pod["securityContext"]["runAsUser"]) in user
        assert not pod["automountServiceAccountToken"]
        for one in pod["containers"]:
            assert one["securityContext"]["readOnlyRootFilesystem"]
            assert not one["securityContext"]["allowPrivilegeEscalation"]
    for service in COMPOSE["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


def test_a_verdict_is_not_tried_again() -> None:
    (job,) = kind("Job")
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == VERDICTS_AND_FAILURE
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


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
