"""``harness shadow``: receive, run, watch, replay, report and take in a live comparison."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import CODES, Result, command, group, out, said, shown, tell
from harness.cli.exit_codes import called
from harness.cli.project import Project, own
from harness.core.errors import UnknownName
from harness.core.printable import counted, one_line
from harness.core.printable import many as count_of

if TYPE_CHECKING:
    from harness.report.doc import Block, Section
    from harness.shadow.comparison import ShadowLog
    from harness.shadow.divergences import Again, SuppressionStatus
    from harness.shadow.summary import LogState
    from harness_engines.registry import Arm
    from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch


live = group(
    "shadow", "Mirror queries to a candidate; watch the log, replay divergences, report, accept."
)
FOLDER = Path("out", "shadow-log")
"""Below the project, with a folder for each arm."""
Folders = Annotated[
    list[Path], typer.Argument(help="Folders of logs; one for each process that wrote.")
]
BoundsFile = Annotated[
    Path | None, typer.Option("--bounds", help="What is watched. [policy/watch.toml]")
]
RegisterFile = Annotated[
    Path | None, typer.Option("--register", help="What is accepted. [policy/accepted.toml]")
]
ReadingFile = Annotated[
    Path, typer.Option(help="Where queries and results are: that, or the engine's own file.")
]
Server = Annotated[str, typer.Option(help="Address of a server; of MCP, or a command.")]
BOUNDS, REGISTER = Path("policy", "watch.toml"), Path("policy", "accepted.toml")
SETTINGS = Path("policy", "shadow.toml")


def suppressions_file(given: Path | None, *, writes: bool = False) -> Path:
    """Find the suppression list: the one that was named, or the project's."""
    return given or (Project.own() if writes else Project.here()).root / REGISTER


def today() -> date:
    """Day in UTC."""
    return datetime.now(UTC).date()


def log_folder(
    project: Project, arm: Arm, given: Path | None, switch: KillSwitch | None, *, may_change: bool
) -> Path | None:
    """Name the folder of the log: ``given``, or that of the arm; None where no shadow can be.

    ``may_change`` says that the switch may turn to ``shadow`` while the server runs.
    """
    from harness_engines.stacks.agent_mail.arm import Mail
    from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch

    own = arm.engine.settings.search_engine if isinstance(arm.engine, Mail) else ""
    if given is not None or not (may_change or (switch or own) == KillSwitch.SHADOW):
        return given
    return project.place / FOLDER / arm.name


def log_of(folder: Path, settings: Path | None, *reads: Path | None) -> ShadowLog:
    """Make the folder one of a log, and read what the comparison may cost."""
    from harness.core.folders import SHADOW_LOG
    from harness.shadow.comparison import ShadowLog
    from harness.shadow.log import is_log
    from harness.shadow.settings import read_settings

    ours = Project.here().root / SETTINGS
    given = settings or (ours if ours.is_file() else Project.brought().root / SETTINGS)
    own(folder, SHADOW_LOG, *reads, given, known=is_log)
    return ShadowLog(folder, read_settings(given))


@command(live)
def receive(
    *,
    control: Server,
    candidate: Server,
    reading: ReadingFile,
    to: options.ToFolder,
    candidate_reading: Annotated[
        Path | None,
        typer.Option(help="Engine's own file of a candidate with another API. [--reading]"),
    ] = None,
    port: options.Port = 0,
    host: options.Host = options.LOCALHOST,
    per_second: Annotated[
        float, typer.Option(min=0.001, help="Most requests a second to the control.")
    ] = 50.0,
    workers: Annotated[int, typer.Option(min=1, help="Requests to the control at once.")] = 4,
    repeat: Annotated[
        float, typer.Option(min=0, max=1, help="Share that is sent to the control a second time.")
    ] = 0.1,
    client_header: Annotated[
        str, typer.Option(help="Header that names the client; a salted digest is logged.")
    ] = "x-real-ip",
    shadow_settings: options.ShadowSettings = None,
) -> Result:
    """Receive mirrored requests, ask the control and the candidate, and compare their answers.

    It does not stand in the path of users: a load balancer sends copies and ignores the answer,
    which is 204 before any work. Only requests that the reading names are sent. What it
    cannot keep up with is dropped and counted. SIGTERM and SIGINT end it in order.

    Example: harness shadow receive --control http://127.0.0.1:9200 --candidate
    http://127.0.0.1:9201 --reading examples/shadow/http.toml --out out/shadow --port 9400
    """
    from harness.shadow.http import http_reading, of_arm
    from harness.shadow.receiver import ReceiverLimits, shadow_receive

    log = log_of(to, shadow_settings, reading, candidate_reading)
    counts, dropped = shadow_receive(
        control,
        candidate,
        reading=http_reading(reading),
        candidate_reading=of_arm(candidate_reading) if candidate_reading else None,
        address=(host, port),
        asking=ReceiverLimits(per_second, workers, repeat, client_header, log.settings.sampling),
        log=log,
        ready=lambda url: tell(f"serving {url}"),
    )
    return said(
        f"{counted(counts.attempted, 'attempt')}; lost: {counts.lost:,}",
        *(f"dropped: {count:,} ({why})" for why, count in sorted(dropped.items())),
        f"The log: {to}",
    )


