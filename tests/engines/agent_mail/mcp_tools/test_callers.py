"""``mcp_tools.callers``: the file of viewers, and what each one sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.mcp_server import digest
from engines.stacks.agent_mail.mcp_tools.arguments import nobody, read_callers, scope_of
from engines.stacks.agent_mail.pipeline.scope import Visibility
from harness.core.errors import BadFile, UnknownName
from tests.engines.agent_mail.fakes import message, service
from tests.engines.agent_mail.mcp_tools.conftest import Names, over

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


def test_an_unknown_project_is_refused_and_not_left_out(tmp_path: Path) -> None:
    (listed,) = read_callers(written(tmp_path, ANN.replace("p1", "p9"))).values()
    with pytest.raises(UnknownName, match="p9"):
        scope_of(listed, Names())


def test_a_call_that_names_no_one_sees_nothing() -> None:
    assert over(service([message(1, "a")]), scope=nobody()).found("a")["result"] == []
