"""``core.stdio``: a server over standard streams is ended at once, and answers to the end."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from harness.core.errors import HarnessError
from harness.core.mcp_pipes import (
    CANCELLED,
    ENDING,
    MAX_MESSAGE_BYTES,
    MAX_UNANSWERED,
    Streams,
    run_until_signalled,
)
from tests.programs import PYTHON, Program

BOUNDED_S = 60
SOON_S = 0.2
HELLO = json.dumps({
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
})


def ping(given: int | str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": given, "method": "ping"})


def call(given: int | str) -> str:
    params = {"name": "search_code", "arguments": {"query": "tide " * 2_000}}
    return json.dumps({"jsonrpc": "2.0", "id": given, "method": "tools/call", "params": params})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tide.py").write_text("def tide() -> int:\n    return 1\n")
    return tmp_path


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Hear signals, to which a suite that was started beside a shell is deaf."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in ENDING}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Program]]:
    with ExitStack() as until_ended:

        def started(**given: IO[str] | int) -> Program:
            streams: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, **given}
            server = Program([*PYTHON, "code", "serve", "mine"], cwd=folder, **streams)
            until_ended.enter_context(server)
            until_ended.callback(server.kill)
            return server

        yield started


def greeted(server: Program) -> Program:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{HELLO}\n")
    server.stdin.flush()
    about = json.loads(server.stdout.readline())["result"]["serverInfo"]
    assert about["name"] == "folder-search_code"
    assert about["version"]
    return server


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_while_the_input_is_open(
    start: Callable[..., Program], sent: signal.Signals
) -> None:
    server = greeted(start())
    server.send_signal(sent)
    assert server.wait(BOUNDED_S) == 130
    assert server.stderr is not None
    assert server.stderr.read() == "interrupted; run the same command again to go on\n"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_more_signals_change_nothing(start: Callable[..., Program], sent: signal.Signals) -> None:
    server = greeted(start())
    assert server.stdin is not None
    assert server.stderr is not None
    server.stdin.writelines(f"{line}\n" for line in map(call, range(1, 20)))
    server.stdin.flush()
    while server.poll() is None:
        server.send_signal(sent)
        time.sleep(0.01)
    assert server.wait() == 130
    assert server.stderr.read() == "interrupted; run the same command again to go on\n"


def test_signals_that_came_while_it_was_stopped_are_one(start: Callable[..., Program]) -> None:
    server = greeted(start())
    assert server.stderr is not None
    for one in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
        server.send_signal(one)
    assert server.wait(BOUNDED_S) == 130
    assert server.stderr.read() == "interrupted; run the same command again to go on\n"


def test_an_input_that_cannot_be_read_is_told_with_its_cure(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    with (tmp_path / "asked").open("w") as writes:
        server = start(stdin=writes)
        assert server.wait(BOUNDED_S) == 2
    assert server.stderr is not None
    assert server.stderr.read() == (
        "error: the input is open for writing alone. Open it for reading, as by < FILE\n"
    )


def test_a_reader_that_is_gone_is_named(start: Callable[..., Program]) -> None:
    server = greeted(start())
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stderr is not None
    server.stdout.close()
    server.stdin.write(f"{ping(1)}\n")
    server.stdin.flush()
    assert server.wait(BOUNDED_S) == 2
    assert server.stderr.read() == "error: the reader of the output is gone\n"


def test_what_was_asked_before_the_input_ended_is_answered(start: Callable[..., Program]) -> None:
    many = 2 * MAX_UNANSWERED
    lines = [HELLO, call("call"), *map(ping, range(1, many)), "[]", f'"{"a" * 300_000}"']
    said, errors = start().communicate("\n".join(lines), timeout=BOUNDED_S)
    answers = [json.loads(line) for line in said.splitlines()]
    by_id = {one["id"]: one for one in answers if "result" in one}
    assert by_id.keys() == {"call", *range(many)}
    assert "tide.py" in json.dumps(by_id["call"])
    refused = [one for one in answers if "error" in one]
    assert [(one["id"], one["error"]["code"]) for one in refused] == [(None, -32600)] * 2
    assert errors == ""


def test_files_and_devices_are_taken_for_pipes(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    asked, said = tmp_path / "asked", tmp_path / "said"
    asked.write_text(f"{HELLO}\n{ping(1)}\n")
    with asked.open() as reads, said.open("w") as writes:
        assert start(stdin=reads, stdout=writes).wait(BOUNDED_S) == 0
    assert [json.loads(line)["id"] for line in said.read_text().splitlines()] == [0, 1]
    assert start(stdin=DEVNULL).wait(BOUNDED_S) == 0


@pytest.fixture
def ends() -> Iterator[tuple[Streams, int, int]]:
    """Return streams, and the other ends of their input and output."""
    (reads, asks), (answers, writes) = os.pipe(), os.pipe()
    yield Streams(reads, writes, MAX_MESSAGE_BYTES), asks, answers
    for number in (reads, asks, answers, writes):
        os.close(number)


def test_a_request_that_is_called_off_is_not_waited_for(ends: tuple[Streams, int, int]) -> None:
    streams, asks, _ = ends
    params = {"requestId": "1"}
    called_off = json.dumps({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
    os.write(asks, f"{ping(1)}\n{called_off}\n{ping(2)}\n".encode())

    async def run() -> None:
        taken = aiter(streams)
        with anyio.fail_after(BOUNDED_S):
            assert [await anext(taken) for _ in range(3)] == [ping(1), called_off, ping(2)]
            await streams.write(json.dumps({"id": 2, "result": {}}))
            await streams.fewer_than(1)

    anyio.run(run)


def test_no_more_is_read_than_is_answered(ends: tuple[Streams, int, int]) -> None:
    streams, asks, _ = ends
    os.write(asks, "".join(f"{ping(one)}\n" for one in range(MAX_UNANSWERED + 1)).encode())

    async def run() -> None:
        taken = aiter(streams)
        for given in range(MAX_UNANSWERED):
            assert await anext(taken) == ping(given)
        with pytest.raises(TimeoutError), anyio.fail_after(SOON_S):
            await streams.fewer_than(MAX_UNANSWERED)
        await streams.write(json.dumps({"id": 0, "result": {}}))
        with anyio.fail_after(BOUNDED_S):
            assert await anext(taken) == ping(MAX_UNANSWERED)

    anyio.run(run)


def test_an_answer_longer_than_a_pipe_holds_up_nothing_else(
    ends: tuple[Streams, int, int],
) -> None:
    streams, _, answers = ends
    text = json.dumps({"id": 1, "result": "a" * 1_000_000})
    read = bytearray()

    async def reader() -> None:
        while len(read) < len(text):
            await anyio.wait_readable(answers)
            read.extend(os.read(answers, 4_096))

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(streams.write, text)
            group.start_soon(reader)

    anyio.run(both)
    assert read.decode() == text


def test_of_a_line_without_end_little_is_kept(ends: tuple[Streams, int, int]) -> None:
    streams, asks, answers = ends
    piece = b"a" * 65_536

    async def run() -> None:
        async with anyio.create_task_group() as group:
            taken = aiter(streams)
            group.start_soon(anyio.to_thread.run_sync, sent)
            assert await anext(taken) == ping(1)
        assert json.loads(os.read(answers, 4_096))["error"]["code"] == -32600

    def sent() -> None:
        for _ in range(400):
            os.write(asks, piece)
        os.write(asks, f"\n{ping(1)}\n".encode())

    tracemalloc.start()
    anyio.run(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MAX_MESSAGE_BYTES


def test_a_socket_that_is_reset_is_a_reader_that_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        ours = socket.create_connection(listens.getsockname())
        theirs, _ = listens.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()

    async def run() -> None:
        streams = Streams(ours.fileno(), ours.fileno(), 100)
        assert [line async for line in streams] == []
        with pytest.raises(HarnessError, match="the reader of the output is gone"):
            await streams.write("{}")

    anyio.run(run)
    ours.close()


def test_the_first_failure_is_raised_and_signals_are_given_back() -> None:
    async def broken() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(checkpoint)
            raise OSError("the disk is gone")

    before = [signal.getsignal(one) for one in ENDING]
    with pytest.raises(OSError, match="the disk is gone") as told:
        run_until_signalled(broken)
    assert told.value.__cause__ is None
    assert [signal.getsignal(one) for one in ENDING] == before


@pytest.mark.parametrize("sent", ENDING)
def test_what_breaks_while_it_is_called_off_does_not_hide_the_signal(sent: signal.Signals) -> None:
    async def breaking() -> None:
        os.kill(os.getpid(), sent)
        try:
            await anyio.sleep_forever()
        finally:
            raise OSError("the disk is gone")

    with pytest.raises(KeyboardInterrupt):
        run_until_signalled(breaking)


LONG = b'"params":{"id":7,"x":"' + b"a" * MAX_MESSAGE_BYTES + b'"}'


@pytest.mark.parametrize(
    ("begun", "ended", "known"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"ping",', b"}", 5),
        (b'{ "method": "ping", "id" : "b",', b"}", "b"),
        (b'{"method":"tools/call",', b',"jsonrpc":"2.0","id":9}', 9),
        (b'{"method":"tools/call",', b',"id" : "z", "jsonrpc":"2.0"} ', "z"),
        (b'{"jsonrpc":"2.0","id":1.5,', b"}", None),
        (b"{", b',"x":{"id":3}}', None),
        (b"{", b"}", None),
    ],
)
def test_a_request_that_is_too_long_gets_its_id_back(
    tmp_path: Path, begun: bytes, ended: bytes, known: object
) -> None:
    (tmp_path / "in").write_bytes(begun + LONG + ended + b"\n")

    async def answered() -> list[str]:
        with (tmp_path / "in").open("rb") as reads, (tmp_path / "out").open("wb") as writes:
            streams = Streams(reads.fileno(), writes.fileno(), MAX_MESSAGE_BYTES)
            return [line async for line in streams]

    assert anyio.run(answered) == []
    assert json.loads((tmp_path / "out").read_text())["id"] == known
