"""Half an hour of everything at once: whether a program grows, or a request fails.

    python3 run.py python benchmarks/soak.py --minutes 30

Four programs run side by side, each at a steady low rate: ``harness mail-server`` (MCP over HTTP,
comparing with Tantivy in its shadow), ``harness shadow http`` before a server that closes
connections now and then, ``harness serve`` with pages and a pool that is judged, and a process that
opens indexes, replays the query set and closes them, over and over. Every five seconds the memory
that is each one's own, its open files and its threads are noted. The first fifth is left out. The
slope is that of Theil and Sen over medians of thirty seconds, so that samples in a row count once,
with its 95 % interval. A program is flat where the interval holds 0 or where its slope is below 2 %
of its memory an hour. Exits with 1 where one grows or a request fails.
"""

# ruff: noqa: T201  a benchmark prints
from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlencode

import anyio
import httpx
import matplotlib.pyplot as plt
import numpy as np
import psutil
from mcp import Client
from scipy.stats import theilslopes

from benchmarks.proxy import ANSWER, ASK, proxied, started
from engines import registry as arms
from harness.core.files import write_json
from harness.corpus.prepared import Prepared

ARMS = ("mail-fts5", "mail-tantivy")
EVERY_S, MEDIAN_OF = 5, 6
WARM, FLAT = 0.2, 0.02
ADDRESS = re.compile(r"http://\S+")
INPUT = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
TEXTS = ("deploy failed", "cache", "rollout plan", '"broken quote', "migration of the index")