@command(live, serves=True)
def mcp(
    *,
    control: Server,
    candidate: Server,
    reading: ReadingFile,
    to: options.ToFolder,
    control_token: Annotated[
        Path | None,
        typer.Option(help="File with the control's token. [HARNESS_CONTROL_TOKEN, a token]"),
    ] = None,
    candidate_token: Annotated[
        Path | None,
        typer.Option(help="File with the candidate's. [HARNESS_CANDIDATE_TOKEN, a token]"),
    ] = None,
    http: options.Http = None,
    host: options.Host = options.LOCALHOST,
    shadow_settings: options.ShadowSettings = None,
) -> None:
    """Proxy an MCP server, mirror its calls to a candidate server, and compare the answers.

    Speaks over standard input and output, or over HTTP with --http. A call of a tool that the
    reading names goes to the candidate too, after the client's answer; the
    candidate's is shown to no one.

    Example: harness shadow mcp --control http://127.0.0.1:8765/mcp --candidate
    http://127.0.0.1:8766/mcp --reading examples/shadow/mcp.toml --out out/shadow --http 8080
    """
    from harness.shadow.mcp import McpServer, shadow_mcp, token_for
    from harness.shadow.settings import read_reading

    how, log = read_reading(reading), log_of(to, shadow_settings, reading)
    tokens = (
        token_for(control_token, os.environ.get("HARNESS_CONTROL_TOKEN")),
        token_for(candidate_token, os.environ.get("HARNESS_CANDIDATE_TOKEN")),
    )
    servers = McpServer.of(control, tokens[0]), McpServer.of(candidate, tokens[1])
    at = None if http is None else (host, http)
    shadow_mcp(*servers, how, log, at, ready=lambda url: tell(f"serving {url}"))


NS_PER_MS = 1e6


@command(live)
def run(
    *,
    dataset: options.Dataset,
    control: options.Control,
    candidate: options.Candidate,
    to: options.ToFolder,
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries as JSON lines with _id and text. [those of the data set]"),
    ] = None,
    reading: Annotated[
        Path | None,
        typer.Option(help="Where --queries, a recording of requests, has their texts."),
    ] = None,
    count: Annotated[
        int, typer.Option(min=0, help="Number of queries; they repeat from the first. [each once]")
    ] = 0,
    rate: Annotated[
        float, typer.Option(min=0, help="Queries a second. [as fast as nothing is shed]")
    ] = 0.0,
    k: Annotated[int, typer.Option(min=0, help="Requested hits. [params.yaml]")] = 0,
    shadow_settings: options.ShadowSettings = None,
) -> Result:
    """Run queries on the control, mirror them to the candidate, and write the log of both.

    With --reading, --queries is an access log, a HAR file or a recording of GoReplay, of which the
    requests that the reading names are run. Without --rate the next query waits while the candidate
    has too many before it. Exit code 3 where nothing could be compared. Look at the log with
    harness shadow watch.

    Example: harness shadow run --dataset python-docs --control fts5 --candidate tantivy
    --out out/shadow
    """
    import numpy as np

    from harness.corpus import beir
    from harness.corpus.prepared import Prepared
    from harness.shadow import stage
    from harness.shadow.http import http_reading, recorded

    project = Project.here()
    layout = project.layout(dataset)
    log = log_of(to, shadow_settings, layout.root, layout.cache, queries, reading)
    if queries and reading:
        asked = tuple(recorded(queries, http_reading(reading)))
    elif queries:
        asked = tuple(beir.queries(queries))
    else:
        own_queries = Prepared.open(layout.data).queries()
        asked = stage.mixed(own_queries, log.settings.sampling.seed)
    ran = stage.shadow_run(
        layout,
        (control, candidate),
        project.cache,
        log,
        asked,
        count=count or len(asked),
        k=k or project.params.replay.k,
        per_second=rate,
    )
    of = ran.counts
    middle, slow = np.percentile(ran.control_ns, (50, 99)) / NS_PER_MS
    shed = ", ".join(f"{number:,} ({reason})" for reason, number in of.shed.items()) or "0"
    lines = said(
        f"{counted(of.served, 'query')}, {ran.per_second:,.1f} a second; the control took"
        f" {middle:.2f} ms in the median, {slow:.2f} ms at its p99.",
        f"{counted(of.attempted, 'attempt')}; shed (not sent to the candidate, to spare the"
        f" machine): {shed}; lost: {of.lost:,}; faults of our own: {of.faults:,}.",
        *(() if ran.written else ("Not all of it was written in time; what waited is skipped.",)),
        f"The log: {to}",
    )
    compared = of.attempted - sum(of.shed.values()) - of.lost
    return Result(lines.doc, 0 if compared else CODES["inconclusive"])


