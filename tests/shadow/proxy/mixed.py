"""A proxy that mixes the lists of two servers, and what it writes down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.shadow.clicks.log import ClickLog, Clicks, read
from harness.shadow.live.comparison import Comparison
from harness.shadow.proxy.http_control import checked, control_at
from harness.shadow.proxy.http_mixed_tunnel import MixedTunnel
from harness.shadow.proxy.http_mixing import HttpMixer
from harness.shadow.proxy.interleaved import Interleaved
from harness.shadow.proxy.reading import Reading
from harness.stages.shadow.files import read_interleaved
from tests.make.shadow.comparisons import comparison
from tests.make.shadow.servers import READING, Server, candidate, passing
from tests.shadow.wire import Speaks, wired
from tests.source import ROOT

HOW = read_interleaved(ROOT / "examples" / "shadow" / "interleaved.toml")
PATIENT = HOW.model_copy(update={"wait_ms": 20_000.0})
"""Waits longer than a busy machine takes."""


@dataclass
class Mixed:
    """A proxy that runs."""

    url: str
    comparison: Comparison
    folder: Path
    told: list[str] = field(default_factory=list)

    @property
    def clicks(self) -> Clicks:
        return read(self.folder)


@contextmanager
def mixing(
    tmp_path: Path,
    control: Speaks,
    other: Speaks | str,
    *,
    how: Interleaved = PATIENT,
    reading: Reading = READING,
    on: bool = True,
) -> Iterator[Mixed]:
    """Run a proxy before ``control`` that mixes its lists with those of ``other``."""
    folder = tmp_path / "clicks"
    folder.mkdir()
    with (
        comparison(tmp_path / "log", candidate(Server())) as made,
        wired(control) as address,
        wired(other if not isinstance(other, str) else lambda _: None) as beside,
    ):
        server = control_at(
            checked(beside if not isinstance(other, str) else other), frozenset(), 5.0
        )
        log, told = ClickLog(folder), list[str]()
        mixer = HttpMixer(reading, how, server, log, allowed=lambda: on, tell=told.append)
        tunnel = partial(MixedTunnel, mixer=mixer)
        with passing(address, made, reading, tunnel=tunnel) as url:
            yield Mixed(url, made, folder, told)
        log.close()
