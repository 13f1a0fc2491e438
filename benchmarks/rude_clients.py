"""Clients that read slowly, vanish or never finish, beside quick ones, through ``shadow http``.

    python3 run.py python benchmarks/rude_clients.py --seconds 120 [--small-disk FOLDER]

The control answers with as many bytes as a request asks for; the candidate is slow, hangs, breaks
off, or sends without end. Kinds of clients run at once: *trickle* reads 3 MB in small bites;
*vanish* leaves in the middle of an answer, every second time by a reset; *head* sends half a head
and waits; *body* sends a body a byte at a time, and leaves in its middle every second time; *quick*
asks small things as fast as it can. Every byte that a client got is compared with what the control
sends. ``--small-disk`` is a folder on a file system with little room: the log goes there.
"""

# ruff: noqa: T201  a benchmark prints
from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.proxy import proxied, started
from harness.shadow.log import streams

BIG, BITE = 3_000_000, 40_000
END = b"\r\n\r\n"
RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing sends a reset."""
FATES = ("hangs", "slow", "breaks off", "has no end")
"""Of an answer of the candidate."""
KINDS = {"trickle": 20, "vanish": 20, "head": 40, "body": 20, "quick": 8}
"""Clients of each kind."""


def answer(number: int, size: int) -> bytes:
    """Make the control's answer to a number: JSON with hits, padded to about ``size`` bytes."""
    pad = hashlib.sha256(str(number).encode()).hexdigest() * (size // 64)
    hits = [{"_id": f"d{number % 97 + at}", "_score": 10.0 - at} for at in range(3)]
    body = json.dumps({"hits": {"hits": hits}, "timed_out": False, "pad": pad}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def request(number: int, size: int, *, method: str = "GET", more: str = "") -> bytes:
    """Ask for the answer to a number."""
    return (
        f"{method} /search?q=word{number}&size=10&n={number}&bytes={size} HTTP/1.1\r\n"
        f"Host: here\r\n{more}\r\n"
    ).encode()


async def _serve(how: str) -> None:
    dice = random.Random(7)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while head := await reader.readuntil(END):
                found = re.findall(rb"[?&](n|bytes)=(\d+)", head)
                asked = {name: int(value) for name, value in found}
                if length := re.search(rb"(?i)content-length: (\d+)", head):
                    await reader.readexactly(int(length[1]))
                whole = answer(asked[b"n"], asked[b"bytes"])
                if how == "bad":
                    fate = dice.choice(FATES)
                    await asyncio.sleep({"hangs": 3600, "slow": 1.5}.get(fate, 0))
                    if fate == "breaks off":
                        writer.write(whole[: len(whole) // 2])
                        break
                    while fate == "has no end":
                        writer.write(whole)
                        await writer.drain()
                writer.write(whole)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


class Rude:
    """Clients of every kind on one address, and what became of what they did."""

    def __init__(self, url: str, seconds: float) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._at, self._until = (host, int(port)), monotonic() + seconds
        self._dice = random.Random(11)
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        """Let all kinds go on until the time is over."""
        ways: dict[str, Callable[[int], Awaitable[str]]] = {
            "trickle": self._trickle,
            "vanish": self._vanish,
            "head": self._head,
            "body": self._body,
            "quick": self._quick,
        }
        many = (self._again(kind, ways[kind]) for kind in KINDS for _ in range(KINDS[kind]))
        await asyncio.gather(*many)

    async def _again(self, kind: str, way: Callable[[int], Awaitable[str]]) -> None:
        while monotonic() < self._until:
            try:
                said = await way(self._dice.randrange(10**6))
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as exc:
                said = type(exc).__name__
            self.seen[f"{kind}: {said}"] += 1

    async def _asked(
        self, number: int, size: int, limit: int = 2**16
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._at, limit=limit)
        writer.write(request(number, size))
        return reader, writer

    async def _trickle(self, number: int) -> str:
        reader, writer = await self._asked(number, BIG, limit=2**12)
        got = bytearray()
        while len(got) < len(expected := answer(number, BIG)) and (bite := await reader.read(BITE)):
            got += bite
            await asyncio.sleep(0.03)
        writer.close()
        return "whole" if got == expected else "WRONG"

    async def _vanish(self, number: int) -> str:
        reader, writer = await self._asked(number, BIG)
        await reader.readexactly(self._dice.randrange(1, BIG // 2))
        if reset := number % 2:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.close()
        return "reset" if reset else "left"

    async def _head(self, number: int) -> str:
        reader, writer = await asyncio.open_connection(*self._at)
        writer.write(request(number, 10)[: -self._dice.randrange(1, 40)])
        async with asyncio.timeout(40):
            rest = await reader.read()
        writer.close()
        return f"told {rest.split()[1].decode()}" if rest else "closed without a word"

    async def _body(self, number: int) -> str:
        reader, writer = await asyncio.open_connection(*self._at)
        body = b"x" * 60
        writer.write(request(number, 500, method="POST", more="Content-Length: 60\r\n"))
        for at in range(60 if number % 2 else 30):
            writer.write(body[at : at + 1])
            await asyncio.sleep(0.02)
        got = await reader.readexactly(len(answer(number, 500))) if number % 2 else b""
        writer.close()
        return ("whole" if got == answer(number, 500) else "WRONG") if number % 2 else "left"

    async def _quick(self, number: int) -> str:
        reader, writer = await self._asked(number, 300)
        for at in range(50):
            got = await reader.readexactly(len(answer(number + at, 300)))
            if got != answer(number + at, 300):
                return "WRONG"
            writer.write(request(number + at + 1, 300))
        writer.close()
        return "50 whole"


def main() -> None:
    """Run all kinds at once, and print what each got and what the proxy needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=["good", "bad"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--small-disk", type=Path)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(_serve(given.serve))
        return
    me = str(Path(__file__))
    with (
        TemporaryDirectory(dir=given.small_disk) as folder,
        started(me, "--serve", "good") as (control, _),
        started(me, "--serve", "bad") as (candidate, _),
    ):
        log = Path(folder) / "log"
        with proxied(control, candidate, log) as (url, process):
            asyncio.run((warm := Rude(url, min(given.seconds / 6, 20))).run())
            early = (process.memory_info().rss, process.num_fds())
            asyncio.run((rude := Rude(url, given.seconds)).run())
            late = (process.memory_info().rss, process.num_fds())
        for said, times in sorted((warm.seen + rude.seen).items()):
            print(f"{times:7,} {said}")
        for name, (memory, handles) in (("after warm-up", early), ("at the end", late)):
            print(f"proxy {name}: {memory >> 20} MiB, {handles} handles")
        tally = (found := streams.read(log)).tally
        print(
            f"attempts {tally.attempted}: {tally.compared} compared, {tally.errored} errored,"
            f" {tally.skipped} skipped, {tally.shed} shed; faults {len(found.degradations)} noted"
        )


if __name__ == "__main__":
    main()
