"""Comparing in a process of its own (http_apart): what is handed over, and what outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep

import psutil
import pytest

from harness.core.errors import EvidenceError, HarnessError
from harness.shadow.live.comparison import Comparison
from harness.shadow.log import streams
from harness.shadow.log.record import Kind
from harness.shadow.proxy import http_apart
from harness.shadow.proxy.backlog import Backlog
from harness.shadow.proxy.http_apart import Apart
from harness.shadow.proxy.http_candidate import http_candidate
from harness.shadow.proxy.http_exchange import Exchange
from tests.make.shadow.comparisons import comparison, on_thread
from tests.make.shadow.servers import READING

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("anew")]

NOWHERE = "http://127.0.0.1:9"
ASKED = b"/search?q=apple&size=3"


def exchange(target: bytes = ASKED, error: str = "") -> Exchange:
    return Exchange("GET", target, (), status=200, whole=not error, waited_ns=1_000, error=error)


def refused() -> Comparison:
    raise HarnessError("the folder is taken")


@contextmanager
def apart(folder: Path, said: list[str]) -> Iterator[Apart]:
    opens = on_thread(partial(http_candidate, NOWHERE, READING))
    made = Apart(partial(comparison, folder, opens), NOWHERE, READING, said.append)
    made.start()
    yield made


def child() -> psutil.Process:
    return next(
        process
        for process in psutil.Process().children()
        if "spawn_main" in " ".join(process.cmdline())
    )


def test_what_is_handed_over_is_in_the_log(tmp_path: Path) -> None:
    with apart(tmp_path, []) as made:
        for _ in range(5):
            made.put(exchange(error="cut"))
        made.put(exchange(b"/elsewhere"))
        made.untaken(exchange(), "the client left")
        made.close()
    found = streams.read(tmp_path)
    assert len(found.observations) == 5
    assert ["the client left" in one.cause for one in found.degradations] == [True]


def test_signals_to_the_whole_group_lose_nothing(tmp_path: Path) -> None:
    with apart(tmp_path, []) as made:
        made.put(exchange(error="cut"))
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(child().pid, number)
        made.put(exchange(error="cut"))
        made.close()
    assert len(streams.read(tmp_path).observations) == 2


def test_a_process_that_dies_is_told_of_and_whoever_serves_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    with apart(tmp_path, said) as made:
        child().kill()
        for _ in range(100):
            made.put(exchange())
            sleep(0.001)
        with pytest.raises(EvidenceError, match=r"exit code -9\): [0-9]+ exchanges are not in"):
            made.close()
    assert said == ["nothing is compared any more, and all is served: exit code -9"]


def test_what_is_too_much_to_wait_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_apart, "Backlog", partial(Backlog, items=0))
    with apart(tmp_path, []) as made:
        for _ in range(4):
            made.put(exchange())
        made.close()
    found = streams.read(tmp_path)
    assert not found.observations
    assert {one.kind for one in found.degradations} == {Kind.NOT_TAKEN}
    assert sum(one.times for one in found.degradations) == 4


def test_large_answers_wait_in_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on their number alone let them fill the memory of the process that serves."""
    monkeypatch.setattr(http_apart, "Backlog", partial(Backlog, size=3_000_000))
    with apart(tmp_path, []) as made:
        process = psutil.Process()
        before = process.memory_info().rss
        for _ in range(300):
            large = exchange()
            large.answer += bytes(2_000_000)
            made.put(large)
        grown = process.memory_info().rss - before
        made.close()
    assert grown < 100_000_000
    assert len((found := streams.read(tmp_path)).observations) < 300
    assert found.degradations


def test_of_an_exchange_whose_client_left_nothing_is_kept() -> None:
    made = Apart(refused, NOWHERE, READING, lambda _: None)
    large = exchange()
    large.answer += bytes(1_000_000)
    made.untaken(large, "the client left")
    assert large.kept == len(ASKED), "nobody has taken it over, and it holds nothing"


def test_a_comparison_that_does_not_open_is_an_error_at_the_start() -> None:
    made = Apart(refused, NOWHERE, READING, lambda _: None)
    with pytest.raises(HarnessError, match="the folder is taken"):
        made.start()
