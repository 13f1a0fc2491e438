"""What mirroring to ``harness shadow receive`` costs users of nginx, and what it keeps up with.

    python3 run.py python benchmarks/receiver.py overhead --rate 200
    python3 run.py python benchmarks/receiver.py hostile
    python3 run.py python benchmarks/receiver.py flood --seconds 600

``overhead``: requests at a fixed rate through nginx alone and through nginx with a mirror, in
turns; time counts from when a request was due. ``hostile``: with candidates that misbehave. Each
answer must be the control's, byte for byte. ``flood``: more mirrored requests than the receiver can
ask about, on one core; each is an attempt or counted as dropped. Everything runs on loopback.
"""

# ruff: noqa: T201  a benchmark prints
import argparse
import asyncio
import gzip
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import psutil

from harness.shadow import log as shadow_log
from harness.shadow.record import ProblemKind

ROOT = Path(__file__).resolve().parent.parent
READING = ROOT / "examples" / "shadow" / "http.toml"
SETTINGS = ROOT / "policy" / "shadow.toml"
CONFIGURATION = ROOT / "deploy" / "shadow" / "nginx.conf"
ASK = b"GET /search?q=apple&size=10 HTTP/1.1\r\nHost: search.test\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"


def _hits(count: int, score: str = "1.5") -> bytes:
    hits = ",".join(f'{{"_id":"d{n}","_score":{score}}}' for n in range(count))
    return f'{{"hits":{{"hits":[{hits}]}},"timed_out":false}}'.encode()


def _whole(body: bytes, head: bytes = HEAD) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


ALL = 100
BODY = _hits(10)
HOSTILE = {
    "closes": b"",
    "garbage": random.Random(1).randbytes(4096),
    "half": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "no JSON": _whole(b"<html>"),
    "deep": _whole(b"[" * 1_000_000),
    "bomb": _whole(gzip.compress(bytes(1 << 28), 1), HEAD + b"Content-Encoding: gzip\r\n"),
    "redirects": _whole(b"", b"HTTP/1.1 302 Found\r\nLocation: /search\r\n"),
    "fails": _whole(b"{}", b"HTTP/1.1 500 Broken\r\n"),
    "many hits": _whole(_hits(100_000)),
    "no number": _whole(_hits(10, "NaN")),
    "long head": HEAD + b"X: " + b"a" * (8 << 20),
    "two lengths": HEAD + b"Content-Length: 3\r\n" + _whole(BODY, b""),
    "drips": _whole(BODY),
    "floods": HEAD + b"\r\n" + b" " * (1 << 20),
    "hangs": b"",
}


