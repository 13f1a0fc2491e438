"""Options and output that the commands of kept folders share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from harness.cli.app import err, out
from harness.cli.exit_codes import as_called, aside
from harness.cli.project import Project
from harness.core.printable import counted

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from engines.kept.index import Live, Updated
from engines.kept.listing import Fault

LEAD = 60
"""Characters before the first word that was looked for."""
BEFORE, AFTER = "… ", "…"
"""What stands where text is left out."""


def around(text: str, query: str, most: int) -> str:
    """Give at most so many characters of a text: those with most of a query's words.

    Words are compared by their English stems, as the word index does. Of equal parts the first is
    given, and the beginning where it has as many words as any.
    """
    from engines.lexical.grammar import positive
    from engines.lexical.terms import words_in

    if len(text) <= most:
        return text
    wanted = {_stem(one.group()) for one in words_in(positive(query))} - {""}
    places = [
        (*one.span(), stem) for one in words_in(text) if (stem := _stem(one.group())) in wanted
    ]
    begin, first, shown = 0, 0, _within(places, 0, most - len(AFTER))
    room = most - len(BEFORE) - len(AFTER)
    for start, _, _ in places:
        lead = max(0, start - LEAD)
        if lead and (found := _within(places, lead, lead + room)) > shown:
            begin, first, shown = lead, start, found
    while begin < first and not text[begin - 1].isspace():
        begin += 1
    if begin == 0:
        return text[: most - len(AFTER)] + AFTER
    end = begin + room
    return f"{BEFORE}{text[begin:end]}{AFTER if end < len(text) else ''}"


def _within(places: list[tuple[int, int, str]], begin: int, end: int) -> int:
    return len({stem for start, last, stem in places if begin <= start and last <= end})


@cache
def _stem(word: str) -> str:
    """Give a word's stem; empty for a word that says nothing, such as ``the``."""
    from engines.lexical.tantivy import analyzer

    return "".join(analyzer("english").analyze(word))


def _folder(typed: str) -> Path:
    """Read a folder's name; an empty one, as of a variable that is not set, is no folder.

    Raises:
        BadParameter: it is empty.
    """
    if not typed:
        raise typer.BadParameter("the folder's name is empty. Name a folder, or . for this one")
    return Path(typed)


