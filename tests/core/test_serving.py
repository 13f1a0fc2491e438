"""Serving over HTTP and over standard input and output."""

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from time import monotonic
from typing import IO
from unittest import mock

import anyio
import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.core import mcp_pipes
from harness.core import server as connections
from harness.core.mcp_pipes import MAX_MESSAGE_BYTES, MAX_UNANSWERED, Streams, run_until_signalled
from harness.core.server import AT_ONCE, Admission, server, token_of
from tests.programs import PYTHON, Program

LONG_S = 30
OK = b"HTTP/1.1 200 "
REQUEST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer once the body is there."""
    await Request(scope, receive).body()
    await PlainTextResponse("ok")(scope, receive, send)


def served(app: ASGIApp, most: int = 4) -> uvicorn.Server:
    made = server(app, most)
    made.config.lifespan = "off"
    return made


@pytest.fixture
def port() -> Iterator[int]:
    with serving(served(echo)) as found:
        yield found


@contextmanager
def serving(server: uvicorn.Server) -> Iterator[int]:
    """Serve on a free port, and stop afterwards."""
    with connections.bound("127.0.0.1", 0) as (opened, url):
        thread = Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield int(url.rpartition(":")[2])
        finally:
            server.should_exit = True
            thread.join(LONG_S)


@contextmanager
def connected(port: int, said: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=LONG_S) as one:
        one.sendall(said)
        yield one


def answered(one: socket.socket, rest: bytes = REQUEST) -> bytes:
    one.sendall(rest)
    said = b""
    while not said.endswith(b"ok") and (more := one.recv(1_000)):
        said += more
    return said


def test_silent_connections_give_their_place_to_one_that_asks(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_S", 0.0)
    monkeypatch.setattr(connections, "REQUEST_S", 2 * LONG_S)
    with ExitStack() as until_closed:
        known = until_closed.enter_context(connected(port))
        assert answered(known).startswith(OK)
        silent = [
            until_closed.enter_context(connected(port, said))
            for said in (b"", b"POST / HTTP/1.1\r\nHo", b"G", b"") * 5
        ]
        for _ in range(3):
            with connected(port) as one:
                assert answered(one).startswith(OK)
        assert silent[0].recv(1) == known.recv(1) == b""


@pytest.mark.parametrize("said", [b"", b"POST / HTTP/1.1\r\nHo", REQUEST[:-2]])
def test_a_request_that_never_comes_whole_is_not_waited_for(port: int, said: bytes) -> None:
    with mock.patch.object(connections, "REQUEST_S", 0.05), connected(port, said) as one:
        assert one.recv(1_000) == b""


def test_the_second_request_of_a_connection_has_no_more_time_than_the_first(port: int) -> None:
    """A half request that followed a whole one was waited for without an end."""
    with mock.patch.object(connections, "REQUEST_S", 0.2), connected(port) as one:
        assert answered(one).startswith(OK)
        one.sendall(REQUEST[:-2])
        assert one.recv(1_000) == b""


def test_an_answer_may_take_longer_than_a_request() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.sleep(0.4)
        await echo(scope, receive, send)

    quick = mock.patch.object(connections, "REQUEST_S", 0.05)
    with quick, serving(served(slow)) as port, connected(port) as one:
        assert answered(one).startswith(OK)


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: here\r\nX:" + b" " * 60_000 + b"\0\r\n\r\n",
    b"GET /" + b"a" * 2_000_000,
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 20_000,
]
WAIT_S = 0.5
"""Far more than an answer takes, and far less than one such head took: 60 KB of blanks 14 s."""


@pytest.mark.slow
@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_head_holds_up_no_other_client(said: bytes) -> None:
    def attack(port: int) -> None:
        with suppress(OSError), connected(port, said) as one:
            one.recv(1)

    with serving(served(echo, 64)) as port, connected(port) as known:
        assert answered(known).startswith(OK)
        attackers = [Thread(target=attack, args=(port,)) for _ in range(4)]
        for one in attackers:
            one.start()
        longest = 0.0
        for _ in range(40):
            began = monotonic()
            assert answered(known).startswith(OK)
            longest = max(longest, monotonic() - began)
        for one in attackers:
            one.join(LONG_S)
        assert longest < WAIT_S


def test_a_client_with_many_requests_keeps_no_other_waiting() -> None:
    """A client is an address with a token; the other requests of it wait for their turn."""
    inside: Counter[str] = Counter()

    async def run() -> None:
        go = anyio.Event()

        async def app(scope: Scope, _: Receive, __: Send) -> None:
            inside[scope["path"]] += 1
            if scope["path"] == "slow":
                await go.wait()

        turns = Admission(app, None, lambda _: True)

        async def call(path: str, host: str, token: str = "") -> None:
            asked = {
                "type": "http", "method": "POST", "path": path, "client": (host, 1),
                "query_string": f"token={token}".encode(), "headers": [(b"host", b"here")],
            }  # fmt: skip
            await turns(asked, mock.Mock(), mock.Mock())

        async with anyio.create_task_group() as group:
            for _ in range(600):
                group.start_soon(call, "slow", "a")
            await anyio.wait_all_tasks_blocked()
            assert inside == {"slow": AT_ONCE}
            with anyio.fail_after(LONG_S):
                await call("quick", "b")
                await call("quick", "a", "another")
            go.set()

    anyio.run(run)
    assert inside == {"slow": 600, "quick": 2}


OWN = ("origin", "http://here:80")
HOST, TOKEN = ("host", "here:80"), ("authorization", "Bearer mine")


@pytest.mark.parametrize(
    ("headers", "method", "forms", "status"),
    [((HOST, TOKEN), "GET", False, 200), ((HOST, TOKEN, OWN), "GET", False, 200),
     ((HOST,), "GET", False, 401), ((HOST, (TOKEN[0], "Bearer other")), "GET", False, 401),
     ((("host", "elsewhere:80"), TOKEN), "GET", False, 421),
     ((HOST, TOKEN, ("origin", "http://elsewhere")), "GET", False, 403),
     ((HOST, TOKEN), "POST", True, 403), ((HOST, TOKEN, OWN), "POST", True, 200),
     ((HOST, TOKEN), "POST", False, 200)],
)  # fmt: skip
def test_who_is_not_admitted_is_refused(
    headers: Sequence[tuple[str, str]], method: str, *, forms: bool, status: int
) -> None:
    app = Admission(
        PlainTextResponse("ok"), {"here:80"}, lambda one: token_of(one) == "mine", forms=forms
    )

    async def asked() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return (await client.request(method, "http://here/", headers=headers)).status_code

    assert anyio.run(asked) == status


BOUNDED_S = 60
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
def start(tmp_path: Path) -> Iterator[Callable[[], Program]]:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tide.py").write_text("def tide() -> int:\n    return 1\n")
    with ExitStack() as until_ended:

        def started() -> Program:
            words = [*PYTHON, "code", "serve", "mine", "--arm", "code-words"]
            server = Program(words, cwd=tmp_path, stdin=PIPE, stdout=PIPE, stderr=PIPE)
            until_ended.enter_context(server)
            until_ended.callback(server.kill)
            return server

        yield started


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Hear signals, to which a suite that was started beside a shell is deaf."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in mcp_pipes.ENDING}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


def greeted(server: Program) -> tuple[IO[str], IO[str], IO[str]]:
    """Open a session with a server; return its streams."""
    asks, answers, errors = server.stdin, server.stdout, server.stderr
    assert asks
    assert answers
    assert errors
    print(HELLO, file=asks, flush=True)
    about = json.loads(answers.readline())["result"]["serverInfo"]
    assert about["name"] == "folder-search_code"
    assert about["version"]
    return asks, answers, errors


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_the_input_is_open(
    start: Callable[[], Program], sent: signal.Signals
) -> None:
    server = start()
    *_, errors = greeted(server)
    server.send_signal(sent)
    assert server.wait(BOUNDED_S) == 130
    assert errors.read() == "interrupted; rerun to resume\n"


def test_a_reader_that_is_gone_is_named(start: Callable[[], Program]) -> None:
    server = start()
    asks, answers, errors = greeted(server)
    answers.close()
    print(ping(1), file=asks, flush=True)
    assert server.wait(BOUNDED_S) == 2
    assert errors.read() == "error: output pipe closed\n"


@pytest.mark.slow
def test_what_was_asked_before_the_input_ended_is_answered(start: Callable[[], Program]) -> None:
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


def test_an_answer_longer_than_a_pipe_holds_up_nothing_else() -> None:
    (reads, asks), (answers, writes) = os.pipe(), os.pipe()
    streams = Streams(reads, writes, MAX_MESSAGE_BYTES)
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
    for number in (reads, asks, answers, writes):
        os.close(number)


def streamed(folder: Path, line: bytes) -> tuple[list[str], bytes]:
    """Read lines; return the messages in them, and what was written."""
    (folder / "in").write_bytes(line + b"\n")

    async def answered() -> list[str]:
        with (folder / "in").open("rb") as reads, (folder / "out").open("wb") as writes:
            streams = Streams(reads.fileno(), writes.fileno(), MAX_MESSAGE_BYTES)
            with anyio.fail_after(LONG_S):
                return [line async for line in streams]

    return anyio.run(answered), (folder / "out").read_bytes()


def test_a_request_that_was_cancelled_holds_up_no_end(tmp_path: Path) -> None:
    cancel = {"jsonrpc": "2.0", "method": mcp_pipes.CANCELLED, "params": {"requestId": 5}}
    messages, said = streamed(tmp_path, f"{ping(5)}\n{json.dumps(cancel)}".encode())
    assert (len(messages), said) == (2, b"")


LONG = b'"params":{"id":7,"x":"' + b"a" * (2 * MAX_MESSAGE_BYTES - 1_000) + b'"}'
CALLED = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"q":"'


@pytest.mark.parametrize(
    ("begun", "text", "ended", "known"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"ping",', b"", b"}", 5),
        (b'{ "method": "ping", "id" : "b",', b"", b"}", "b"),
        (b'{"method":"tools/call",', b"", b',"jsonrpc":"2.0","id":9}', 9),
        (b'{"method":"tools/call",', b"", b',"id" : "z", "jsonrpc":"2.0"} ', "z"),
        (b'{"jsonrpc":"2.0","id":1.5,', b"", b"}", None),
        (b"{", b"", b',"x":{"id":3}}', None), (b"{", b"", b"}", None),
        (CALLED, rb"\ud83d", b'"}}', 5), (CALLED, b"caf\xe9", b'"}}', 5),
        (CALLED, b"a\x01b", b'"}}', 5),
        (b'{"method":"tools/call","params":{"q":"', rb"\ud83d", b'"},"id":007}', None),
    ],
)  # fmt: skip
def test_a_request_that_is_too_long_or_malformed_gets_its_id_back(
    tmp_path: Path, begun: bytes, text: bytes, ended: bytes, known: object
) -> None:
    messages, said = streamed(tmp_path, begun + (text or LONG) + ended)
    assert (messages, json.loads(said)["id"]) == ([], known)


def test_a_signal_waits_for_what_is_being_answered() -> None:
    said: list[bytes] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep(0.2)
        await echo(scope, receive, send)

    def ask(port: int) -> None:
        with connected(port) as one:
            said.append(answered(one))

    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = Thread(target=ask, args=bound.getsockname()[1:])
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run_until_signalled(partial(served(slow).serve, sockets=[bound]))
        thread.join(LONG_S)
    assert said[0].startswith(OK)
    # a second one interrupts nothing while the command ends
    assert signal.getsignal(signal.SIGTERM) is not signal.default_int_handler
