"""Commands that run a live comparison: receiver, proxy, and a file of queries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import CODES, Result, command, group, said, tell
from harness.cli.options import (
    LOCALHOST,
    Candidate,
    Control,
    Dataset,
    Host,
    Http,
    Port,
    ShadowSettings,
    ToFolder,
)
from harness.cli.project import Project, own
from harness.core.errors import HarnessError
from harness.core.printable import counted

if TYPE_CHECKING:
    from engines.registry import Arm
    from engines.stacks.agent_mail.pipeline.plan import KillSwitch
    from harness.pipeline.layout import Layout
    from harness.shadow.comparison import ShadowLog
    from harness.shadow.run import Ran


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


def own_log(folder: Path, *reads: Path | None) -> None:
    """Make ``folder`` one of a log, which may be there and grow, and refuse any other."""
    from harness.core.folders import SHADOW_LOG
    from harness.shadow.log import is_log

    own(folder, SHADOW_LOG, *reads, known=is_log)


def bounds_file(given: Path | None) -> Path:
    """Find the file of bounds: the one that was named, or the project's."""
    return given or Project.here().root / BOUNDS


def settings_file(given: Path | None) -> Path:
    """Find the file of settings: the one that was named, the project's, or the program's."""
    own = Project.here().root / SETTINGS
    return given or (own if own.is_file() else Project.brought().root / SETTINGS)


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
    from engines.stacks.agent_mail.arm import Mail
    from engines.stacks.agent_mail.pipeline.plan import KillSwitch

    own = arm.engine.settings.search_engine if isinstance(arm.engine, Mail) else ""
    if given is not None or not (may_change or (switch or own) == KillSwitch.SHADOW):
        return given
    return project.place / FOLDER / arm.name


def log_of(folder: Path, settings: Path | None, layout: Layout) -> ShadowLog:
    """Make the folder one of a log, and read what the comparison may cost."""
    from harness.shadow.comparison import ShadowLog
    from harness.shadow.files import read_settings

    given = settings_file(settings)
    own_log(folder, layout.root, layout.cache, given)
    tell(f"what is served under shadow is compared in {folder}")
    return ShadowLog(folder, read_settings(given))


@command(live)
def receive(
    *,
    control: Server,
    candidate: Server,
    reading: ReadingFile,
    to: ToFolder,
    port: Port = 0,
    host: Host = LOCALHOST,
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
    shadow_settings: ShadowSettings = None,
) -> Result:
    """Receive mirrored requests, ask the control and the candidate, and compare their answers.

    Nothing of it stands in the path of users: a load balancer sends copies and ignores the answer,
    which is 204 before any work. Only requests that the reading names are sent. What it
    cannot keep up with is dropped and counted. SIGTERM and SIGINT end it in order.

    Example: harness shadow receive --control http://127.0.0.1:9200 --candidate
    http://127.0.0.1:9201 --reading examples/shadow/http.toml --out out/shadow --port 9400
    """
    from harness.shadow.files import http_reading, read_settings
    from harness.shadow.run import Receiving, shadow_receive

    how, settings_of = http_reading(reading), settings_file(shadow_settings)
    own_log(to, reading, settings_of)
    received = shadow_receive(
        Receiving(
            control, candidate, how, (host, port), per_second, workers, repeat, client_header
        ),
        to,
        read_settings(settings_of),
        lambda url: tell(f"serving {url}"),
    )
    return said(
        f"{counted(received.counts.attempted, 'attempt')}; lost: {received.counts.lost:,}",
        *(f"dropped: {count:,} ({why})" for why, count in sorted(received.dropped.items())),
        f"The log: {to}",
    )