HOLD = 1
REPLAY_QUERY, WATCH_QUERY = 60, 50
"""Characters of a query that are shown."""


@command(live)
def accept(
    *,
    reason: options.Reason,
    by: options.By,
    until: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="The last day, UTC, on which it counts.")
    ],
    kind: Annotated[str, typer.Option("--class", help="A diverging class, as tie_order.")] = "",
    in_slice: Annotated[
        str, typer.Option("--slice", help="Only in this slice; with --class or --query.")
    ] = "",
    query: Annotated[str, typer.Option(help="Only this query: its key, as watch shows it.")] = "",
    suppressions: RegisterFile = None,
) -> Result:
    """Accept a class of divergences, or one query, with a reason and until a day.

    What is accepted is still counted and shown, and blocks nothing until the day has passed. The
    entry is added at the end of the suppression list.

    Example: harness shadow accept --class tie_order --reason "ties are broken by id" --by Ada
    --until 2027-03-31
    """
    from harness.core.names import labelled
    from harness.shadow.divergences import ACCEPTABLE, AcceptedDivergence
    from harness.shadow.settings import accept as write

    if kind and kind not in ACCEPTABLE:
        raise UnknownName("class that can be accepted", kind, sorted(ACCEPTABLE))
    reason, by = labelled("a reason", reason), labelled("who accepts", by)
    entry = AcceptedDivergence.of(reason, by, until.date(), kind=kind, slice=in_slice, query=query)
    path = suppressions_file(suppressions, writes=True)
    write(path, entry, today=today())
    return said(f"{path}: {entry.about} is accepted until {entry.until}")


@command(live)
def replay(
    folders: Folders,
    of: options.EvidencePlace,
    *,
    control: options.Control,
    candidate: options.Candidate,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many queries, the most frequent first.")
    ] = None,
    top: options.Top = 20,
    suppressions: RegisterFile = None,
) -> Result:
    """Run diverging queries again on both arms: still diverges, fixed, or changed.

    The arms are those of engines/harness_engines/arms as they are now, over the data set's indexes. Exit code 1
    where something still diverges, in the same class or in another, and is not accepted.

    Example: harness shadow replay out/shadow --dataset python-docs --control fts5 --candidate tantivy
    """  # noqa: E501  the example on one line can be copied
    from harness.shadow.divergences import BLOCKING
    from harness.shadow.settings import read_suppressions
    from harness.shadow.stage import shadow_replay

    project = Project.here()
    found = shadow_replay(
        folders,
        of.layout(),
        control,
        candidate,
        project.cache,
        suppressions=read_suppressions(suppressions_file(suppressions)),
        today=today(),
        time_limit_s=project.params.replay.time_limit_s,
        limit=limit,
    )
    blocks = any(standing in BLOCKING for _, standing in found)
    return shown(*_replayed(found, top), code=HOLD if blocks else 0)


