"""Options of a proxy that mixes lists, and the tunnels that do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from harness.cli.base.places import own
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.shadow.proxy.http_tunnel import Tunnel
    from harness.shadow.proxy.reading import Reading

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


class Given(NamedTuple):
    """The options."""

    interleaved: Path | None
    clicks: Path | None
    ledger: Path | None


@contextmanager
def tunnels(
    given: Given,
    reading: tuple[Path, Reading],
    candidate: str,
    tell: Callable[[str], object],
) -> Iterator[Callable[..., Tunnel]]:
    """Give what makes a tunnel: one that mixes lists where a file says how, else a plain one.

    Raises:
        HarnessError: of the two options one is missing, or a folder or an address is wrong.
        BadPolicy: the file is wrong, or the reading cannot say where a list is put back.
    """
    from functools import partial

    from harness.core.errors import BadPolicy, HarnessError
    from harness.shadow.proxy.http_tunnel import Tunnel

    interleaved, clicks, ledger = given
    if interleaved is None or clicks is None:
        if any(given):
            raise HarnessError("--interleaved and --clicks go together, --ledger needs both")
        yield Tunnel
        return

    from harness.core.durable.owned import CLICKS
    from harness.shadow.clicks.log import ClickLog
    from harness.shadow.proxy.http_control import checked, control_at
    from harness.shadow.proxy.http_mixed_tunnel import MixedTunnel
    from harness.shadow.proxy.http_mixing import HttpMixer
    from harness.shadow.proxy.reading import Reading
    from harness.stages.migrate.interleave import Switch
    from harness.stages.shadow.files import read_interleaved

    file, how = reading
    if type(how) is not Reading:
        raise BadPolicy(
            file,
            "says how the answers of an engine are read, and not where a mixed list is put back",
            "Write a file as examples/shadow/http.toml",
        )
    mixed, folder = read_interleaved(interleaved), ledger or Project.here().root / LEDGER
    own(clicks, CLICKS, interleaved, file, folder)
    server = control_at(checked(candidate), frozenset(), how.bounds.timeout_s)
    switch = Switch(folder, mixed.arms)
    mixer = HttpMixer(how, mixed, server, ClickLog(clicks), allowed=switch, tell=tell)
    arms = ",".join(mixed.arms)
    allows = "allows" if switch() else "does not allow"
    tell(f"the ledger in {folder} {allows} mixed lists: harness migrate interleave --arms {arms}")
    try:
        yield partial(MixedTunnel, mixer=mixer)
    finally:
        mixer.close()
