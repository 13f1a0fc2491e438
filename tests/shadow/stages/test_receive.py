"""Receiving until a stop (stages.shadow.receive, core.serving.listening): what it ends with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.shadow import receiver
from harness.shadow.comparison import Counts, ShadowLog
from harness.shadow.files import read_settings
from harness.shadow.receiver import Mirrored, Receiver, shadow_receive
from tests.make.shadow.servers import ALL, READING, Server, listening
from tests.source import ROOT

SETTINGS = read_settings(ROOT / "policy" / "shadow.toml")


class Stopped:
    """Takes two requests, and stops."""

    def __init__(self, receiver: Receiver, _: int) -> None:
        self.receiver = receiver

    def run(self, sockets: object) -> None:
        del sockets
        for method in ("GET", "DELETE"):
            self.receiver.take(Mirrored(method, "/search?q=apple", {}, b""))


def received(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, loses: bool
) -> tuple[Counts, Mapping[str, int]]:
    def ready(_: str) -> None:
        if loses:
            shutil.rmtree(folder)

    monkeypatch.setattr(receiver, "server", Stopped)
    with listening(Server()) as control, listening(Server()) as candidate:
        return shadow_receive(
            control,
            candidate,
            readings=(READING, READING),
            address=("127.0.0.1", 0),
            asking=ALL,
            log=ShadowLog(folder, SETTINGS),
            ready=ready,
        )


def test_what_was_compared_and_dropped_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, dropped = received(tmp_path / "log", monkeypatch, loses=False)
    assert (counts.attempted, counts.lost) == (1, 0)
    assert dropped == {"not a search": 1}


def test_a_log_that_vanishes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="1 observation lost"):
        received(tmp_path / "log", monkeypatch, loses=True)
