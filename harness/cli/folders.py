"""``harness notes``, ``code`` and ``docs``: commands of the stacks that follow folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from inspect import Parameter, Signature, signature
from pathlib import Path, PurePosixPath
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from urllib.parse import unquote

import typer

from harness.cli import options
from harness.cli.command import Json, app, err, out
from harness.cli.exit_codes import as_called, aside
from harness.cli.project import Project
from harness.core.printable import counted, one_line
from harness_engines.kept.kit import CODE, DOCUMENTS, NOTES, Argument, Kit
from harness_engines.kept.listing import UnreadFile

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from harness.core.records import Scalar
    from harness_engines.kept.index import LiveFolder, Updated

LEAD = 60
"""Characters before the first word that was looked for."""
BEFORE, AFTER = "… ", "…"
"""What stands where text is left out."""


def around(text: str, query: str, most: int) -> str:
    """Return at most so many characters of a text: those with most of a query's words.

    Words are compared by their English stems, as the word index does. Of equal parts the first is
    given, and the beginning where it has as many words as any.
    """
    from harness_engines.lexical.grammar import positive
    from harness_engines.lexical.tantivy import analyzer
    from harness_engines.lexical.terms import words_in

    if len(text) <= most:
        return text
    stem = analyzer("english").analyze  # nothing of a word that says nothing, such as ``the``
    wanted = {"".join(stem(one.group())) for one in words_in(positive(query))} - {""}
    stemmed = ((*one.span(), "".join(stem(one.group()))) for one in words_in(text))
    places = [one for one in stemmed if one[2] in wanted]
    room = most - len(BEFORE) - len(AFTER)

    def lead(start: int) -> int:
        """Return where a word begins, at most ``LEAD`` characters before."""
        low = max(0, start - LEAD)
        return low and (text.find(" ", low - 1, start) + 1 or start)

    def seen(begin: int) -> int:
        end = begin + room
        return len({stem for start, last, stem in places if begin <= start and last <= end})

    begin = max((0, *(lead(start) for start, _, _ in places)), key=seen)
    if begin == 0:
        return text[: most - len(AFTER)] + AFTER
    end = begin + room
    return f"{BEFORE}{text[begin:end]}{AFTER if end < len(text) else ''}"


def _folder(typed: str) -> Path:
    """Read a folder's name; an empty one, as of a variable that is not set, is no folder."""
    if not typed:
        raise typer.BadParameter("the folder's name is empty. Name a folder, or . for this one")
    return Path(typed)


ALL = "Read build output, copies of others' work and what .gitignore names too."
All = Annotated[bool, typer.Option("--all", help=ALL)]
Folder = Annotated[Path, typer.Argument(help="The folder that holds the files.", parser=_folder)]
FOLLOW = "Bring the index up to date first; without, ask it as it is."
Follow = Annotated[bool, typer.Option("--update/--no-update", help=FOLLOW)]
SET = "A setting in place of the arm's own, such as fields.name=5."
Settings = Annotated[list[str], typer.Option("--set", help=SET)]
MAX_ALIKE = 3
"""Files with the same fault that are named one by one."""


