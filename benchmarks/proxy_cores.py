"""The proxy's own tunnel beside relays on aiohttp, on uvloop, and nginx, before one control.

    python3 run.py python benchmarks/proxy_cores.py --rounds 5 --seconds 10
    python3 run.py python benchmarks/proxy_cores.py --nginx FOLDER/usr/sbin/nginx

Each core gets the same requests at a fixed rate, in turns. Shown are what it adds to the control's
time, the processor seconds it works for a thousand requests, without its start, and what arrives
otherwise than without it. A relay only passes on. The tunnel is shown without mirroring, as a relay
would be, and with it, when it also reads and compares every answer in a process of its own. A core
whose program or package is absent is left out, and the reason is said. uvloop is in no extra
(``pip install uvloop``), and nginx is a Debian package.
"""

# ruff: noqa: T201  a benchmark prints
from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import psutil

from benchmarks.proxy import ROOT, proxied, started, timed

ME = str(Path(__file__))
HARNESS = ("-m", "harness")
ON_UVLOOP = ("-c", "import uvloop; uvloop.install(); from harness.cli import main; main()")
Running = tuple[str, psutil.Process]
END = b"\r\n\r\n"
HOST = re.compile(rb"(?i)(host: )[^\r\n]*")
FORMS = {
    "a path with ..": b"GET /a/../b HTTP/1.1\r\nHost: here\r\n\r\n",
    "an empty query": b"GET /a? HTTP/1.1\r\nHost: here\r\n\r\n",
    "escapes": b"GET /%7Ea%2fb?q=%2b+%20 HTTP/1.1\r\nHost: here\r\n\r\n",
    "two slashes": b"GET //a//b HTTP/1.1\r\nHost: here\r\n\r\n",
    "letters that need escapes": b'GET /a"<> HTTP/1.1\r\nHost: here\r\n\r\n',
    "a fragment": b"GET /a#b HTTP/1.1\r\nHost: here\r\n\r\n",
    "SEARCH": b"SEARCH /a HTTP/1.1\r\nHost: here\r\n\r\n",
    "a method of one's own": b"FOO /a HTTP/1.1\r\nHost: here\r\n\r\n",
    "order and case of headers": b"GET / HTTP/1.1\r\nx-b: 1\r\nX-A: 2\r\nHost: a\r\nx-B: 3\r\n\r\n",
    "an underscore in a header": b"GET /a HTTP/1.1\r\nHost: here\r\nx_b: 1\r\n\r\n",
    "chunks": b"POST /a HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;x=1\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
    "HTTP/1.0": b"GET /a HTTP/1.0\r\nHost: here\r\n\r\n",
}
ANSWER = b"HTTP/1.1 200 Fine\r\nx-b: 1\r\nX-A: 2\r\nserver: own\r\nContent-Length: %d\r\n\r\n%s"


class Core(NamedTuple):
    """A way to stand before a control."""

    name: str
    start: Callable[[str, str, Path], AbstractContextManager[Running]]
    """Start it before a control and a candidate, with a folder of its own."""
    absent: str = ""
    """Why it cannot be measured here."""


@contextmanager
def tunnel(
    control: str, candidate: str, folder: Path, rate: int = 0, *, program: Sequence[str] = HARNESS
) -> Iterator[Running]:
    """Start ``harness shadow http``, which mirrors so many of a million requests."""
    settings = folder / "shadow.toml"
    usual = (ROOT / "policy" / "shadow.toml").read_text(encoding="utf-8")
    settings.write_text(re.sub(r"rate = \d+", f"rate = {rate}", usual), encoding="utf-8")
    more = ("--shadow-settings", str(settings))
    with proxied(control, candidate, folder / "log", *more, program=program) as found:
        yield found


@contextmanager
def relay(control: str, loop: str) -> Iterator[Running]:
    """Start the relay on aiohttp."""
    with started(ME, "--relay", control, "--loop", loop) as found:
        yield found


