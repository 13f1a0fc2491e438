"""``harness shadow``: receive, run, report and take in a live comparison."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import CODES, Result, command, group, said, tell
from harness.cli.exit_codes import called
from harness.cli.project import Project, own
from harness.core.printable import counted
from harness.core.printable import many as count_of

if TYPE_CHECKING:
    from harness.core.records import Query
    from harness.shadow.comparison import ShadowLog
    from harness_engines.registry import Arm
    from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch


live = group("shadow", "Mirror queries to a candidate, and report what its log says.")
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
ReadingFile = Annotated[Path, typer.Option(help="Where queries and results are.")]
Server = Annotated[str, typer.Option(help="Address of a server; of MCP, or a command.")]
BOUNDS, REGISTER = Path("policy", "watch.toml"), Path("policy", "accepted.toml")
SETTINGS = Path("policy", "shadow.toml")


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
        typer.Option(help="File of an engine over HTTP: a candidate with another API."),
    ] = None,
    port: options.Port = 0,
    host: options.Host = options.LOCALHOST,
    per_second: Annotated[
        float, typer.Option(min=0.001, help="Most requests a second to the control.")
    ] = 50.0,
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
    from harness.shadow.http import of_arm
    from harness.shadow.receiver import ReceiverLimits, shadow_receive
    from harness.shadow.settings import read_reading

    log = log_of(to, shadow_settings, reading, candidate_reading)
    counts, dropped = shadow_receive(
        control,
        candidate,
        reading=read_reading(reading),
        translated=of_arm(candidate_reading) if candidate_reading else None,
        address=(host, port),
        asking=ReceiverLimits(per_second, repeat, client_header, log.settings.sampling),
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
    http: options.Http = None,
    host: options.Host = options.LOCALHOST,
    shadow_settings: options.ShadowSettings = None,
) -> None:
    """Proxy an MCP server, mirror its calls to a candidate server, and compare the answers.

    Speaks over standard input and output, or over HTTP with --http. A call of a tool that the
    reading names goes to the candidate too, after the client's answer; the
    candidate's is shown to no one. Tokens of servers stand in HARNESS_CONTROL_TOKEN and
    HARNESS_CANDIDATE_TOKEN.

    Example: harness shadow mcp --control http://127.0.0.1:8765/mcp --candidate
    http://127.0.0.1:8766/mcp --reading examples/shadow/mcp.toml --out out/shadow --http 8080
    """
    from harness.shadow.mcp import McpServer, shadow_mcp
    from harness.shadow.settings import read_reading

    how, log = read_reading(reading), log_of(to, shadow_settings, reading)
    servers = (
        McpServer.of(control, os.environ.get("HARNESS_CONTROL_TOKEN", "").strip()),
        McpServer.of(candidate, os.environ.get("HARNESS_CANDIDATE_TOKEN", "").strip()),
    )
    at = None if http is None else (host, http)
    shadow_mcp(*servers, how, log, at, ready=lambda url: tell(f"serving {url}"))


@command(live)
def run(
    *,
    dataset: options.Dataset,
    control: options.Control,
    candidate: options.Candidate,
    to: options.ToFolder,
    queries: Annotated[
        Path | None,
        typer.Option(
            help="Queries as JSON lines with _id and text, a recording of requests, or a log, of"
            " which what diverged is run. [those of the data set]"
        ),
    ] = None,
    reading: Annotated[
        Path | None, typer.Option(help="Where a recording of requests has their texts.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=0, help="How many; they repeat from the first. [each once]")
    ] = 0,
    shadow_settings: options.ShadowSettings = None,
) -> Result:
    """Run queries on the control, mirror them to the candidate, and write the log of both.

    With --reading, --queries is an access log, a HAR file or a recording of GoReplay, of which the
    requests that the reading names are run. With the folder of a log as --queries, what diverged is
    run again on both arms as they are now, the most frequent first, each at its own depth. The
    next query waits while the candidate has too many before it. Exit code 3 where nothing could be
    compared. Read the log with harness shadow report.

    Example: harness shadow run --dataset python-docs --control fts5 --candidate tantivy
    --out out/shadow
    """
    from harness.corpus import beir
    from harness.corpus.prepared import Prepared
    from harness.shadow import stage
    from harness.shadow.http import recorded
    from harness.shadow.settings import read_reading

    project = Project.here()
    layout = project.layout(dataset)
    log = log_of(to, shadow_settings, layout.root, layout.cache, queries, reading)
    depths: Mapping[Query, int] = {}
    if queries and reading:
        asked = tuple(recorded(queries, read_reading(reading)))
    elif queries and queries.is_dir():
        asked = tuple(depths := stage.diverging(queries))
        if not asked:
            return said(f"Nothing diverged in {queries}, so nothing is run.")
    elif queries:
        asked = tuple(beir.queries(queries))
    else:
        own_queries = Prepared.open(layout.data).queries()
        asked = stage.mixed(own_queries, log.settings.sampling.seed)
    of = stage.shadow_run(
        layout,
        (control, candidate),
        project.cache,
        log,
        asked,
        count=count or len(asked),
        k=project.params.replay.k,
        depths=depths,
    )
    shed = ", ".join(f"{number:,} ({reason})" for reason, number in of.shed.items()) or "0"
    lines = said(
        f"{counted(of.attempted, 'attempt')}; shed (not sent to the candidate, to spare the"
        f" machine): {shed}; lost: {of.lost:,}; faults of our own: {of.faults:,}.",
        f"The log: {to}",
    )
    compared = of.attempted - sum(of.shed.values()) - of.lost
    return Result(lines.doc, 0 if compared else CODES["inconclusive"])


@command(live)
def report(
    folders: Folders,
    *,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of a page with both rankings, and of shadow.json."),
    ] = None,
    top: options.Top = 10,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
    exit_code: Annotated[
        bool, typer.Option(help="Exit 1 by an alarm or what is not accepted, 3 if early.")
    ] = False,
) -> Result:
    """Report what a live comparison says so far: estimates, alarms, and the queries that diverge.

    Look at it as often as you like, also while the log grows: every interval is a confidence
    sequence. With --out it is a page too, which loads nothing.

    Example: harness shadow report out/shadow --out out/shadow-report
    """
    from harness.core.folders import SHADOW_REPORT
    from harness.report.doc import Section, Text
    from harness.shadow.page import overview
    from harness.shadow.stage import PAGE, log_state, shadow_report

    project = Project.here().root
    watched, accepted = bounds or project / BOUNDS, suppressions or project / REGISTER
    if to:
        own(to, SHADOW_REPORT, *folders, watched, accepted)
    day = datetime.now(UTC).date()
    found = log_state(folders, watched, accepted, day)
    blocks = list(overview(found, top))
    if to:
        typed = (f"{called()} {shlex.join(sys.argv[1:])}",)
        shadow_report(found, folders, to, today=day, top=top, commands=typed)
        blocks.append(Text(f"The page: {to / PAGE}"))
    early = CODES["inconclusive"] if found.early else 0
    code = CODES["fail"] if found.raised or found.blocking else early
    return Result(Section("", tuple(blocks)), code if exit_code else 0)


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