Show = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Prints an answer for people, with what was given."""


def _put(kit: Kit, about: str, index_help: str, ask_help: str, show: Show) -> Kit:
    """Register the three commands of a stack."""
    word = kit.query.option or kit.query.name
    commands = typer.Typer(no_args_is_help=True, help=about)

    def live(folder: Path, arm: str, settings: Sequence[str]) -> LiveFolder:
        return kit.follow(_engine(kit, arm, settings), folder, place_of(kit.group, folder))

    def index(
        folder: Folder,
        arm: str = kit.arm,
        *,
        settings: Settings = [],  # noqa: B006  as Typer takes it
        everything: All = False,
        as_json: Json = False,
    ) -> None:
        followed = live(folder, arm, settings)
        with aside(), followed.now(everything=everything) as (_, done):
            pass
        followed.close()
        if done is not None and as_json:
            out.json({
                "read": done.read,
                "removed": done.removed,
                "unchanged": done.unchanged,
                "left_out": list(done.left_out),
                "faults": [{"path": one.path, "why": as_called(one.why)} for one in done.faults],
                "notes": [one._asdict() for one in done.notes],
            })
        elif done is not None:
            out.print(_summary(done), markup=False)
            _tell(done, followed.reader.suffixes)

    def ask(
        folder: Folder,
        arm: str = kit.arm,
        *,
        settings: Settings = [],  # noqa: B006  as above
        follow: Follow = True,
        as_json: Json = False,
        **given: Any,  # noqa: ANN401  what the kit takes
    ) -> None:
        from harness.core.errors import HarnessError, IndexNotReady

        given = {name: value for name, value in given.items() if value is not None}
        given[kit.query.name] = given.pop(word)
        if not given[kit.query.name].strip() and kit.instead.isdisjoint(given):
            raise HarnessError(f"the query is empty. {kit.remedy}")
        followed = live(folder, arm, settings)
        if not follow and not followed.is_indexed:
            chosen = [] if arm == kit.arm else ["--arm", arm]
            command = join(["harness", kit.group, "index", str(folder), *chosen])
            raise IndexNotReady(
                f"this folder is not indexed yet. Leave out --no-update, or run: {command}"
            )
        _ask(kit, followed, given, None if as_json else show, follow=follow)

    def serve(
        folder: Folder,
        arm: str = kit.arm,
        *,
        settings: Settings = [],  # noqa: B006  as above
        http: options.Http = None,
        host: options.Host = options.LOCALHOST,
        token: options.Token = True,
    ) -> None:
        app = kit.application(live(folder, arm, settings), folder.resolve().name)
        _serve(app, http, host, token=token)

    index.__doc__, ask.__doc__ = index_help, ask_help
    serve.__doc__ = f"""Serve {kit.tool} to MCP clients, over a folder as it is at each call.

    Speaks over standard input and output, or over HTTP with --http.

    Example: harness {kit.group} serve {kit.group} --http 8766
    """
    for command in (index, ask, serve):
        _typed(command, kit, word if command is ask else "")
        commands.command()(command)
    app.add_typer(commands, name=kit.group)
    return kit


def _ask(
    kit: Kit, followed: LiveFolder, given: Mapping[str, Any], show: Show | None, *, follow: bool
) -> None:
    """Print an answer from a folder, as JSON without ``show``, and what its update did."""
    from harness.core.errors import HarnessError
    from harness_engines.kept.index import unread

    with ExitStack() as until:
        until.callback(followed.close)
        with aside():
            opened, done = until.enter_context(followed.now(follow=follow))
        if done is not None:
            if done.is_change:
                err.print(_summary(done), markup=False)
            _tell(done._replace(left_out=()), followed.reader.suffixes)
        try:
            answer = kit.answer(opened, given)
        except ValueError as exc:
            raise HarnessError(f"--{exc}") from exc
        if show is None:
            out.json({**answer, **unread(done, as_called)})
        else:
            show(answer, given)


def _typed(command: Callable[..., None], kit: Kit, word: str) -> None:
    """Write what a command takes of a kit; with a ``word`` for the query, the options as well."""

    def option(one: Argument) -> Parameter:
        name = one.option or f"--{one.name.replace('_', '-')}"
        kind = str | None if one.default is None else type(one.default)
        least, most = one.bounds if any(one.bounds) else (None, None)
        typed = typer.Option(name, help=one.about, min=least, max=most)
        default = one.default if one.usual is None else one.usual
        annotated: Any = Annotated
        how = Parameter.KEYWORD_ONLY
        return Parameter(one.name, how, annotation=annotated[kind, typed], default=default)

    arm = Annotated[str, typer.Option("--arm", help=f"An arm of the stack {kit.stack}.")]
    hints = get_type_hints(command, include_extras=True) | {"arm": arm}
    taken = [one for one in signature(command).parameters.values() if one.name != "given"]
    own = [one.replace(annotation=hints[one.name]) for one in taken]
    if word:
        query = Annotated[str, typer.Argument(help=kit.query.about)]
        text = Parameter(word, Parameter.POSITIONAL_OR_KEYWORD, annotation=query)
        own = [own[0], text, own[1], *map(option, kit.arguments), *own[2:]]
    command.__signature__ = Signature(own)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in own}


def _engine(kit: Kit, arm: str, settings: Sequence[str]) -> Any:  # noqa: ANN401  of a stack
    """Load an arm of this stack, with settings ``key=value`` (TOML, or a text) for its own."""
    from harness.core.errors import InvalidArm
    from harness.core.formats import toml_of
    from harness.core.reading import Malformed
    from harness_engines import registry as arms

    given: dict[str, Scalar] = {}
    for said in settings:
        key, _, value = said.partition("=")
        try:
            given[key.strip()] = toml_of(f"value = {value}")["value"]
        except Malformed:
            given[key.strip()] = value.strip()
    engine = arms.load(arm, Project.here().cache, given).engine
    if getattr(engine, "ENGINE", "") != kit.stack:
        raise InvalidArm(
            f"{arm} is not an arm of the stack {kit.stack}. Name one, such as {kit.arm}"
        )
    return engine


def place_of(stack: str, folder: Path) -> Path:
    """Return where the index of a folder is kept: below the cache, which may be deleted."""
    from harness.core.digest import of_json
    from harness_engines.kept.listing import check

    check(folder)
    whole = folder.resolve()
    name = "".join(one if one.isascii() and one.isalnum() else "-" for one in whole.name)
    return Project.here().cache / "kept" / stack / f"{name}-{of_json(str(whole))[:12]}"


def _serve(app: Server[Any], port: int | None, host: str, *, token: bool) -> None:
    """Speak MCP over standard input and output, or over HTTP with a token in the address."""
    from secrets import token_urlsafe

    from harness_engines.mcp_server import digest, serve_http, serve_stdio

    if port is None:
        serve_stdio(app)
        return
    secret = token_urlsafe(32) if token else ""
    shown = f"?token={secret}" if secret else ""

    def ready(url: str) -> None:
        err.print(f"serving {url}{shown}", markup=False, soft_wrap=True)

    serve_http(app, host, port, ready, {digest(secret): None} if secret else None)


def _tell(done: Updated, kinds: Iterable[str]) -> None:
    """Print what cannot be found, what is left out, and that a folder may be another one."""
    for line in grouped((*done.faults, *done.notes)):
        err.print(line, markup=False)
    if done.left_out:
        said = f"{counted(len(done.left_out), 'entry')} left out, such as {done.left_out[0]}"
        err.print(f"{said}: tools made it, or it is ignored. To read all: --all", markup=False)
    if not (done.read or done.unchanged or done.faults):
        err.print(f"the folder has no file that is read: {', '.join(sorted(kinds))}", markup=False)


def grouped(faults: Sequence[UnreadFile]) -> Iterator[str]:
    """Yield a line a file or folder; of more than three with the same reason, one line for all."""
    by_reason: dict[str, list[str]] = {}
    for fault in faults:
        by_reason.setdefault(fault.why, []).append(fault.path)
    for why, paths in by_reason.items():
        if len(paths) > MAX_ALIKE:
            yield f"{counted(len(paths), 'file')}, such as {paths[0]}: {why}"
        else:
            yield from (f"{path}: {why}" for path in paths)


def _summary(done: Updated) -> str:
    """Describe in a line what an update did."""
    said = [f"{done.read:,} read", f"{done.removed:,} removed", f"{done.unchanged:,} unchanged"]
    refused = f"; {len(done.faults):,} cannot be read" if done.faults else ""
    return f"files: {', '.join(said)}{refused}"


def _nothing_found(text: str, what: str, typed_text: str) -> str:
    """State that nothing is found, so that it also holds where a query demands or refuses words."""
    from harness_engines.lexical.grammar import held

    if held(text).parts:  # a word of another part helps no part
        return (
            f"nothing is found: no part of a {what} has all that the query demands"
            " and nothing that it refuses"
        )
    return f"nothing is found: no {what} contains {typed_text}"


def _tell_last_try(answer: Mapping[str, Any]) -> None:
    if answer.get("fallback"):
        out.print("no index answers; these contain the text as it was typed", markup=False)
    if answer.get("nearest"):
        out.print(answer["nearest"], markup=False)


SHOWN_OF_UNIT, SHOWN_OF_CHUNK = 120, 300
"""Characters of a unit of code that a line shows, and of a chunk of a document."""


def _show_notes(answer: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    told = answer["diagnostics"]
    if not answer["items"]:
        out.print(_nothing_found(given["queryText"], "note", "the text"), markup=False)
    if told.get("fallback"):
        out.print("no query finds anything; these contain the text as it was typed", markup=False)
    for number, item in enumerate(answer["items"], start=1):
        path, _, chunk = item["sourceRef"].removeprefix("doc:").rpartition("#chunk:")
        out.data(f"{number}. {unquote(path)}, chunk {chunk}  score {item['score']:.4f}")
        out.data(f"   {one_line(item['snippet'])}")
        legs = answer.get("explain", {}).get(item["sourceRef"])
        if legs:
            ranks = [f"rank {rank} for {query}" for query, rank in legs["ranks"].items() if rank]
            cosine = "none" if legs["cosine"] is None else f"{legs['cosine']:.4f}"
            said = "; ".join([*ranks, f"BM25 share {legs['bm25']:.4f}", f"cosine {cosine}"])
            out.data(f"   {one_line(said)}")
    reason = told["rerank"].get("reason")
    if reason == "MODEL_NOT_READY":
        out.print(f"ordered by words alone: {reason}", markup=False)


def _show_code(answer: Mapping[str, Any], _: object) -> None:
    if answer.get("missing"):
        err.print(f"by words alone: {answer['missing']}", markup=False)
    if not answer["hits"]:
        out.print("nothing is found", markup=False)
    _tell_last_try(answer)
    if not answer.get("fallback") and any(hit["type"] == "line" for hit in answer["hits"]):
        out.print("a line in no unit contains the text as it was typed", markup=False)
    for number, hit in enumerate(answer["hits"], start=1):
        out.data(f"{number}. {_where(hit)}  score {hit['score']:.4f}")
        lines = [line.strip() for line in str(hit["prefix"]).splitlines() if line.strip()]
        # the first line of a section is its heading, which its name says already
        begin = " ".join(lines) if hit["mode"] == "prose" else "".join(lines[:1])
        out.data(f"   {one_line(str(hit['signature'] or begin), SHOWN_OF_UNIT)}")
        if "scoreBreakdown" in hit:
            out.data(f"   {json.dumps(hit['scoreBreakdown'], ensure_ascii=False)}")
    for hit in answer["context"]:
        said = f"context: {_where(hit)}  {hit['reason'].replace('_', ' ')} of {hit['of']}"
        out.data(said)


def _where(hit: Mapping[str, Any]) -> str:
    lines = f":{hit['lines']}" if hit["lines"] else ""
    return f"{hit['path']}{lines}  {hit['type']} {hit['name']}"


def _show_documents(answer: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for missing in answer.get("missing", []):
        err.print(f"{missing['part']}: {missing['reason']}: {missing['why']}", markup=False)
    if not answer["results"]:
        said = _nothing_found(answer["query"], "document", "the query")
        document = given["document_filter"]
        out.print(f"in {document}, {said}" if document else said, markup=False)
    _tell_last_try(answer)
    for number, found in enumerate(answer["results"], start=1):
        cited = _cited(found["citation"], found["source"]["document_id"])
        out.data(f"{number}. {cited}  score {found['score']:.4f}")
        out.data(f"   {around(one_line(found['text']), answer['query'], SHOWN_OF_CHUNK)}")
        legs = answer.get("explain", {}).get(found["source"]["chunk_id"])
        if legs:
            said = ", ".join(f"{name} {value}" for name, value in legs.items())
            out.data(f"   {said}")
    for one in answer.get("related", []):
        shared = f": {', '.join(one['shared'])}" if one["shared"] else ""
        cited = _cited(one["citation"], one["document_id"])
        out.data(f"related: {cited}  weight {one['edge_weight']:.4f}{shared}")


def _cited(citation: str, path: str) -> str:
    """Write the path below the folder for the file's name, with which a citation begins."""
    return f"{path}{citation.removeprefix(PurePosixPath(path).name)}"


