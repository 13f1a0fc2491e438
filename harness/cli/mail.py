"""``harness mail``: mail of one's own, indexed; and ``harness mail-server``."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import Result, app, command, group, said, tell
from harness.cli.exit_codes import aside
from harness.cli.project import Project, name_of, own
from harness.core.errors import BadFile, HarnessError, UnknownName
from harness.core.parts import has, part
from harness.core.printable import counted, many, one_line
from harness.core.reading import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.pipeline.layout import Layout
    from harness_engines.registry import Arm
    from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
    from harness_engines.stacks.agent_mail.pipeline.scope import ListedViewer, Scope

SHORTEST_TOKEN = 16
ARM = "mail-tantivy"
Mailbox = Annotated[
    Path | None, typer.Option(help="A folder that `harness mail index` wrote, not a data set.")
]
mail = group("mail", "Keep your own mail searchable.")


@contextmanager
def logged(name: str, *, as_json: bool) -> Iterator[None]:
    """Write what the logger ``name`` and those below it are told, from INFO up, while this runs."""
    log, handler = logging.getLogger(name), logging.StreamHandler(sys.stderr)
    lines = Lines()
    lines.as_json = as_json
    handler.setFormatter(lines)
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


class Lines(logging.Formatter):
    """Writes what a server logs as one line a record: for people, or a JSON object each."""

    as_json = False

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, event and values; of a record without an event its message."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = dict(getattr(record, "told", None) or {"message": record.getMessage()})
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__
        if self.as_json:
            about = {"time": at, "level": record.levelname, "logger": record.name}
            return json.dumps({**about, **told})
        first = told.pop("event", None) or told.pop("message", "")
        said = [str(first), *(f"{key}={value}" for key, value in told.items())]
        return one_line(" ".join([at, record.levelname, *said]))


@command(mail)
def index(
    files: Annotated[list[Path], typer.Argument(help="mbox files; each becomes a project.")],
    to: options.ToFolder = Path("mailbox"),
    arm: options.ArmName = ARM,
) -> Result:
    """Index mail for `harness mail-server --mailbox`; no queries or judgements are needed.

    Each file is a project, named like the file. An index that is there is replaced.

    Example: harness mail index work.mbox lists.mbox --out mailbox
    """
    from harness.core.folders import MAIL
    from harness.pipeline.mail import index_mailbox

    own(to, MAIL, *files)
    made = index_mailbox(files, to, arm, Project.here().cache)
    for note in made.notes:
        tell(note)
    return said(f"{counted(made.documents, 'mail is')} indexed in {to}")


@command(mail, "drop-fts5")
def drop_fts5(
    dataset: options.Dataset = "",
    mailbox: Mailbox = None,
    arm: options.ArmName = ARM,
    out: options.From = None,
) -> Result:
    """Remove FTS5 and its triggers from an index for good, once Tantivy alone serves it.

    Refused while Tantivy lacks a message. Words are then searched by Tantivy, and by LIKE where
    that fails. Building the index again brings FTS5 back.

    Example: harness mail drop-fts5 --mailbox mailbox
    """
    from harness.pipeline import mail

    project = Project.here()
    layout = _layout(project, dataset, out, mailbox)
    documents = mail.drop_fts5(layout, arm, project.cache)
    return said(f"FTS5 is removed; Tantivy serves {many(documents, 'message')}")


@command(app, serves=True)
def mail_server(
    dataset: options.Dataset = "",
    arm: options.ArmName = ARM,
    out: options.From = None,
    *,
    mailbox: Mailbox = None,
    http: options.Http = None,
    host: options.Host = options.LOCALHOST,
    search_engine: Annotated[
        str,
        typer.Option(
            envvar="SEARCH_ENGINE",
            help="The kill switch: fts5, tantivy, shadow, hybrid or hybrid_rerank."
            " [default: the arm's own]",
        ),
    ] = "",
    switch_file: Annotated[
        Path | None,
        typer.Option(
            envvar="SEARCH_ENGINE_FILE",
            help="A file with a line SEARCH_ENGINE=...; a change takes effect at the next query.",
        ),
    ] = None,
    shadow_log: Annotated[
        Path | None,
        typer.Option(
            envvar="SHADOW_LOG",
            help="Under SEARCH_ENGINE=shadow, the comparison with Tantivy is logged here."
            " [default: out/shadow-log/ARM]",
        ),
    ] = None,
    shadow_settings: options.ShadowSettings = None,
    budget_ms: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="Milliseconds a query may take where the arm sets no fewer; 0 sets no limit.",
        ),
    ] = 2_000.0,
    viewers: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file of viewers: what each may see, and the SHA-256 of its token."
            " [default: every caller is an operator, who sees all]"
        ),
    ] = None,
    viewer: Annotated[
        str, typer.Option(help="Over standard input and output, the viewer of --viewers.")
    ] = "",
    writable: Annotated[
        bool,
        typer.Option(
            "--writable", help="Offer operators insert_message, edit_message, delete_message."
        ),
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object a line, for programs.")
    ] = False,
    token: options.Token = True,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="The operator's token; written where the file is missing."
            " [default: a new one, in the address that is printed]"
        ),
    ] = None,
) -> None:
    """Serve search_messages, search_messages_product and complete_subject to MCP clients.

    Speaks over standard input and output, or over HTTP with --http. The address is then printed on
    the error stream with a token, and a client needs both. The index is the one that
    `harness stage index` or `harness mail index` built. That of a data set is built where it is
    missing. A caller sees every message, unless --viewers says whose token it brings.

    Example: harness mail-server --dataset agent-mail --arm mail-tantivy --http 8765
    """
    from harness.pipeline.mail import mail_box, mail_service
    from harness.pipeline.prepare import prepare
    from harness_engines import registry as arms
    from harness_engines.mcp_server import check_loopback, digest, serve_http, serve_stdio
    from harness_engines.stacks.agent_mail.mcp_tools.server import application
    from harness_engines.stacks.agent_mail.pipeline.scope import nobody, scope_of

    check_loopback(host)
    if not isfinite(budget_ms):
        raise HarnessError(
            f"--budget-ms {budget_ms} must be finite; give milliseconds, or 0 for no limit"
        )
    listed = _viewers(viewers, viewer, http, token=token)
    secret = secret_of(token_file) if http is not None and token else None
    switch = _switch(search_engine, switch_file)
    project = Project.here()
    layout = _layout(project, dataset, out, mailbox)
    if out is mailbox is None and not layout.data.exists():
        prepare(project.root / "datasets" / dataset, project.root / "qrels" / dataset, layout.data)
    served = arms.load(arm, project.cache)
    observed = None
    if shadow_log or has("shadow"):
        live, change = part("shadow", "commands"), switch_file is not None
        if place := live.log_folder(project, served, shadow_log, switch(), may_change=change):
            log = live.log_of(place, shadow_settings, layout.root, layout.cache)
            tell(f"what is served under shadow is compared in {place}")
            observed = partial(part("shadow", "mail").watched, log=log)
    serving = mail_service(layout, arm, project.cache, switch, observed, budget_ms=budget_ms)
    with ExitStack() as until_closed:
        until_closed.enter_context(logged("engines.mail", as_json=log_json))
        with aside():
            if mailbox is None:
                _index(layout, served, arm, project.cache)
            service = until_closed.enter_context(serving)
            changing = mail_box(layout, arm, project.cache)
            box = until_closed.enter_context(changing) if writable else None
        names = service.directory
        scopes = {name: scope_of(one, names) for name, one in listed.items()}
        default = scopes.get(viewer, nobody()) if listed else None
        app = application(service, box, default)
        if not listed:
            tell("callers are operators: they see every message")
        if http is None:
            serve_stdio(app)
            return
        tokens: dict[str, Scope | None] = {
            **{one.token_sha256: scopes[name] for name, one in listed.items()},
            **({} if secret is None else {digest(secret): None}),
        }
        shown = f"?token={secret}" if secret is not None and token_file is None else ""
        serve_http(app, host, http, lambda url: tell(f"serving {url}{shown}"), tokens or None)


def _viewers(
    file: Path | None, name: str, http: int | None, *, token: bool
) -> Mapping[str, ListedViewer]:
    """Read the viewers, none where no file is named."""
    from harness_engines.stacks.agent_mail.pipeline.scope import read_callers

    if file is None:
        if name:
            raise HarnessError(f"--viewer {name} needs --viewers, the file that says what it sees")
        return {}
    listed = read_callers(file)
    if http is not None and not token:
        raise HarnessError("--viewers needs tokens to tell viewers apart; leave --no-token out")
    if http is None and name not in listed:
        raise UnknownName("viewer", name, sorted(listed))
    return listed


def _switch(value: str, file: Path | None) -> Callable[[], KillSwitch | None]:
    """Return what says the kill switch at every question: the file, where one is named."""
    from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, SwitchFile

    fixed = KillSwitch.read(value)
    if file is None:
        return lambda: fixed
    if fixed is not None:
        raise HarnessError(
            f"SEARCH_ENGINE is {fixed} here, and {file} sets it too; leave one of them out"
        )
    return SwitchFile(file).read


def _layout(project: Project, dataset: str, out: Path | None, mailbox: Path | None) -> Layout:
    from harness.core.folders import MAIL, RUN, check_held
    from harness.pipeline.layout import Layout
    from harness.pipeline.mail import in_mailbox

    if bool(dataset) == (mailbox is not None) or (mailbox and out):
        raise HarnessError("Name a data set with --dataset, or a mailbox with --mailbox, not both")
    if mailbox is not None:
        check_held(mailbox, MAIL)
        return in_mailbox(mailbox)
    if out is None:
        return project.layout(dataset)
    check_held(out, RUN)
    work = out / "work"
    return Layout(work / "build" / name_of(dataset), work / "perf", work / "cache")


def _index(layout: Layout, arm: Arm, name: str, cache: Path) -> None:
    """Build the index where there is none; one that is out of date is refused."""
    from harness.corpus.prepared import Prepared
    from harness.pipeline.index import check_settings
    from harness.pipeline.index import index as build
    from harness.pipeline.receipts import check_corpus, read_manifest

    if not layout.index(arm.name).exists():
        tell(f"indexing {arm.name} ...")
        build(layout, name, cache)
    check_settings(layout, arm)
    check_corpus(layout, arm.name, read_manifest(layout, arm.name), Prepared.open(layout.data))


def secret_of(file: Path | None) -> str:
    """Return the operator's token: a new one, or that of the file, which is made if absent."""
    fresh = token_urlsafe(32)
    if file is None:
        return fresh
    with (
        suppress(FileExistsError),
        open(file, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as made,
    ):
        made.write(fresh + "\n")
    said = text_of(file).strip()
    if len(said) < SHORTEST_TOKEN or len(said.split()) != 1:
        raise BadFile(file, "holds no token", f"Write one word of {SHORTEST_TOKEN} characters")
    return said
