"""What ``harness shadow http`` adds to a server's time, and whom it fails under load.

    python3 run.py python benchmarks/proxy.py overhead
    python3 run.py python benchmarks/proxy.py crowd --seconds 600

``overhead``: requests at a fixed rate, straight to a server and through the proxy in turns, with a
candidate that answers; time counts from when a request was due. ``crowd``: many connections at
once, a control that closes connections now and then and a candidate that never answers; every
request must be answered as the control would, the proxy's memory must stay flat, and the log must
account for every attempt. Everything runs on loopback.
"""

# ruff: noqa: T201  a benchmark prints
from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter

import numpy as np
import psutil

from harness.shadow.log import streams

ROOT = Path(__file__).resolve().parent.parent
READING = ROOT / "examples" / "shadow" / "http.toml"


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
def started(*words: str) -> Iterator[tuple[str, psutil.Process]]:
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
def proxied(
    control: str, candidate: str, log: Path, *more: str, program: Sequence[str] = ("-m", "harness")
) -> Iterator[tuple[str, psutil.Process]]:
    """Put the proxy before a control."""
    words = [*program, "shadow", "http", "--control", control, "--candidate", candidate]
    with started(*words, "--reading", str(READING), "--out", str(log), *more) as found:
        yield found


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
    """Print p50, p95 and p99 straight and through the proxy, and the medians' differences."""
    with tempfile.TemporaryDirectory() as folder:
        me = str(Path(__file__))
        with (
            started(me, "serve", "answers") as (control, _),
            started(me, "serve", "answers") as (candidate, _),
            proxied(control, candidate, Path(folder) / "log") as (proxy, process),
        ):
            _compare({"straight": control, "proxy": proxy}, rate, seconds, rounds)
            _work(process, int(rate * seconds) * rounds)


def _compare(ends: dict[str, str], rate: float, seconds: float, rounds: int) -> None:
    """Print p50, p95 and p99 of two ways, taken in turns, and what the second adds."""
    rows: dict[str, list[np.ndarray]] = {name: [] for name in ends}
    for _ in range(rounds):
        for name, url in ends.items():
            times = asyncio.run(timed(url, rate, seconds))
            rows[name].append(np.percentile(times, [50, 95, 99]))
    medians = {name: np.median(found, axis=0) for name, found in rows.items()}
    before, after = medians.values()
    print(f"{rate:g} requests a second, {rounds} rounds of {seconds:g} s, medians, ms")
    print("| | p50 | p95 | p99 |\n| --- | ---: | ---: | ---: |")
    for name, found in {**medians, "added": after - before}.items():
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in found)} |")


def _work(process: psutil.Process, requests: int) -> None:
    """Print the processor time of the process that serves, with its start, over the requests."""
    spent = process.cpu_times()
    each = (spent.user + spent.system) / requests
    print(f"the proxy that serves worked {each * 1e3:.2f} ms a request, its start included")


async def _crowd(url: str, connections: int, seconds: float) -> tuple[int, int, int]:
    """Answers that came whole, connections that the other side closed, and other failures."""
    whole = closed = failed = 0
    until = monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal whole, closed, failed
        await asyncio.sleep(number / connections)
        while monotonic() < until:
            try:
                reader, writer = await _connect(url)
                while monotonic() < until:
                    writer.write(ASK)
                    if await reader.readexactly(len(ANSWER)) == ANSWER:
                        whole += 1
                    else:
                        failed += 1
                    await asyncio.sleep(connections / 250)
                writer.close()
            except asyncio.IncompleteReadError as exc:
                closed += not exc.partial
                failed += bool(exc.partial)
            except OSError:
                closed += 1

    await asyncio.gather(*(one(number) for number in range(connections)))
    return whole, closed, failed


def crowd(connections: int, seconds: float) -> None:
    """Print what became of every request of a crowd, and what the proxy needed for it."""
    with tempfile.TemporaryDirectory() as folder:
        me, log = str(Path(__file__)), Path(folder) / "log"
        with (
            started(me, "serve", "flaps") as (control, _),
            started(me, "serve", "hangs") as (candidate, _),
        ):
            with proxied(control, candidate, log) as (url, process):
                asyncio.run(_crowd(url, connections, min(seconds / 10, 30)))
                early = process.memory_info().rss
                whole, closed, failed = asyncio.run(_crowd(url, connections, seconds))
                late = process.memory_info().rss
            found = streams.read(log)
    tally = found.tally
    print(f"{connections} connections, {seconds:g} s: {whole} answered, {failed} wrong or cut")
    print(f"{closed} connections closed without an answer, as the control closes them")
    print(f"memory of the proxy: {early >> 20} MiB after warm-up, {late >> 20} MiB at the end")
    print(
        f"attempts {tally.attempted}: {tally.compared} compared, {tally.errored} errored,"
        f" {tally.skipped} skipped, {tally.shed} shed; faults {len(found.degradations)} noted"
    )


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["overhead", "crowd", "serve"])
    parser.add_argument("how", nargs="?", default="answers")
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=2000)
    given = parser.parse_args()
    if given.what == "serve":
        asyncio.run(_serve(given.how))
    elif given.what == "crowd":
        crowd(given.connections, given.seconds)
    else:
        overhead(given.rate, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
