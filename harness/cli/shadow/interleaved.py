"""Options of a proxy that mixes lists, and what mixes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, NamedTuple, TypeVar

import typer

from harness.cli.base.places import own
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.shadow.clicks.log import ClickLog
    from harness.shadow.proxy.http_tunnel import Tunnel
    from harness.shadow.proxy.interleaved import InterleavedLists
    from harness.shadow.proxy.mcp_control import McpControl
    from harness.shadow.proxy.mcp_mixing import McpMixer
    from harness.shadow.proxy.reading import Reading
    from harness.stages.migrate.interleave import Switch

InterleavedFile = Annotated[
    Path | None, typer.Option(help="How lists are mixed; needs --clicks. [no list is mixed]")
]
ClicksFolder = Annotated[
    Path | None, typer.Option(help="Folder for the log of mixed lists and clicks; may grow.")
]
LedgerFolder = Annotated[
    Path | None, typer.Option(help="Folder of the ledger that allows it. [migration]")
]
LEDGER = Path("migration")
How = TypeVar("How", bound="InterleavedLists")


class Given(NamedTuple):
    """The options."""

    interleaved: Path | None
    clicks: Path | None
    ledger: Path | None


class Opened(NamedTuple, Generic[How]):
    """What the options name."""

    how: How
    log: ClickLog
    allowed: Switch


@contextmanager
def opened(
    given: Given, reading: Path, reads: Callable[[Path], How], tell: Callable[[str], object]
) -> Iterator[Opened[How] | None]:
    """Open what the options name, and tell what the ledger allows; None where there are none.

    Raises:
        HarnessError: of the two options one is missing, or a folder is wrong.
        BadPolicy: the file is wrong.
    """
    from harness.core.errors import HarnessError

    interleaved, clicks, ledger = given
    if interleaved is None or clicks is None:
        if any(given):
            raise HarnessError("--interleaved and --clicks go together, --ledger needs both")
        yield None
        return

    from harness.core.durable.owned import CLICKS
    from harness.shadow.clicks.log import ClickLog
    from harness.stages.migrate.interleave import Switch

    how, folder = reads(interleaved), ledger or Project.here().root / LEDGER
    own(clicks, CLICKS, interleaved, reading, folder)
    switch, log = Switch(folder, how.arms), ClickLog(clicks)
    arms = ",".join(how.arms)
    allows = "allows" if switch() else "does not allow"
    tell(f"the ledger in {folder} {allows} mixed lists: harness migrate interleave --arms {arms}")
    try:
        yield Opened(how, log, switch)
    finally:
        log.close()


@contextmanager
def tunnels(
    given: Given,
    reading: tuple[Path, Reading],
    candidate: str,
    tell: Callable[[str], object],
) -> Iterator[Callable[..., Tunnel]]:
    """Give what makes a tunnel: one that mixes lists where a file says how, else a plain one.

    Raises:
        HarnessError: as ``opened``, or the address is wrong.
        BadPolicy: as ``opened``, or the reading cannot say where a list is put back.
    """
    from functools import partial

    from harness.core.errors import BadPolicy
    from harness.shadow.proxy.http_control import checked, control_at
    from harness.shadow.proxy.http_mixed_tunnel import MixedTunnel
    from harness.shadow.proxy.http_mixing import HttpMixer
    from harness.shadow.proxy.http_tunnel import Tunnel
    from harness.shadow.proxy.reading import Reading
    from harness.stages.shadow.files import read_interleaved

    file, how = reading
    if given.interleaved and given.clicks and type(how) is not Reading:
        raise BadPolicy(
            file,
            "says how the answers of an engine are read, and not where a mixed list is put back",
            "Write a file as examples/shadow/http.toml",
        )
    with opened(given, file, read_interleaved, tell) as found:
        if found is None:
            yield Tunnel
            return
        server = control_at(checked(candidate), frozenset(), how.bounds.timeout_s)
        mixed, log, switch = found
        mixer = HttpMixer(how, mixed, server, log, allowed=switch, tell=tell)
        yield partial(MixedTunnel, mixer=mixer)


@contextmanager
def mixers(
    given: Given, reading: tuple[Path, Reading], tell: Callable[[str], object]
) -> Iterator[Callable[[McpControl], McpMixer] | None]:
    """Give what mixes the lists of a candidate over MCP; None where no file says how.

    Raises:
        HarnessError, BadPolicy: as ``opened``.
    """
    from functools import partial

    from harness.shadow.proxy.mcp_mixing import McpMixer
    from harness.stages.shadow.files import read_interleaved_calls

    file, how = reading
    with opened(given, file, read_interleaved_calls, tell) as found:
        if found is None:
            yield None
            return
        mixed, log, switch = found
        yield partial(McpMixer, reading=how, how=mixed, log=log, allowed=switch, tell=tell)