@dataclass
class Watched:
    """What became of one program and of those who use it."""

    process: psutil.Process
    done: int = 0
    errors: list[str] = field(default_factory=list)
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Seconds, bytes of its own, open files, threads."""


def drive(watched: Watched, stop: Event, seconds: float, step: Callable[[], object]) -> None:
    """Take one step each so many seconds; note what it raises."""
    while not stop.wait(seconds):
        try:
            step()
        except Exception as exc:  # noqa: BLE001  whatever fails is what is looked for
            watched.errors.append(f"{type(exc).__name__}: {exc}"[:200])
        watched.done += 1


def searched(url: str, watched: Watched, stop: Event) -> None:
    """Search over MCP, on one connection."""

    async def run() -> None:
        async with Client(url, cache=None) as client:
            while not stop.wait(0.2):
                text = TEXTS[watched.done % len(TEXTS)]
                given = {"project_key": "project-1", "query": text, "limit": 10}
                found = await client.call_tool("search_messages", given)
                watched.done += 1
                if found.is_error:
                    watched.errors.append(str(found.content)[:200])

    try:
        anyio.run(run)
    except Exception as exc:  # noqa: BLE001  as above
        watched.errors.append(f"{type(exc).__name__}: {exc}"[:200])


def requested(url: str) -> Callable[[], object]:
    """Ask through the proxy, on a connection that is kept while the control keeps it."""
    client = httpx.Client(base_url=url, trust_env=False)
    body = ANSWER.partition(b"\r\n\r\n")[2]
    target = ASK.split()[1].decode()

    def step() -> None:
        try:
            answer = client.get(target)
        except httpx.RemoteProtocolError:
            return
        if answer.content != body:
            raise ValueError(f"another answer: {answer.status_code}")

    return step


def judged(address: str) -> Callable[[], object]:
    """Look at the pages, and judge a pair."""
    client = httpx.Client(trust_env=False, timeout=60)
    client.get(address)
    base = str(httpx.URL(address).copy_with(query=None)).rstrip("/")
    pool = "/judge/out/pool.qrels"

    def step() -> None:
        for page in ("/", "/files/out/index.html"):
            client.get(base + page).raise_for_status()
        shown = client.get(base + pool).raise_for_status().text
        forms = [part for part in shown.split("<form ")[1:] if 'name="key" value="1"' in part]
        if forms:
            fields = dict(INPUT.findall(forms[0].partition("</form>")[0])) | {"key": "1"}
            head = {"origin": base, "content-type": "application/x-www-form-urlencoded"}
            answer = client.post(base + pool, content=urlencode(fields), headers=head)
            if answer.status_code not in {200, 303}:
                raise ValueError(f"judging was answered {answer.status_code}")

    return step


def replaying(out: Path) -> None:
    """Open each index, run every query, and close it, for ever."""
    data = Prepared.open(out / "work" / "build" / "agent-mail" / "data")
    queries = [query.text for query in data.queries()]
    print("http://127.0.0.1:1", flush=True)
    while True:
        for name in ARMS:
            cache = out / "work" / "cache"
            with arms.load(name, cache).engine.open(cache / "index" / name) as searcher:
                for text in queries:
                    searcher.search(text, 50)
                    time.sleep(0.02)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start ``harness serve``, which tells its address on the error stream."""
    words = [sys.executable, "-m", "harness", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603  ours
        try:
            for line in process.stderr or ():
                if match := ADDRESS.search(line):
                    yield match.group(), psutil.Process(process.pid)
                    break
        finally:
            process.terminate()


def slope(samples: Sequence[float]) -> tuple[float, float, float]:
    """Give the growth an hour, and the ends of its interval, of samples each five seconds apart."""
    kept = np.array(samples[int(WARM * len(samples)) :])
    count = len(kept) // MEDIAN_OF
    medians = np.median(kept[: count * MEDIAN_OF].reshape(count, MEDIAN_OF), axis=1)
    hours = np.arange(count) * EVERY_S * MEDIAN_OF / 3600
    found = theilslopes(medians, hours, alpha=0.95)
    return float(found.slope), float(found.low_slope), float(found.high_slope)


def grows(watched: Watched) -> bool:
    """Tell whether memory, open files or threads surely grow by more than is flat."""
    columns = list(zip(*watched.samples, strict=True))[1:]
    return any(
        slope(column)[1] > 0 and slope(column)[0] > FLAT * float(np.median(column))
        for column in columns
    )


def prepare(out: Path) -> None:
    """Index and replay both arms, and make a pool."""
    harness = [sys.executable, "-m", "harness"]
    run = ["run", "--dataset", "agent-mail", "--arms", ",".join(ARMS), "--control", ARMS[0]]
    pool = ["pool", "--run", str(out), "--control", ARMS[0], "--candidate", ARMS[1]]
    pool += ["--measure", "nDCG@10", "--size", "5000", "--out", str(out / "pool.qrels")]
    for words in ([*run, "--out", str(out)], pool):
        subprocess.run([*harness, *words], check=True, stdout=subprocess.DEVNULL)  # noqa: S603  ours


def soak(minutes: float, out: Path) -> dict[str, Watched]:
    """Run all of it for so long."""
    me = str(Path(__file__))
    mail = ["-m", "harness", "mail-server", "--dataset", "agent-mail", "--arm", ARMS[1]]
    mail += ["--out", str(out), "--http", "0", "--no-token", "--search-engine", "shadow"]
    mail += ["--shadow-log", str(out.parent / "mail-log")]
    stop = Event()
    with ExitStack() as stack:
        proxy_py = str(Path(me).with_name("proxy.py"))
        control, _ = stack.enter_context(started(proxy_py, "serve", "flaps"))
        candidate, _ = stack.enter_context(started(proxy_py, "serve", "answers"))
        proxy = stack.enter_context(proxied(control, candidate, out.parent / "log"))
        search = stack.enter_context(started(*mail))
        pages = stack.enter_context(served(out))
        replay = stack.enter_context(started(me, "--replay", str(out)))
        programs = {"mail-server": search, "shadow http": proxy, "serve": pages, "replay": replay}
        found = {name: Watched(process) for name, (_, process) in programs.items()}
        work = (
            Thread(target=searched, args=(f"{search[0]}/mcp", found["mail-server"], stop)),
            Thread(target=drive, args=(found["shadow http"], stop, 0.1, requested(proxy[0]))),
            Thread(target=drive, args=(found["serve"], stop, 1.0, judged(pages[0]))),
        )
        for thread in work:
            thread.start()
        began = time.monotonic()
        while (at := time.monotonic() - began) < 60 * minutes:
            for one in found.values():
                of = one.process
                if of.status() == psutil.STATUS_ZOMBIE:
                    raise RuntimeError(f"{' '.join(of.cmdline())} ended by itself")
                row = of.memory_full_info().uss, of.num_fds(), of.num_threads()
                one.samples.append((at, *row))
            time.sleep(EVERY_S)
        stop.set()
        for thread in work:
            thread.join()
    return found


def show(found: dict[str, Watched], figure: Path | None) -> None:
    """Print the table, and draw memory by time."""
    print("| program | steps | errors | MiB | growth, % an hour | open files | threads |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: |")
    for name, one in found.items():
        memory = [row[1] for row in one.samples]
        middle = float(np.median(memory))
        said = f"{100 * slope(memory)[0] / middle:+.1f}"
        ends = ", ".join(f"{100 * end / middle:+.1f}" for end in slope(memory)[1:])
        handles, threads = one.samples[-1][2:]
        first = one.samples[int(WARM * len(one.samples))]
        print(
            f"| {name} | {one.done:,} | {len(one.errors)} | {middle / 2**20:.0f} | {said} [{ends}]"
            f" | {first[2]} to {handles} | {first[3]} to {threads} |"
        )
        for error in sorted(set(one.errors))[:5]:
            print(f"{name}: {error}", file=sys.stderr)
    if figure:
        drawn, axes = plt.subplots(len(found), sharex=True, figsize=(8, 8), layout="constrained")
        for axis, (name, one) in zip(axes, found.items(), strict=True):
            axis.plot([row[0] / 60 for row in one.samples], [row[1] / 2**20 for row in one.samples])
            axis.set(title=name, ylabel="MiB", ylim=(0, None))
        axes[-1].set_xlabel("minutes")
        drawn.savefig(figure)


def main() -> int:
    """Soak, and say what grew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        replaying(given.replay)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        prepare(out)
        found = soak(given.minutes, out)
    show(found, given.figure)
    if given.to:
        write_json(given.to, {name: one.samples for name, one in found.items()})
    return int(any(grows(one) or one.errors for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
