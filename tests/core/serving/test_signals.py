"""``serving.signals``: a signal calls a server off in its own time, and not in a task's middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from threading import Thread

import anyio
import pytest
from anyio.lowlevel import checkpoint

from harness.core.errors import HarnessError
from harness.core.server import ENDING, run_until_signalled


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Give signals back, which a server that was called off keeps.

    A suite that was started beside a shell, or under ``nohup``, is deaf to them.
    """
    before = {one: signal.signal(one, signal.default_int_handler) for one in ENDING}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


async def broken() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(checkpoint)
        raise OSError("the disk is gone")


def test_the_first_failure_is_raised_and_signals_are_given_back() -> None:
    before = [signal.getsignal(one) for one in ENDING]
    with pytest.raises(OSError, match="the disk is gone"):
        run_until_signalled(broken)
    assert [signal.getsignal(one) for one in ENDING] == before


def test_a_failure_that_came_alone_is_its_own_cause_of_nothing() -> None:
    """It was raised as its own cause, and whoever followed its causes did so for ever."""

    async def alone() -> None:
        await checkpoint()
        raise OSError("the disk is gone")

    def at_once() -> None:
        raise ValueError("too many open files")

    with pytest.raises(OSError, match="gone") as told:
        run_until_signalled(alone)
    assert told.value.__cause__ is not told.value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio, "run", lambda *_: at_once())
        with pytest.raises(ValueError, match="too many") as said:
            run_until_signalled(alone)
    assert said.value.__cause__ is None


def test_an_exit_of_what_serves_is_no_verdict() -> None:
    async def leaves() -> None:
        await checkpoint()
        raise SystemExit(1)

    with pytest.raises(HarnessError, match=r"called exit\(1\)"):
        run_until_signalled(leaves)


def test_in_a_thread_there_are_no_signals() -> None:
    ended: list[bool] = []

    async def serve() -> None:
        ended.append(True)

    thread = Thread(target=run_until_signalled, args=(serve,))
    thread.start()
    thread.join()
    assert ended == [True]


@pytest.mark.parametrize("sent", ENDING)
def test_what_breaks_while_it_is_called_off_does_not_hide_the_signal(sent: signal.Signals) -> None:
    cleared: list[bool] = []

    async def serve() -> None:
        os.kill(os.getpid(), sent)
        try:
            await anyio.sleep_forever()
        finally:
            os.kill(os.getpid(), sent)
            with anyio.CancelScope(shield=True):
                await checkpoint()
            cleared.append(True)
            await broken()

    with pytest.raises(KeyboardInterrupt):
        run_until_signalled(serve)
    assert cleared == [True]


def test_a_signal_that_was_made_deaf_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def serve() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await checkpoint()

    run_until_signalled(serve)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
