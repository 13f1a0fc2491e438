"""One tool over a folder as an MCP server: structured answers, errors with a code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Generic, NamedTuple, TypeVar

from mcp.server.lowlevel import Server
from pydantic import BaseModel

from engines import mcp_server
from engines.kept.index import Live, unread
from engines.mcp_server import Code, Refused
from harness.core.errors import DISTRIBUTION, BadFile, HarnessError, IndexNotReady, Locked

Opened = TypeVar("Opened")
Answer = Mapping[str, Any]


class Tool(NamedTuple, Generic[Opened]):
    """What a stack offers: a name, what it takes, and how it answers."""

    name: str
    about: str
    takes: type[BaseModel]
    answer: Callable[[Opened, Any], Answer]


def application(live: Live[Opened], tool: Tool[Opened], title: str) -> Server[Any]:
    """Make a server of a tool; each call brings the index up to date with its folder first."""

    def call(args: BaseModel) -> Answer:
        try:
            with live.now() as (opened, done):
                answer = dict(tool.answer(opened, args))
            answer |= unread(done)
        except (BadFile, IndexNotReady, Locked) as exc:
            raise Refused(f"{exc}", Code.FAILED) from exc
        except OSError as exc:
            raise Refused(f"{exc.filename}: {exc.strerror}", Code.FAILED) from exc
        except (HarnessError, ValueError) as exc:
            raise Refused(f"{exc}") from exc
        return answer

    declared = mcp_server.Tool(tool.name, tool.about, tool.takes, call)
    release = version(DISTRIBUTION)
    return mcp_server.application(f"folder-{tool.name}", title, release, [declared])