@command(live, serves=True)
def mcp(
    *,
    control: Server,
    candidate: Server,
    reading: ReadingFile,
    to: ToFolder,
    control_token: Annotated[
        Path | None,
        typer.Option(help="File with the control's token. [HARNESS_CONTROL_TOKEN, a token]"),
    ] = None,
    candidate_token: Annotated[
        Path | None,
        typer.Option(help="File with the candidate's. [HARNESS_CANDIDATE_TOKEN, a token]"),
    ] = None,
    http: Http = None,
    host: Host = LOCALHOST,
    shadow_settings: ShadowSettings = None,
) -> None:
    """Proxy an MCP server, mirror its calls to a candidate server, and compare the answers.

    Speaks over standard input and output, or over HTTP with --http. A call of a tool that the
    reading names is made of the candidate too, when the client is answered; its
    answer is shown to no one.

    Example: harness shadow mcp --control http://127.0.0.1:8765/mcp --candidate
    http://127.0.0.1:8766/mcp --reading examples/shadow/mcp.toml --out out/shadow --http 8080
    """
    from harness.shadow.comparison import ShadowLog
    from harness.shadow.files import read_reading, read_settings
    from harness.shadow.mcp import McpServer, shadow_mcp, token_for

    settings_of = settings_file(shadow_settings)
    own_log(to, reading, settings_of)
    how, log = read_reading(reading), ShadowLog(to, read_settings(settings_of))
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
    dataset: Dataset,
    control: Control,
    candidate: Candidate,
    to: ToFolder,
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries as JSON lines with _id and text. [those of the data set]"),
    ] = None,
    titles: Annotated[
        bool, typer.Option("--titles", help="Ask the titles of the documents instead.")
    ] = False,
    count: Annotated[
        int, typer.Option(min=0, help="Number of queries; they repeat from the first. [each once]")
    ] = 0,
    rate: Annotated[
        float, typer.Option(min=0, help="Queries a second. [as fast as nothing is shed]")
    ] = 0.0,
    k: Annotated[int, typer.Option(min=0, help="Requested hits. [params.yaml]")] = 0,
    shadow_settings: ShadowSettings = None,
) -> Result:
    """Run queries on the control, mirror them to the candidate, and write the log of both.

    Without --rate the next query waits while the candidate has too many before it. Exit code 3
    where nothing could be compared. Look at the log with harness shadow watch.

    Example: harness shadow run --dataset python-docs --control fts5 --candidate tantivy
    --out out/shadow
    """
    from harness.corpus import beir
    from harness.corpus.prepared import Prepared
    from harness.shadow import run as stage
    from harness.shadow.comparison import ShadowLog
    from harness.shadow.files import read_settings

    project = Project.here()
    layout = project.layout(dataset)
    if titles and queries:
        raise HarnessError("--titles and --queries exclude each other; leave one of them out")
    settings_of = settings_file(shadow_settings)
    own_log(to, layout.root, layout.cache, queries, settings_of)
    settings = read_settings(settings_of)
    if queries:
        asked = tuple(beir.queries(queries))
    else:
        own = stage.titles(layout) if titles else Prepared.open(layout.data).queries()
        asked = stage.mixed(own, settings.sampling.seed)
    log, hits = ShadowLog(to, settings), k or project.params.replay.k
    asking = stage.Asking(asked, count or len(asked), hits, rate)
    ran = stage.shadow_run(layout, (control, candidate), project.cache, log, asking)
    return Result(said(*_ran(ran, to)).doc, 0 if _compared(ran) else CODES["inconclusive"])


def _compared(ran: Ran) -> int:
    return ran.counts.attempted - sum(ran.counts.shed.values()) - ran.counts.lost


def _ran(ran: Ran, folder: Path) -> Iterator[str]:
    import numpy as np

    counts = ran.counts
    middle, slow = np.percentile(ran.control_ns, (50, 99)) / NS_PER_MS
    shed = ", ".join(f"{number:,} ({reason})" for reason, number in counts.shed.items()) or "0"
    asked = f"{counted(counts.served, 'query')}, {ran.per_second:,.1f} a second"
    took = f"the control took {middle:.2f} ms in the median, {slow:.2f} ms at its p99"
    left = f"lost: {counts.lost:,}; faults of our own: {counts.faults:,}"
    yield f"{asked}; {took}."
    yield f"{counted(counts.attempted, 'attempt')}; shed: {shed}; {left}."
    if not ran.written:
        yield "Not all of it was written in time; what waited is skipped."
    yield f"The log: {folder}"
