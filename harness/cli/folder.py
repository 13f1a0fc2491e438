"""``harness notes``, ``code`` and ``docs``: commands of a stack that follows folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature, signature
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from engines.kept.kit import Argument, Kit
from harness.cli.command import err, out
from harness.cli.exit_codes import as_called, aside
from harness.cli.project import Project
from harness.core.printable import counted

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from engines.kept.index import Live, Updated
    from harness.core.records import Scalar
from engines.kept.listing import Fault

LEAD = 60
"""Characters before the first word that was looked for."""
BEFORE, AFTER = "… ", "…"
"""What stands where text is left out."""


def around(text: str, query: str, most: int) -> str:
    """Return at most so many characters of a text: those with most of a query's words.

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
    """Return a word's stem; empty for a word that says nothing, such as ``the``."""
    from engines.lexical.tantivy import analyzer

    return "".join(analyzer("english").analyze(word))


def _folder(typed: str) -> Path:
    """Read a folder's name; an empty one, as of a variable that is not set, is no folder."""
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
Settings = Annotated[
    list[str],
    typer.Option("--set", help="A setting in place of the arm's own, such as fields.name=5."),
]


@dataclass(frozen=True, slots=True)
class Group:
    """The commands of a stack: how they help, and how an answer is shown to people."""

    kit: Kit
    about: str
    index: str
    """Help of the command that indexes."""
    ask: str
    """Help of the command that asks."""
    show: Callable[[Mapping[str, Any], Mapping[str, Any], Any], None]
    """Prints an answer, with what was given and the open index."""


def put(app: typer.Typer, group: Group) -> None:
    """Register the three commands of a group."""
    kit = group.kit
    commands = typer.Typer(no_args_is_help=True, help=group.about)

    def live(folder: Path, arm: str, settings: Sequence[str]) -> Live[Any]:
        place = place_of(kit.group, folder)
        followed: Live[Any] = kit.follow(engine_of(kit, arm, settings), folder, place)
        return followed

    def index(
        folder: Folder,
        arm: str = kit.arm,
        *,
        settings: Settings = [],  # noqa: B006  as Typer takes it
        everything: All = False,
        as_json: AsJson = False,
    ) -> None:
        indexed(live(folder, arm, settings), everything=everything, as_json=as_json)

    def ask(
        folder: Folder,
        arm: str = kit.arm,
        *,
        settings: Settings = [],  # noqa: B006  as above
        follow: Follow = True,
        as_json: AsJson = False,
        **given: Any,  # noqa: ANN401  what the kit takes
    ) -> None:
        from harness.core.errors import HarnessError

        given = {name: value for name, value in given.items() if value is not None}
        given[kit.query.name] = given.pop(_word(kit))
        if not given[kit.query.name].strip() and kit.instead.isdisjoint(given):
            raise HarnessError(f"the query is empty. {kit.remedy}")
        chosen = [] if arm == kit.arm else ["--arm", arm]
        command = join(["harness", kit.group, "index", str(folder), *chosen])
        try:
            with asked(live(folder, arm, settings), command, follow=follow) as (opened, done):
                answer = kit.answer(opened, given)
                if as_json:
                    answered(answer, done)
                else:
                    group.show(answer, given, opened)
        except ValueError as exc:
            raise HarnessError(f"--{exc}") from exc

    def serve(
        folder: Folder,
        arm: str = kit.arm,
        *,
        settings: Settings = [],  # noqa: B006  as above
        http: Port = None,
        host: Host = LOCALHOST,
        token: Token = True,
    ) -> None:
        name = folder.resolve().name
        served(kit.application(live(folder, arm, settings), name), http, host, token=token)

    index.__doc__, ask.__doc__ = group.index, group.ask
    serve.__doc__ = f"""Serve {kit.tool} to MCP clients, over a folder as it is at each call.

    Speaks over standard input and output, or over HTTP with --http.

    Example: harness {kit.group} serve {kit.group} --http 8766
    """
    for command, options in ((index, ()), (ask, kit.arguments), (serve, ())):
        _typed(command, kit, options)
        commands.command()(command)
    app.add_typer(commands, name=kit.group)