All = Annotated[
    bool,
    typer.Option(
        "--all", help="Read build output, copies of others' work and what .gitignore names too."
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(help="The folder that holds the files.", parser=_folder),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Follow = Annotated[
    bool,
    typer.Option(
        "--update/--no-update", help="Bring the index up to date first; without, ask it as it is."
    ),
]
Port = Annotated[
    int | None,
    typer.Option("--http", min=0, max=65535, help="Speak HTTP on this port, 0 for a free one."),
]
Host = Annotated[str, typer.Option(help="A loopback address; no other is served.")]
Token = Annotated[bool, typer.Option("--token/--no-token", help="Ask for a token over HTTP.")]
LOCALHOST = "127.0.0.1"
MAX_ALIKE = 3
"""Files with the same fault that are named one by one."""
Opened = TypeVar("Opened")
Stack = TypeVar("Stack")


def put_together(app: typer.Typer, name: str, about: str, *commands: Callable[..., None]) -> None:
    """Put a group on the command line."""
    group = typer.Typer(no_args_is_help=True, help=about)
    for command in commands:
        group.command()(command)
    app.add_typer(group, name=name)


def engine_of(arm: str, kind: type[Stack], stack: str, such_as: str) -> Stack:
    """Load an arm that is of this stack.

    Raises:
        InvalidArm: it is of another one.
    """
    from engines import registry as arms
    from harness.core.errors import InvalidArm

    engine = arms.load(arm, Project.here().cache).engine
    if not isinstance(engine, kind):
        raise InvalidArm(f"{arm} is not an arm of the stack {stack}. Name one, such as {such_as}")
    return engine


def place_of(stack: str, folder: Path) -> Path:
    """Say where the index of a folder is kept: below the cache, which may be deleted."""
    from harness.core.digest import of_json
    from harness.core.errors import BadFile

    if not folder.is_dir():
        raise BadFile(folder, "is not a folder", "Give the folder that holds the files")
    whole = folder.resolve()
    name = "".join(one if one.isascii() and one.isalnum() else "-" for one in whole.name)
    return Project.here().cache / "kept" / stack / f"{name}-{of_json(str(whole))[:12]}"


def indexing(stack: str, folder: Path, arm: str, usual: str) -> str:
    """Write the command that indexes a folder; ``usual`` is the arm that needs no name."""
    from shlex import join

    chosen = [] if arm == usual else ["--arm", arm]
    return join(["harness", stack, "index", str(folder), *chosen])


def typed(text: str, without: str = "Name words to look for") -> None:
    """Refuse a text without a sign in it; ``without`` is what to do.

    Raises:
        HarnessError: as said.
    """
    from harness.core.errors import HarnessError

    if not text.strip():
        raise HarnessError(f"the query is empty. {without}")


@contextmanager
def asked(
    live: Live[Opened], command: str, *, follow: bool
) -> Iterator[tuple[Opened, Updated | None]]:
    """Give what answers for a folder and the update before it, unless ``follow`` is off.

    Raises:
        IndexNotReady: ``follow`` is off and the index, which ``command`` makes, is missing.
    """
    from harness.core.errors import IndexNotReady

    if not follow and not live.is_indexed:
        raise IndexNotReady(
            f"this folder is not indexed yet. Leave out --no-update, or run: {command}"
        )
    with aside():
        opened = live.now(follow=follow)
        now, done = opened.__enter__()
    try:
        if done is not None and done.is_change:
            err.print(summary(done), markup=False)
        for line in grouped((*done.faults, *done.notes) if done is not None else ()):
            err.print(line, markup=False)
        _told_of_nothing(done, live.kinds)
        yield now, done
    finally:
        opened.__exit__(None, None, None)
        live.close()


def indexed(live: Live[Any], *, everything: bool, as_json: bool) -> None:
    """Update an index, and say what that took."""
    with aside(), live.now(everything=everything) as (_, done):
        pass
    live.close()
    if done is None:
        return
    if as_json:
        told = {
            "read": done.read,
            "removed": done.removed,
            "unchanged": done.unchanged,
            "left_out": list(done.left_out),
            "faults": [{"path": one.path, "why": as_called(one.why)} for one in done.faults],
            "notes": [one._asdict() for one in done.notes],
        }
        out.json(told)
        return
    out.print(summary(done), markup=False)
    for line in grouped((*done.faults, *done.notes)):
        err.print(line, markup=False)
    if done.left_out:
        said = f"{counted(len(done.left_out), 'entry')} left out, such as {done.left_out[0]}"
        err.print(f"{said}: tools made it, or it is ignored. To read all: --all", markup=False)
    _told_of_nothing(done, live.kinds)


def _told_of_nothing(done: Updated | None, kinds: Sequence[str]) -> None:
    """Say which files are read where the folder has none of them: it may not be the one meant."""
    if done is not None and not (done.read or done.unchanged or done.faults):
        err.print(f"the folder has no file that is read: {', '.join(kinds)}", markup=False)


def grouped(faults: Sequence[Fault]) -> list[str]:
    """Say a line a file or folder; of more than three with the same reason, one line for all."""
    by_reason: dict[str, list[str]] = {}
    for fault in faults:
        by_reason.setdefault(fault.why, []).append(fault.path)
    lines: list[str] = []
    for why, paths in by_reason.items():
        if len(paths) > MAX_ALIKE:
            lines.append(f"{counted(len(paths), 'file')}, such as {paths[0]}: {why}")
        else:
            lines += [f"{path}: {why}" for path in paths]
    return lines


def summary(done: Updated) -> str:
    """Say in a line what an update did."""
    said = [f"{done.read:,} read", f"{done.removed:,} removed", f"{done.unchanged:,} unchanged"]
    refused = f"; {len(done.faults):,} cannot be read" if done.faults else ""
    return f"files: {', '.join(said)}{refused}"


def nothing_found(text: str, what: str, typed_text: str) -> str:
    """Say that nothing is found, so that it also holds where a query demands or refuses words.

    ``what`` is searched part by part: a word of another part of it helps no part.
    """
    from engines.lexical.grammar import held

    if held(text).parts:
        return (
            f"nothing is found: no part of a {what} has all that the query demands"
            " and nothing that it refuses"
        )
    return f"nothing is found: no {what} contains {typed_text}"


def answered(answer: Mapping[str, Any], done: Updated | None) -> None:
    """Print an answer as JSON, with the files of which all or a part cannot be found."""
    from engines.kept.index import unread

    out.json({**answer, **unread(done, as_called)})


def served(app: Server[Any], port: int | None, host: str, *, token: bool) -> None:
    """Speak MCP over standard input and output, or over HTTP with a token in the address."""
    from secrets import token_urlsafe

    from engines.mcp_server import digest, serve_http, serve_stdio

    if port is None:
        serve_stdio(app)
        return
    secret = token_urlsafe(32) if token else ""
    shown = f"?token={secret}" if secret else ""
    serve_http(
        app,
        host,
        port,
        lambda url: err.print(f"serving {url}{shown}", markup=False, soft_wrap=True),
        {digest(secret): None} if secret else None,
    )
