"""``examples/remote_mcp``: arm files that load, and a server command that can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from harness_engines import registry as arms
from harness_engines.mcp_server import PATH
from harness_engines.stacks.remote.mcp import Remote
from tests.docs.pages import ROOT, page
from tests.docs.test_reference import check

FILES = sorted((ROOT / "examples" / "remote_mcp").glob("*.toml"))


def settings(path: Path) -> Remote:
    engine = arms.load(str(path), Path()).engine
    assert isinstance(engine, Remote)
    return engine


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_an_arm(path: Path) -> None:
    given = settings(path).settings
    assert path.stem == f"over-{given.transport}"
    if given.command:
        check(shlex.join(given.command))


def test_the_address_is_the_one_that_the_page_serves() -> None:
    (over_http,) = (path for path in FILES if path.stem == "over-http")
    url = settings(over_http).settings.url
    lines = [line.split() for line in page("docs/engines.md").commands()]
    ((option, port),) = {tuple(line[-2:]) for line in lines if "mail-server" in line}
    assert option == "--http"
    assert url == f"http://127.0.0.1:{port}{PATH}"
