"""A live comparison of two HTTP servers on mirrored requests, beside the path of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.printable import many
from harness.core.serving.listening import CONNECTIONS, bound, server
from harness.core.serving.signals import run_until_signalled
from harness.shadow.live.comparison import Counts
from harness.shadow.live.sampler import MILLION, Sampler
from harness.shadow.live.settings import Settings, ShadowLog
from harness.shadow.log.between import Between
from harness.shadow.servers.http_searcher import check_address, http_candidate, http_searcher
from harness.shadow.servers.reading import Reading
from harness.shadow.servers.receiver import Asking, Receiver

DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Receiving:
    """What is received, and the servers that are compared."""

    control: str
    candidate: str
    reading: Reading
    address: tuple[str, int]
    per_second: float
    workers: int
    repeat: float
    """Share of the requests that the control gets a second time."""
    client_header: str


@dataclass(frozen=True, slots=True)
class Received:
    """How many requests were compared and dropped."""

    counts: Counts
    dropped: Mapping[str, int]
    """Requests that nothing asked about, by reason."""


def shadow_receive(
    how: Receiving, folder: Path, settings: Settings, ready: Callable[[str], object]
) -> Received:
    """Receive mirrored requests until a signal comes; ``ready`` gets the address.

    Raises:
        HarnessError: an address is not one of a server, the port is taken, or the log was lost.
        EvidenceError: another process writes a log to the folder.
        BadFile: the folder cannot be written to.
    """
    for address in (how.control, how.candidate):
        check_address(address)
    sampling = settings.sampling
    whole = sampling.model_copy(update={"rate": MILLION})
    log = ShadowLog(folder, settings.model_copy(update={"sampling": whole}))
    asking = Asking(
        how.workers,
        how.per_second,
        Sampler(rate=sampling.rate, seed=sampling.seed),
        Sampler(rate=round(how.repeat * MILLION), seed=sampling.seed),
        how.client_header.lower(),
    )
    opens = partial(http_candidate, how.candidate, how.reading)
    with (
        bound(*how.address) as (listening, url),
        http_searcher(how.control, how.reading) as control,
        log.compared(opens, between=Between(how.control, how.candidate), process=True) as made,
    ):
        receiver = Receiver(how.reading, control, made, asking)

        async def run() -> None:
            await server(receiver, CONNECTIONS).serve(sockets=[listening])

        ready(url)
        try:
            run_until_signalled(run)
        except KeyboardInterrupt:
            pass
        finally:
            receiver.close()
            made.drain(DRAIN_S)
    if made.counts.lost:
        raise HarnessError(
            f"{many(made.counts.lost, 'observation')} lost: {folder} cannot be written."
            " Free the space or the rights, and start again"
        )
    return Received(made.counts, receiver.dropped)
