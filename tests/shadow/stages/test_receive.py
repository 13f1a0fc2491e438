"""Receiving until a stop (stages.shadow.receive, core.serving.listening): what it ends with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.shadow import run
from harness.shadow.files import read_settings
from harness.shadow.receiver import Mirrored, Receiver
from harness.shadow.run import Receiving, shadow_receive
from tests.make.shadow.servers import READING, Server, listening
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


def received(folder: Path, monkeypatch: pytest.MonkeyPatch, *, loses: bool) -> run.Received:
    def ready(_: str) -> None:
        if loses:
            shutil.rmtree(folder)

    monkeypatch.setattr(run, "server", Stopped)
    with listening(Server()) as control, listening(Server()) as candidate:
        how = Receiving(control, candidate, READING, ("127.0.0.1", 0), 50, 1, 0.0, "x-real-ip")
        return shadow_receive(how, folder, SETTINGS, ready)


def test_what_was_compared_and_dropped_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = received(tmp_path / "log", monkeypatch, loses=False)
    assert (found.counts.attempted, found.counts.lost) == (1, 0)
    assert found.dropped == {"not a search": 1}


def test_a_log_that_vanishes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="1 observation lost"):
        received(tmp_path / "log", monkeypatch, loses=True)