def _typed(command: Callable[..., None], kit: Kit, options: Sequence[Argument]) -> None:
    """Write what a command takes of a kit; with options it takes a query as well."""
    hints = get_type_hints(command, include_extras=True)
    arm = Annotated[str, typer.Option("--arm", help=f"An arm of the stack {kit.stack}.")]
    hints["arm"] = arm
    taken = signature(command).parameters.values()
    own = [one.replace(annotation=hints[one.name]) for one in taken if one.name != "given"]
    more = [
        Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            annotation=_option(one),
            default=one.default if one.usual is None else one.usual,
        )
        for one in options
    ]
    if more:
        query = Annotated[str, typer.Argument(help=kit.query.about)]
        text = Parameter(_word(kit), Parameter.POSITIONAL_OR_KEYWORD, annotation=query)
        own = [own[0], text, own[1], *more, *own[2:]]
    command.__signature__ = Signature(own)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in own}


def _word(kit: Kit) -> str:
    """Name the query as the command line does."""
    return kit.query.option or kit.query.name


def _option(one: Argument) -> Any:  # noqa: ANN401  as Typer has it
    name = one.option or f"--{one.name.replace('_', '-')}"
    kind = str | None if one.default is None else type(one.default)
    least, most = one.bounds if any(one.bounds) else (None, None)
    annotated: Any = Annotated
    return annotated[kind, typer.Option(name, help=one.about, min=least, max=most)]


def engine_of(kit: Kit, arm: str, settings: Sequence[str]) -> Any:  # noqa: ANN401  of a stack
    """Load an arm that is of this stack, with settings in place of its own."""
    from engines import registry as arms
    from harness.core.errors import InvalidArm
    from harness.core.formats import toml_file

    found = arms.load(arm, Project.here().cache, dict(map(_setting, settings)))
    if toml_file(found.path)["stack"] != kit.stack:
        raise InvalidArm(
            f"{arm} is not an arm of the stack {kit.stack}. Name one, such as {kit.arm}"
        )
    return found.engine


def _setting(said: str) -> tuple[str, Scalar]:
    """Read ``key=value``; a value that is not TOML is a text."""
    from harness.core.formats import toml_of
    from harness.core.reading import Malformed

    key, _, value = said.partition("=")
    try:
        return key.strip(), toml_of(f"value = {value}")["value"]
    except Malformed:
        return key.strip(), value.strip()


def place_of(stack: str, folder: Path) -> Path:
    """Return where the index of a folder is kept: below the cache, which may be deleted."""
    from harness.core.digest import of_json
    from harness.core.errors import BadFile

    if not folder.is_dir():
        raise BadFile(folder, "is not a folder", "Give the folder that holds the files")
    whole = folder.resolve()
    name = "".join(one if one.isascii() and one.isalnum() else "-" for one in whole.name)
    return Project.here().cache / "kept" / stack / f"{name}-{of_json(str(whole))[:12]}"


@contextmanager
def asked(
    live: Live[Opened], command: str, *, follow: bool
) -> Iterator[tuple[Opened, Updated | None]]:
    """Return what answers for a folder and the update before it, unless ``follow`` is off."""
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
    """Return which files are read where the folder has none: it may be another one."""
    if done is not None and not (done.read or done.unchanged or done.faults):
        err.print(f"the folder has no file that is read: {', '.join(kinds)}", markup=False)


def grouped(faults: Sequence[Fault]) -> list[str]:
    """Return a line a file or folder; of more than three with the same reason, one line for all."""
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
    """Describe in a line what an update did."""
    said = [f"{done.read:,} read", f"{done.removed:,} removed", f"{done.unchanged:,} unchanged"]
    refused = f"; {len(done.faults):,} cannot be read" if done.faults else ""
    return f"files: {', '.join(said)}{refused}"


def nothing_found(text: str, what: str, typed_text: str) -> str:
    """State that nothing is found, so that it also holds where a query demands or refuses words.

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
