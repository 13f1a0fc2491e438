"""What mirroring to ``harness shadow receive`` costs users of nginx, and what it keeps up with.

    python3 run.py python benchmarks/receiver.py overhead --rate 200
    python3 run.py python benchmarks/receiver.py flood --seconds 600

``overhead``: requests at a fixed rate through nginx alone and through nginx with a mirror, in
turns, with a receiver that serves, one that hangs and one that is absent; time counts from when a
request was due. ``flood``: more mirrored requests than the receiver can ask about; its memory must
stay flat and every request is an attempt or counted as dropped. Everything runs on loopback.
"""

# ruff: noqa: T201  a benchmark prints
from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import psutil

from harness.shadow import log as shadow_log
from harness.shadow.record import Kind

ROOT = Path(__file__).resolve().parent.parent
READING = ROOT / "examples" / "shadow" / "http.toml"
CONFIGURATION = ROOT / "deploy" / "shadow" / "nginx.conf"
Started = tuple[str, psutil.Process]


def _answer() -> bytes:
    hits = [{"_id": f"d{n}", "_score": 9.5 - n} for n in range(10)]
    body = json.dumps({"hits": {"hits": hits}, "timed_out": False}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


ANSWER = _answer()
ANSWERS_IN_S = 0.005
ASK = b"GET /search?q=apple&size=10 HTTP/1.1\r\nHost: search.test\r\n\r\n"
FLAPS_EVERY = 29
"""Requests of a connection after which a flapping control closes it instead of answering."""


async def _serve(how: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                served += 1
                if how == "hangs":
                    await asyncio.sleep(3600)
                if how == "flaps" and served % FLAPS_EVERY == 0:
                    break
                await asyncio.sleep(ANSWERS_IN_S)
                writer.write(ANSWER)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def started(*words: str) -> Iterator[Started]:
    """Start a program, and give the address that it prints and its process."""
    with subprocess.Popen(  # noqa: S603  our own programs
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                if match := re.search(r"http://[\d.]+:\d+", line):
                    yield match.group(), psutil.Process(process.pid)
                    break
            else:
                raise RuntimeError(f"{words} ended before it served")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


@contextmanager
def receiving(control: str, candidate: str, log: Path, *more: str) -> Iterator[Started]:
    """Start the receiver of mirrored requests."""
    words = ["-m", "harness", "shadow", "receive", "--control", control, "--candidate", candidate]
    with started(*words, "--reading", str(READING), "--out", str(log), *more) as found:
        yield found


@contextmanager
def fronted(folder: Path, control: str, receiver: str) -> Iterator[str]:
    """Run nginx with the shipped configuration; without a receiver it mirrors nothing."""
    folder.mkdir()
    with socket.socket() as free, socket.socket() as other:
        free.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, between = free.getsockname()[1], other.getsockname()[1]
    text = CONFIGURATION.read_text()
    given = {
        "127.0.0.1:9200": control.removeprefix("http://"),
        "127.0.0.1:9400": (receiver or control).removeprefix("http://"),
        "127.0.0.1:9401": f"127.0.0.1:{between}",
        "listen 8080": f"listen 127.0.0.1:{port}",
        "/run/shadow-nginx": str(folder),
        **({} if receiver else {"mirror /mirror;": ""}),
    }
    for shipped, here in given.items():
        text = text.replace(shipped, here)
    (folder / "nginx.conf").write_text(text)
    words = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    with subprocess.Popen(["nginx", *words]) as process:  # noqa: S603, S607  Debian's program
        sleep(0.5)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def timed(url: str, rate: float, seconds: float, lanes: int = 32) -> list[float]:
    """Milliseconds from when each request was due to the end of its answer."""
    due: asyncio.Queue[float] = asyncio.Queue()
    found: list[float] = []

    async def lane() -> None:
        reader, writer = await _connect(url)
        while (at := await due.get()) >= 0:
            writer.write(ASK)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            found.append((perf_counter() - at) * 1e3)
        writer.close()

    tasks = [asyncio.create_task(lane()) for _ in range(lanes)]
    start = perf_counter() + 0.2
    for number in range(int(rate * seconds)):
        at = start + number / rate
        await asyncio.sleep(max(at - perf_counter(), 0))
        due.put_nowait(at)
    for _ in tasks:
        due.put_nowait(-1.0)
    await asyncio.gather(*tasks)
    return found


def overhead(rate: float, seconds: float, rounds: int) -> None:
    """Print p50, p95 and p99 through nginx alone, and with each kind of receiver behind it."""
    me = str(Path(__file__))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        control, _ = stack.enter_context(started(me, "serve", "answers"))
        candidate, _ = stack.enter_context(started(me, "serve", "answers"))
        hanging, _ = stack.enter_context(started(me, "serve", "hangs"))
        receiver, _ = stack.enter_context(
            receiving(control, candidate, folder / "log", "--per-second", str(rate))
        )
        receivers = {"nginx alone": "", "receiver": receiver, "receiver that hangs": hanging,
                     "receiver that is absent": "http://127.0.0.1:9"}  # fmt: skip
        ends = {
            name: stack.enter_context(fronted(folder / str(at), control, one))
            for at, (name, one) in enumerate(receivers.items())
        }
        _compare(ends, rate, seconds, rounds)


def _compare(ends: dict[str, str], rate: float, seconds: float, rounds: int) -> None:
    """Print p50, p95 and p99 of each way, taken in turns."""
    rows: dict[str, list[np.ndarray]] = {name: [] for name in ends}
    for _ in range(rounds):
        for name, url in ends.items():
            times = asyncio.run(timed(url, rate, seconds))
            rows[name].append(np.percentile(times, [50, 95, 99]))
    medians = {name: np.median(found, axis=0) for name, found in rows.items()}
    print(f"{rate:g} requests a second, {rounds} rounds of {seconds:g} s, medians, ms")
    print("| | p50 | p95 | p99 |\n| --- | ---: | ---: | ---: |")
    for name, found in medians.items():
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in found)} |")


def flood(rate: float, seconds: float) -> None:
    """Print what became of more requests than can be asked about, and the receiver's memory."""
    me = str(Path(__file__))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        control, _ = stack.enter_context(started(me, "serve", "answers"))
        candidate, _ = stack.enter_context(started(me, "serve", "answers"))
        with receiving(control, candidate, folder / "log", "--per-second", "1e6") as found:
            url, process = found
            asyncio.run(timed(url, rate, min(seconds / 10, 30)))
            early, spent = process.memory_info().rss, process.cpu_times()
            sent = len(asyncio.run(timed(url, rate, seconds)))
            late, after = process.memory_info().rss, process.cpu_times()
        log = shadow_log.read_logs(folder / "log")
    tally = log.tally
    dropped = sum(one.times for one in log.degradations if one.kind is Kind.NOT_TAKEN)
    work = after.user + after.system - spent.user - spent.system
    print(f"{sent:,} requests in {seconds:g} s, each answered 204")
    print(f"receiver: {early >> 20} MiB after warm-up, {late >> 20} MiB at the end")
    print(f"processor of the receiver without the candidate: {1e3 * work / sent:.2f} ms a request")
    print(f"attempts {tally.attempted:,}: {tally.compared:,} compared, {tally.shed:,} shed")
    print(f"dropped and counted: {dropped:,}; attempts and dropped: {tally.attempted + dropped:,}")


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["overhead", "flood", "serve"])
    parser.add_argument("how", nargs="?", default="answers")
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.what == "serve":
        asyncio.run(_serve(given.how))
    elif given.what == "flood":
        flood(given.rate, given.seconds)
    else:
        overhead(given.rate, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