GROUPS = (
    _put(
        NOTES,
        "Keep a folder of notes searchable, and show snippets.",
        """Index a folder of notes, or bring its index up to date.

    Markdown, text, reStructuredText and Org files are read; one that did not change is not read
    again. The index is kept below the cache of the project.

    Example: harness notes index notes
    """,
        """Ask a folder of notes for snippets, the best first; a note may give several.

    The index is brought up to date first. A text that no query finds is looked for in the notes
    as it is, and the answer says so.

    Example: harness notes ask notes "the retreat from Moscow"
    """,
        _show_notes,
    ),
    _put(
        CODE,
        "Keep a folder of code searchable, and say why a hit is one.",
        """Index a folder of code, or bring its index up to date.

    Python, Markdown, reStructuredText, text, TOML, JSON, CSV, TSV, JSON Lines and YAML files
    are read; nothing is imported or run. With the extra "languages" JavaScript, TypeScript, Go,
    Rust and Java are read too. A file that did not change is not read again. Vectors take most of
    the time: --arm code-words does without.

    Example: harness code index src
    """,
        """Ask a folder of code; each hit has its file, its lines and its first line.

    Filters are ANDed, and hold before anything is ranked. The index is brought up to date first.

    Example: harness code ask src "read a table" --type function --calls open
    """,
        _show_code,
    ),
    _put(
        DOCUMENTS,
        "Keep a folder of documents searchable, and cite what is found.",
        """Index a folder of documents, or bring its index up to date.

    Text, Markdown, HTML, PDF, Word and e-mail files are read.

    A file that did not change is not read again. One that cannot be read is named with the remedy,
    and the others are indexed. The index is kept below the cache of the project.

    Example: harness docs index papers
    """,
        """Ask a folder of documents; each chunk that is shown has its citation.

    The index is brought up to date first. A query that no index answers is looked for in the
    texts as it is, and the answer says so.

    Example: harness docs ask papers "customer retention"
    """,
        _show_documents,
    ),
)
"""Stacks, as their commands are registered."""