async def _serve(how: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = HOSTILE.get(how, _whole(BODY))
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                if how == "hangs":
                    await asyncio.sleep(3600)
                for at in range(len(said)) if how == "drips" else ():
                    writer.write(said[at : at + 1])
                    await asyncio.sleep(0.1)
                writer.write(said)
                while how == "floods":
                    writer.write(b" " * (1 << 20))
                    await writer.drain()
                await writer.drain()
                if how in HOSTILE:
                    break
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
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            process.communicate()


@contextmanager
def receiving(
    control: str, candidate: str, log: Path, *more: str
) -> Iterator[tuple[str, psutil.Process]]:
    """Start the receiver of mirrored requests."""
    words = ["-m", "harness", "shadow", "receive", "--control", control, "--candidate", candidate]
    with started(*words, "--reading", str(READING), "--out", str(log), *more) as found:
        yield found


def _free() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def fronted(folder: Path, control: str, receiver: str, share: int = ALL) -> Iterator[str]:
    """Run nginx with the shipped configuration; without a receiver it mirrors nothing."""
    folder.mkdir()
    port, between, text = _free(), _free(), CONFIGURATION.read_text()
    answers = f"server {{ listen {control}; location / {{ return 200 '{BODY.decode()}'; }} }}"
    split = f'split_clients "$request_id" $kept {{ {share}% 1; * ""; }}' if share != ALL else ""
    given = {
        "127.0.0.1:9200": control,
        "127.0.0.1:9400": (receiver or control).removeprefix("http://"),
        "127.0.0.1:9401": f"127.0.0.1:{between}",
        "listen 8080": f"listen 127.0.0.1:{port}",
        "/run/shadow-nginx": str(folder),
        "access_log off;": f"access_log off; {split} {'' if receiver else answers}",
        **({} if receiver else {"mirror /mirror;": ""}),
        **({"internal;\n            if": 'internal; if ($kept = "") { return 204; }\n if'}
           if split else {}),
    }  # fmt: skip
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


async def timed(
    url: str, rate: float, seconds: float, lanes: int = 32
) -> tuple[list[float], Counter[bytes]]:
    """Milliseconds from when each request was due to the end of its answer, and the answers."""
    due: asyncio.Queue[float] = asyncio.Queue()
    found, bodies = list[float](), Counter[bytes]()
    host, _, port = url.removeprefix("http://").rpartition(":")

    async def lane() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        while (at := await due.get()) >= 0:
            writer.write(ASK)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            bodies[await reader.readexactly(int(length[1]) if length else 0)] += 1
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
    return found, bodies


def overhead(given: argparse.Namespace) -> None:
    """Print p50 and p99 through nginx alone, and with each kind of receiver behind it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        enter, control = stack.enter_context, f"127.0.0.1:{_free()}"
        ends = {"nginx alone": enter(fronted(folder / "alone", control, ""))}
        ends["nginx alone, again"] = ends["nginx alone"]
        candidate, _ = enter(started(str(Path(__file__)), "serve", "answers"))
        for at, name in enumerate((
            "receiver",
            "one in ten",
            "log deleted",
            "disk full",
            "stopped",
        )):
            log = folder / f"log{at}"
            url, process = enter(receiving(f"http://{control}", candidate, log))
            share = 10 if name == "one in ten" else ALL
            ends[name] = enter(fronted(folder / str(at), control, url, share))
            if name == "stopped":
                process.suspend()
            elif name == "log deleted":
                shutil.rmtree(log)
            elif name == "disk full":
                process.rlimit(psutil.RLIMIT_FSIZE, (0, psutil.RLIM_INFINITY))
        ends["killed"] = enter(fronted(folder / "killed", control, "http://127.0.0.1:9"))
        rows: dict[str, list[np.ndarray]] = {name: [] for name in ends}
        other: Counter[str] = Counter()
        for _ in range(given.rounds):
            for name, url in ends.items():
                times, bodies = asyncio.run(timed(url, given.rate, given.seconds, given.lanes))
                rows[name].append(np.percentile(times, [50, 99]))
                other[name] += bodies.total() - bodies[BODY]
    print(f"{given.rate:g} a second, {given.lanes} connections, {given.rounds} rounds of"
          f" {given.seconds:g} s, medians, ms")  # fmt: skip
    for name, found in rows.items():
        p50, p99 = np.median(found, axis=0)
        print(f"| {name} | {p50:.2f} | {p99:.2f} | {other[name]} |")


def hostile(given: argparse.Namespace) -> None:
    """Print what users got, and what the log says, with each candidate that misbehaves."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        control = f"127.0.0.1:{_free()}"
        stack.enter_context(fronted(folder / "alone", control, ""))
        for how in ("answers", *HOSTILE):
            log = folder / how
            with (
                started(str(Path(__file__)), "serve", how) as (candidate, _),
                receiving(f"http://{control}", candidate, log) as (receiver, process),
                fronted(folder / f"nginx {how}".replace(" ", "-"), control, receiver) as url,
            ):
                times, bodies = asyncio.run(timed(url, given.rate, given.seconds))
                mib = process.memory_info().rss >> 20
            tally, other = shadow_log.read_logs(log).tally, bodies.total() - bodies[BODY]
            p99 = np.percentile(times, 99)
            print(f"| {how} | {p99:.2f} | {other} | {tally.compared} | {tally.errored} |"
                  f" {tally.skipped + tally.shed} | {mib} |", flush=True)  # fmt: skip


def _processor(process: psutil.Process) -> float:
    """Seconds that the receiver and its candidate's process have computed."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def flood(given: argparse.Namespace) -> None:
    """Print what became of more requests than can be asked about, and the receiver's memory."""
    with ExitStack() as stack:
        folder, me = Path(stack.enter_context(tempfile.TemporaryDirectory())), str(Path(__file__))
        control, _ = stack.enter_context(started(me, "serve", "answers"))
        candidate, _ = stack.enter_context(started(me, "serve", "answers"))
        settings = folder / "shadow.toml"
        settings.write_text(SETTINGS.read_text().replace("budget_s = 30.0", "budget_s = 60.0"))
        more = ("--per-second", "1e6", "--shadow-settings", str(settings))
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(mine)})  # what is started here stays on one core
        with receiving(control, candidate, folder / "log", *more) as (url, process):
            os.sched_setaffinity(0, mine)
            before, sent, began = _processor(process), 0, perf_counter()
            for _ in range(10):
                sent += len(asyncio.run(timed(url, given.rate, given.seconds / 10))[0])
                print(f"receiver: {process.memory_info().rss >> 20} MiB after {sent:,}", flush=True)
            took, work = perf_counter() - began, _processor(process) - before
        log = shadow_log.read_logs(folder / "log")
    tally = log.tally
    dropped = sum(one.times for one in log.degradations if one.kind is ProblemKind.NOT_TAKEN)
    print(f"{sent:,} requests in {took:.0f} s, each answered 204")
    print(f"attempts {tally.attempted:,}: {tally.compared:,} compared, {tally.shed:,} shed")
    print(f"pairs a second: {tally.compared / took:.0f}; of processor: {tally.compared / work:.0f}")
    print(f"dropped and counted: {dropped:,}; attempts and dropped: {tally.attempted + dropped:,}")


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["overhead", "hostile", "flood", "serve"])
    parser.add_argument("how", nargs="?", default="answers")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=32)
    given = parser.parse_args()
    if given.what == "serve":
        asyncio.run(_serve(given.how))
    else:
        {"overhead": overhead, "hostile": hostile, "flood": flood}[given.what](given)


if __name__ == "__main__":
    main()
