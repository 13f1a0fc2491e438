"""A project with a little mail, and an MCP server of it that is always stopped."""

import json
import queue
import random
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from harness.cli.project import Project
from harness.pipeline.imports import ImportTarget, import_beir
from harness.pipeline.prepare import prepare
from tests.make import write_beir
from tests.programs import PYTHON, Program

NAME, ARM = "letters", "mail-tantivy"
WORDS = ("review", "plan", "token", "broker", "laptop", "reservoir", "read_csv", "br-2tnl", "lunch")
AGENTS = ("Ann", "Bob", "Cid")
DAY_US = 86_400_000_000
START_US = 1_780_000_000_123_456
DOCUMENTS = 60
BOUNDED_S = 60
UNHURRIED = ("--budget-ms", f"{1000 * BOUNDED_S}")
QUERIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("review plan", {}),
    ("token", {"project_id": 2}),
    ("token broker", {"product_id": 5}),
    ("plan", {"importance": "high,urgent"}),
    ("review", {"sender_name": "Ann"}),
    ("review", {"recipient_name": "Bob", "ack_required": True}),
    ("lunch plan", {"agent_name": "Cid", "direction": "inbox"}),
    ("laptop", {"thread_id": "t2"}),
    ("plan", {"min_ts": START_US + 3 * DAY_US, "max_ts": START_US + 9 * DAY_US}),
    ("plan", {"ack_required": False, "project_id": 1}),
    ("br-2tnl", {}),
    ("read_csv +review", {}),
    ('"review plan" -lunch', {}),
    ("reservoir (", {}),
    ("note: nothing:special", {}),
    ("nowhere to be found", {}),
    ("", {}),
    ("", {"sender_name": "Bob"}),
)


def write(root: Path) -> Project:
    """Write a project whose one data set is prepared and not yet indexed."""
    rng = random.Random(11)
    rows: list[dict[str, object]] = []
    for number in range(DOCUMENTS):
        words = [rng.choice(WORDS) for _ in range(rng.randint(3, 12))]
        rows.append({
            "_id": f"m{rng.randrange(10**6):06}-{number}",
            "title": " ".join(words[:2]),
            "text": " ".join(words[2:]),
            "metadata": {
                "project_id": rng.randint(1, 3),
                **({"product_id": 5} if number % 3 == 0 else {}),
                "sender": rng.choice(AGENTS),
                "recipients": ",".join(rng.sample(AGENTS, 2)),
                "thread_id": f"t{number % 4}",
                "importance": rng.choice(("low", "normal", "high", "urgent")),
                "ack_required": rng.random() < 0.5,
                "created_ts": START_US + number % 12 * DAY_US + number,
            },
        })
    asked = [{"_id": f"q{n:02}", "text": t, "params": p} for n, (t, p) in enumerate(QUERIES)]
    judged = ((str(query["_id"]), str(rows[0]["_id"]), 1) for query in asked)
    folder = write_beir(root / "beir", rows, asked, judged)
    (root / "params.yaml").write_text("datasets: [letters]\n", encoding="utf-8")
    import_beir(folder, ImportTarget(NAME, root / "datasets", root / "qrels", split="test"))
    project = Project(root)
    prepare(root / "datasets" / NAME, root / "qrels" / NAME, project.layout(NAME).data)
    return project


def command(*more: str) -> list[str]:
    """Words that start the server; a machine of any load answers within its budget."""
    return [*PYTHON, "mail-server", "--dataset", NAME, "--arm", ARM, *UNHURRIED, *more]


def arm(folder: Path, name: str, **settings: object) -> str:
    """Write an arm that asks a server; give the path of its file."""
    whole: dict[str, object] = {
        "transport": "stdio", "command": [], "url": "", "tool": "search_messages",
        "product_tool": "search_messages_product", "project_key": "*", "project_slug": "project-{}",
        "product_name": "product-{}", "mode": "", "engine": "tantivy", "ids": "ordinal",
        "page_size": 7, "timeout_s": float(BOUNDED_S), **settings,
    }  # fmt: skip
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in whole.items())
    path = folder / f"{name}.toml"
    path.write_text(
        f'summary = "Mail elsewhere"\nstack = "remote/mcp"\n[settings]\n{lines}', encoding="utf-8"
    )
    return str(path)


@contextmanager
def listening(
    words: Sequence[str], cwd: Path, said: list[str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server on a free port of loopback, give its URL, and stop it whatever happens.

    ``said`` gets what it says on its error stream.
    """
    process = Program(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines: queue.Queue[str] = queue.Queue()
    assert process.stderr is not None
    told = [] if said is None else said
    reader = Thread(target=_read, args=(process.stderr, lines, told), daemon=True)
    reader.start()
    line = ""
    try:
        while "http://" not in line:
            line = lines.get(timeout=BOUNDED_S)
            assert line, f"the server ended: {told}"
        yield line.split()[-1], process
    finally:
        process.kill()
        process.wait(timeout=BOUNDED_S)
        reader.join(timeout=BOUNDED_S)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def _read(stream: Iterator[str], lines: queue.Queue[str], said: list[str]) -> None:
    for line in stream:
        said.append(line)
        lines.put(line)
    lines.put("")
