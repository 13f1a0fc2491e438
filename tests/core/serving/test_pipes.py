"""``serving.pipes``: a server over standard streams is ended at once, and answers to the end."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Any

import anyio
import pytest

from harness.core import mcp_pipes
from harness.core.errors import HarnessError
from harness.core.mcp_pipes import MAX_MESSAGE_BYTES, MAX_UNANSWERED, Input, Output
from harness.core.server import ENDING
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


def test_a_socket_that_is_reset_is_a_reader_that_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        ours = socket.create_connection(listens.getsockname())
        theirs, _ = listens.accept()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ours.close()

    async def run() -> None:
        output = Output(theirs.fileno())
        assert [line async for line in Input(theirs.fileno(), output, 100)] == []
        with pytest.raises(HarnessError, match="the reader of the output is gone"):
            await output.write("{}")

    with theirs:
        anyio.run(run)


def test_a_terminal_that_is_gone_is_a_reader_that_is_gone() -> None:
    leader, follower = pty.openpty()
    os.close(leader)

    async def run() -> None:
        output = Output(follower)
        assert [line async for line in Input(follower, output, 100)] == []
        with pytest.raises(HarnessError, match="the reader of the output is gone"):
            await output.write("{}")

    anyio.run(run)
    os.close(follower)


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


class Streams:
    """The two ends of an input and of an output."""

    def __init__(self) -> None:
        reads, self.asks = os.pipe()
        self.answers, writes = os.pipe()
        self.numbers = [reads, self.asks, self.answers, writes]
        self.output = Output(writes)
        self.input = Input(reads, self.output, MAX_MESSAGE_BYTES)

    def ask(self, *lines: str) -> None:
        os.write(self.asks, "".join(f"{line}\n" for line in lines).encode())
        self.numbers.remove(self.asks)
        os.close(self.asks)

    async def taken(self) -> list[str]:
        return [line async for line in self.input]

    def close(self) -> None:
        for number in self.numbers:
            os.close(number)


@pytest.fixture
def streams() -> Iterator[Streams]:
    made = Streams()
    yield made
    made.close()


def calling_off(given: object, **more: object) -> str:
    params = {"requestId": given, **more}
    return json.dumps({"jsonrpc": "2.0", "method": mcp_pipes.CANCELLED, "params": params})


@pytest.mark.parametrize(
    ("asked", "called_off"), [(1, 1), ("one", "one"), (1, "1"), ("1", 1), (1, " +01")]
)
def test_a_request_that_is_called_off_is_not_waited_for(
    streams: Streams, asked: int | str, called_off: int | str
) -> None:
    lines = [ping(asked), calling_off(called_off, reason="late")]
    streams.ask(*lines)

    async def run() -> None:
        with anyio.fail_after(BOUNDED_S):
            assert await streams.taken() == lines

    anyio.run(run)


@pytest.mark.parametrize(
    "line",
    [
        *map(calling_off, (2, "one", None, [], True, 1.0)),
        calling_off(1, reason=5),
        json.dumps({"jsonrpc": "2.0", "method": mcp_pipes.CANCELLED}),
    ],
)
def test_what_calls_off_no_request_is_dropped_and_the_request_waited_for(
    streams: Streams, line: str
) -> None:
    streams.ask(ping(1), line)

    async def run() -> None:
        taken = aiter(streams.input)
        assert await anext(taken) == ping(1)
        with pytest.raises(TimeoutError), anyio.fail_after(SOON_S):
            await anext(taken)

    anyio.run(run)


@pytest.mark.parametrize(("first", "again"), [(1, 1), ("one", "one"), (1, "1")])
def test_an_id_belongs_to_one_request_until_it_is_answered(
    streams: Streams, first: int | str, again: int | str
) -> None:
    streams.ask(ping(first), ping(again), ping("other"), ping(first))

    async def run() -> None:
        with anyio.fail_after(BOUNDED_S):
            taken = aiter(streams.input)
            assert await anext(taken) == ping(first)
            assert await anext(taken) == ping("other")
            refused = json.loads(os.read(streams.answers, 4_096))
            await streams.output.write(json.dumps({"id": first, "result": {}}))
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)

    anyio.run(run)


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":1,"method":5,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"method":null,"error":{"code":1,"message":"x"}}',
        '{"jsonrpc":"2.0","id":null,"method":"ping","error":{"code":1,"message":"x"}}',
    ],
)
def test_what_the_sdk_takes_for_an_answer_is_waited_for_by_nobody(
    streams: Streams, line: str
) -> None:
    """It was taken for a request by its keys, and a server with one of them never ended."""
    streams.ask(line)

    async def run() -> None:
        with anyio.fail_after(BOUNDED_S):
            assert await streams.taken() == [line]

    anyio.run(run)


def test_a_malformed_line_does_not_answer_the_request_whose_id_it_bears(streams: Streams) -> None:
    streams.ask(ping(4), '{"jsonrpc":"1.0","id":4,"method":"ping"}')

    async def run() -> None:
        taken = aiter(streams.input)
        assert await anext(taken) == ping(4)
        with pytest.raises(TimeoutError), anyio.fail_after(SOON_S):
            await anext(taken)
        refused = json.loads(os.read(streams.answers, 4_096))
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert streams.output.awaits(4)

    anyio.run(run)


def test_a_stream_that_the_system_refuses_is_told_from_what_a_server_meets() -> None:
    async def run() -> None:
        number = os.open(os.devnull, os.O_WRONLY)
        with pytest.raises(mcp_pipes.StreamFailed) as told:
            [line async for line in Input(number, Output(number), 100)]
        os.close(number)
        assert told.value.errno == errno.EBADF

    anyio.run(run)


def test_no_more_is_read_than_is_answered(streams: Streams) -> None:
    streams.ask(*map(ping, range(MAX_UNANSWERED + 1)))

    async def run() -> None:
        taken = aiter(streams.input)
        for given in range(MAX_UNANSWERED):
            assert await anext(taken) == ping(given)
        with pytest.raises(TimeoutError), anyio.fail_after(SOON_S):
            await streams.output.fewer_than(MAX_UNANSWERED)
        await streams.output.write(json.dumps({"id": 0, "result": {}}))
        with anyio.fail_after(BOUNDED_S):
            assert await anext(taken) == ping(MAX_UNANSWERED)

    anyio.run(run)


def test_an_answer_longer_than_a_pipe_holds_up_nothing_else(streams: Streams) -> None:
    text = json.dumps({"id": 1, "result": "a" * 1_000_000})
    read = bytearray()

    async def reader() -> None:
        while len(read) < len(text):
            await anyio.wait_readable(streams.answers)
            read.extend(os.read(streams.answers, 4_096))

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(streams.output.write, text)
            group.start_soon(reader)

    anyio.run(both)
    assert read.decode() == text