def _replayed(found: Sequence[tuple[Again, SuppressionStatus | None]], top: int) -> Iterator[Block]:
    from harness.report.doc import Text, table
    from harness.shadow.divergences import BLOCKING, Now

    counts = {name: sum(one.now is name for one, _ in found) for name in Now}
    of = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    yield Text(f"{counted(len(found), 'query')} diverged: {of}.")
    moved = sum(one.control_moved for one, _ in found)
    if moved:
        yield Text(
            f"On {moved:,} of them the control itself shows something else than it did: its index"
            " or its settings are not those of the live comparison."
        )
    rest = [(one, standing) for one, standing in found if one.now is not Now.FIXED]
    rest.sort(key=lambda pair: pair[1] not in BLOCKING)
    rows = [
        (one_line(one.question.latest.text, REPLAY_QUERY), one.question.times,
         str(one.question.latest.outcome), str(one.outcome), standing or "")
        for one, standing in rest[:top]
    ]  # fmt: skip
    if rows:
        yield table("", ("query", "times", "was", "is", "register"), rows)
    yield Text(f"{sum(standing in BLOCKING for _, standing in found):,} block the next step.")


@command(live)
def report(
    folders: Folders,
    *,
    to: options.ToFolder,
    top: options.Top = 20,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
) -> Result:
    """Write what a live comparison says so far: a page that loads nothing, and shadow.json.

    Example: harness shadow report out/shadow --out out/shadow-report
    """
    from harness.core.folders import SHADOW_REPORT
    from harness.shadow.stage import PAGE, shadow_report
    from harness.shadow.words import headline

    watched, accepted = bounds or Project.here().root / BOUNDS, suppressions_file(suppressions)
    own(to, SHADOW_REPORT, *folders, watched, accepted)
    found = shadow_report(
        folders,
        to,
        bounds=watched,
        suppressions=accepted,
        today=today(),
        top=top,
        commands=(f"{called()} {shlex.join(sys.argv[1:])}",),
    )
    return said(headline(found), f"The page: {to / PAGE}")


@command(live, talks=True)
def watch(
    folders: Folders,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and stop.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 2.0,
    top: options.Top = 10,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
    exit_code: Annotated[
        bool,
        typer.Option(help="With --once: exit 1 by an alarm or what is not accepted, 3 if early."),
    ] = False,
) -> Result:
    """Show what a live comparison says so far: estimates, alarms, and the queries that diverge.

    Look at it as often as you like: every interval is a confidence sequence. Where the
    output is not a terminal, it is printed once. Only what is new in the log is read at each look.

    Example: harness shadow watch out/shadow --once
    """
    from rich.live import Live

    from harness.report.doc import Printed
    from harness.shadow.stage import LogWatch

    look = LogWatch(
        folders, bounds or Project.here().root / BOUNDS, suppressions_file(suppressions)
    )
    if once or not out.is_terminal:
        found = look.now(today())
        early = CODES["inconclusive"] if found.early else 0
        code = HOLD if found.raised or found.blocking else early
        return Result(screen(found, top=top), code if exit_code else 0)
    try:
        with Live(console=out, auto_refresh=False, vertical_overflow="crop") as shows:
            while True:
                shows.update(Printed(screen(look.now(today()), top=top)), refresh=True)
                sleep(every)
    except KeyboardInterrupt:
        return said()


def screen(state: LogState, *, top: int) -> Section:
    """Show how things stand; ``top`` is the number of diverging queries shown."""
    from harness.report.doc import Section
    from harness.shadow.words import overview

    return Section("", tuple(overview(state, top, text=WATCH_QUERY, narrow=True)))


@command(live)
def traffic(
    logs: Folders,
    of: options.EvidencePlace,
    *,
    control: options.Control,
    candidate: options.Candidate,
) -> Result:
    """Add live-traffic results of two arms as evidence, for the gates of the policy that need it.

    Logs of several processes are put together. An attempt counts where the control answered by the
    index that lies here; gates named anytime_... judge what was counted, and may do so again
    after every further query. Writes perf/DATASET/traffic/, and asks no engine.

    Example: harness shadow traffic logs/today --dataset python-docs --control fts5 --candidate tantivy
    """  # noqa: E501  the example on one line can be copied
    from harness.shadow.evidence import traffic

    found = traffic(of.layout(adds=True), control, candidate, logs)
    return said(
        f"{count_of(found.attempted, 'attempt')} from {found.since} to {found.until}:"
        f" {len(found.failed)} count, {int(found.failed.sum())} of them unanswered",
        f"  {counted(len(found.asked), 'different query')}",
        *(f"  {count} {why}" for why, count in found.passed_over.items()),
    )
