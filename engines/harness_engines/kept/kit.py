"""What a stack that searches folders is called, takes and answers: once, for commands and tools.

Nothing heavy is imported at first, so that a command line that lists its commands stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from pydantic import BaseModel

    from harness_engines.kept.index import LiveFolder

Answer = Mapping[str, Any]


class Argument(NamedTuple):
    """What a query takes beside its text."""

    name: str
    about: str
    default: str | int | bool | None = None
    """None of a text that may be absent."""
    bounds: tuple[int, int] = (0, 0)
    """Least and most of a number."""
    option: str = ""
    """What the command line calls it, where that differs."""
    usual: int | None = None
    """The default of the command line, where that differs."""
    choices: tuple[str, ...] = ()

    @property
    def kind(self) -> Any:  # noqa: ANN401  a type
        """Return the type that a program has to give."""
        if self.choices:
            return Literal[("", *self.choices)]
        return str if self.default is None else type(self.default)


@dataclass(frozen=True, slots=True)
class Kit:
    """A stack and the ways to it; its module has ``reader``, which makes what answers."""

    group: str
    """Of commands."""
    stack: str
    arm: str
    """The one that needs no name."""
    tool: str
    about: str
    """Of the tool, in a sentence."""
    query: Argument
    arguments: tuple[Argument, ...]
    instead: frozenset[str] = frozenset()
    """Arguments of which one may stand in place of a query."""
    remedy: str = "Name words to look for"
    """Where there is neither."""

    def follow(self, arm: Any, folder: Path, place: Path) -> LiveFolder:  # noqa: ANN401  of the stack
        """Follow a folder with the settings of an arm of this stack."""
        from harness_engines.kept.index import LiveFolder

        module = import_module(f"harness_engines.stacks.{self.stack}.arm")
        return LiveFolder(folder, place, module.reader(arm, folder, place))

    def answer(self, opened: Any, given: Mapping[str, Any]) -> Answer:  # noqa: ANN401  as above
        """Answer from an open index; what is not given has its default."""
        defaults = {one.name: one.default for one in self.arguments}
        answer: Answer = opened.answer({**defaults, **given})
        return answer

    @property
    def takes(self) -> type[BaseModel]:
        """Write what its tool takes as a model."""
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, Any] = {self.query.name: (str, Field(description=self.query.about))}
        for one in self.arguments:
            least, most = one.bounds if any(one.bounds) else (None, None)
            default: Any = "" if one.default is None else one.default
            fields[one.name] = (one.kind, Field(default, ge=least, le=most, description=one.about))
        strict = ConfigDict(frozen=True, extra="forbid")
        return create_model("Arguments", __config__=strict, **fields)

    def application(self, live: LiveFolder, title: str) -> Server[Any]:
        """Make an MCP server of its tool; each call updates the index from its folder first."""
        from harness.core.errors import DISTRIBUTION, BadFile, HarnessError, IndexNotReady, Locked
        from harness_engines import mcp_server
        from harness_engines.kept.index import unread
        from harness_engines.mcp_server import RefusalCode, ToolRefusal

        def call(args: BaseModel) -> Answer:
            given = {
                name: value
                for name, value in args.model_dump().items()
                if value != "" or name == self.query.name
            }
            try:
                with live.now() as (opened, done):
                    return {**self.answer(opened, given), **unread(done)}
            except (BadFile, IndexNotReady, Locked) as exc:
                raise ToolRefusal(f"{exc}", RefusalCode.FAILED) from exc
            except OSError as exc:
                raise ToolRefusal(f"{exc.filename}: {exc.strerror}", RefusalCode.FAILED) from exc
            except (HarnessError, ValueError) as exc:
                raise ToolRefusal(f"{exc}") from exc

        declared = mcp_server.Tool(self.tool, self.about, self.takes, call)
        release = version(DISTRIBUTION)
        return mcp_server.application(f"folder-{self.tool}", title, release, [declared])


EXPLAIN = "Show what every leg says of each hit."
NOTES = Kit(
    "notes",
    "writing",
    "writing-notes",
    "rag_retrieve",
    "Retrieve snippets of notes for a writer, with diagnostics.",
    Argument("queryText", "What a writer types.", option="text"),
    (
        Argument("limit", "How many snippets.", 8, (1, 50)),
        Argument("title", "Title of the document that is being written.", ""),
        Argument("selection", "What is selected in it.", ""),
        Argument("project", "What its project is about.", ""),
        Argument("explain", EXPLAIN, default=False),
    ),
)
DOCUMENTS = Kit(
    "docs",
    "documents",
    "documents-free-words",
    "search_collection",
    "Search the documents of a folder; each result cites its place.",
    Argument("query", "What to search for. +word, -word and phrases hold strictly."),
    (
        Argument("top_k", "How many chunks.", 10, (1, 100), "--top", 3),
        Argument(
            "document_filter", "Path of the only document to search.", "", option="--document"
        ),
        Argument(
            "max_expansions",
            "Chunks related to the answer, and not in it.",
            0,
            (0, 100),
            "--related",
        ),
        Argument("explain", EXPLAIN, default=False),
    ),
)
FILTERS = (
    Argument("lang", "Language, such as python."),
    Argument("ext", "Ending of the file, such as py."),
    Argument("file", "Part of a file's name, or /regex/."),
    Argument("path", "Part of a path, or /regex/."),
    Argument("type", "function, method, class, constant, module, section, record or text."),
    Argument("signature", "Part of a signature, or /regex/."),
    Argument("risk", "low, medium or high: at least so severe."),
    Argument("risk_tag", "Tag of a risk, such as sql."),
    Argument("risk_source", "Where a risk's data come from."),
    Argument("risk_sink", "Where a risk's data go to."),
    Argument("risk_category", "Category of a risk."),
    Argument("risk_flow", "source->sink of a risk."),
    Argument("inferred_type", "A type that is used."),
    Argument("return_type", "The type that is returned."),
    Argument("param", "Name of a parameter."),
    Argument("uses", "A name that is used."),
    Argument("calls", "A name that is called."),
)
CODE = Kit(
    "code",
    "code",
    "code-mixed",
    "search_code",
    "Search code, prose and records of a folder; filters hold before ranking.",
    Argument("query", "What to search for; empty lists what passes the filters."),
    (
        Argument("top", "How many units.", 10, (1, 1000)),
        Argument(
            "mode",
            "code, prose, records or mixed; the arm's own if absent.",
            "",
            choices=("code", "prose", "records", "mixed"),
        ),
        Argument("context", "Units beside each hit: calls, uses, imports.", 0, (0, 50)),
        Argument("graph", "Reorder the hits by who calls and uses whom.", default=False),
        *FILTERS,
        Argument("explain", "Show scoreBreakdown of each hit.", default=False),
    ),
    frozenset(one.name for one in FILTERS),
    "Name words to look for, or a filter such as --type function",
)
KITS = (NOTES, CODE, DOCUMENTS)