@contextmanager
def nginx(program: str, control: str, folder: Path) -> Iterator[Running]:
    """Start nginx with one process, and nothing set that it need not have."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    temporary = "".join(
        f"{kind}_temp_path {folder};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log stderr;\n"
        f"events {{ worker_connections 1024; }}\nhttp {{ access_log off; {temporary}"
        f"upstream control {{ server {control.removeprefix('http://')}; keepalive 64; }}\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://control;"
        ' proxy_http_version 1.1; proxy_set_header Connection ""; } } }\n',
        encoding="utf-8",
    )
    words = [program, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with psutil.Popen(words) as process:
        try:
            asyncio.run(_reached(port))
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()


async def _reached(port: int) -> None:
    for _ in range(200):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("nginx does not listen")


async def _relay(control: str) -> None:
    """Pass requests on with aiohttp, as little changed as its interface allows."""
    from aiohttp import ClientSession, TCPConnector, web
    from yarl import URL

    own = {"transfer-encoding", "content-length", "connection", "keep-alive"}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        headers = [
            (name, value) for name, value in request.headers.items() if name.lower() not in own
        ]
        body = request.content if request.body_exists else None
        url = URL(control + request.raw_path, encoded=True)
        async with session.request(
            request.method,
            url,
            headers=headers,
            data=body,
            allow_redirects=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as got:
            kept = [(name, value) for name, value in got.headers.items() if name.lower() not in own]
            response = web.StreamResponse(status=got.status, reason=got.reason)
            response.headers.extend(kept)
            response.content_length = got.content_length
            await response.prepare(request)
            async for part in got.content.iter_any():
                await response.write(part)
            await response.write_eof()
            return response

    connector = TCPConnector(limit=0)
    async with ClientSession(connector=connector, auto_decompress=False) as session:
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        host, port, *_ = runner.addresses[0]
        print(f"http://{host}:{port}", flush=True)
        await asyncio.Event().wait()


async def _echo() -> None:
    """Answer each request with the bytes that came."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while came := await reader.readuntil(END):
                if b"chunked" in came.lower():
                    came += await reader.readuntil(b"0\r\n\r\n")
                elif length := re.search(rb"(?i)content-length: (\d+)", came):
                    came += await reader.readexactly(int(length[1]))
                writer.write(ANSWER % (len(came), came))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def _exchanged(url: str, request: bytes) -> tuple[bytes, bytes]:
    """Send a request, and give the head of the answer, and what arrived at the control."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as opened:
        opened.sendall(request)
        said = b""
        with suppress(OSError):
            while more := opened.recv(65_536):
                said += more
                head, end, came = said.partition(END)
                length = re.search(rb"(?i)content-length: (\d+)", head)
                if end and length and len(came) >= int(length[1]):
                    break
    head, _, came = said.partition(END)
    return head, HOST.sub(rb"\1", came)


def rewritten(straight: str, through: str) -> tuple[list[str], bool]:
    """Name forms of requests that arrive otherwise, and tell whether answers do."""
    found, answers = [], False
    for name, request in FORMS.items():
        ours, theirs = _exchanged(through, request), _exchanged(straight, request)
        if ours[1] != theirs[1]:
            refused = not ours[0].startswith(b"HTTP/1.1 200")
            found.append(f"{name} (refused)" if refused else name)
        answers |= ours[0].startswith(b"HTTP/1.1 200") and ours[0] != theirs[0]
    return found, answers


def _worked(process: psutil.Process) -> float:
    """Add up the processor seconds of a process and all below it."""
    spent = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(one.user + one.system for one in spent))


def cores(program: str | None) -> list[Core]:
    """List what can stand before a control, and why some cannot here."""
    no_uvloop = "" if find_spec("uvloop") else "uvloop is not installed"
    no_nginx = "" if program else "nginx is not installed; name it with --nginx"
    return [
        Core("tunnel, every answer compared", lambda a, b, f: tunnel(a, b, f, 1_000_000)),
        Core("tunnel, nothing mirrored", tunnel),
        Core(
            "tunnel on uvloop, nothing mirrored",
            lambda a, b, f: tunnel(a, b, f, program=ON_UVLOOP),
            no_uvloop,
        ),
        Core("relay on aiohttp", lambda a, _, __: relay(a, "asyncio")),
        Core("relay on aiohttp and uvloop", lambda a, _, __: relay(a, "uvloop"), no_uvloop),
        Core("nginx", lambda a, _, f: nginx(program or "", a, f), no_nginx),
    ]


def measure(program: str | None, rate: float, seconds: float, rounds: int) -> None:
    """Print a row for each core."""
    proxy = str(ROOT / "benchmarks" / "proxy.py")
    with ExitStack() as stack:
        enter = stack.enter_context
        control, _ = enter(started(proxy, "serve", "answers"))
        candidate, _ = enter(started(proxy, "serve", "answers"))
        echo, _ = enter(started(ME, "--echo"))
        here: dict[str, Running] = {}
        forms: dict[str, tuple[list[str], bool]] = {}
        for core in cores(program):
            if core.absent:
                print(f"{core.name}: left out, for {core.absent}")
                continue
            with core.start(echo, echo, Path(enter(TemporaryDirectory()))) as (url, _):
                forms[core.name] = rewritten(echo, url)
            here[core.name] = enter(
                core.start(control, candidate, Path(enter(TemporaryDirectory())))
            )
        times: dict[str, list[np.ndarray]] = {name: [] for name in ("straight", *here)}
        worked = dict.fromkeys(here, 0.0)
        for at in range(rounds + 1):
            for name, (url, process) in {"straight": (control, None), **here}.items():
                before = _worked(process) if process else 0.0
                found = asyncio.run(timed(url, rate, seconds if at else 1))
                if at:
                    times[name].append(np.percentile(found, [50, 99]))
                    worked[name] = worked.get(name, 0.0) + (
                        _worked(process) - before if process else 0.0
                    )
    straight = np.median(times.pop("straight"), axis=0)
    count = int(rate * seconds) * rounds / 1_000
    print(f"{rate:g} requests a second, {rounds} rounds of {seconds:g} s, medians")
    print("| core | added p50, ms | added p99, ms | processor s a 1,000 requests | rewritten |")
    print("| --- | ---: | ---: | ---: | --- |")
    for name, rows in times.items():
        p50, p99 = np.median(rows, axis=0) - straight
        changed, answers = forms[name]
        said = ", ".join([*changed, *(["heads of answers"] if answers else [])]) or "nothing"
        print(f"| {name} | {p50:.2f} | {p99:.2f} | {worked[name] / count:.3f} | {said} |")


def main() -> None:
    """Measure, or be one of the servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nginx", default=shutil.which("nginx"))
    parser.add_argument("--relay", help=argparse.SUPPRESS)
    parser.add_argument("--loop", default="asyncio", help=argparse.SUPPRESS)
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.echo:
        asyncio.run(_echo())
    elif given.relay:
        factory = import_module(given.loop).new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_relay(given.relay))
    else:
        measure(given.nginx, given.rate, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
