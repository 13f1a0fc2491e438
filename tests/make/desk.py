"""A pool, a judge's file, and a server: what a machine needs to judge."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Pool
from harness.judge import machine
from harness.judge.endpoint import opened
from harness.judge.judge import own_file
from harness.judge.machine import Labelled, label
from tests.make.search_server import listening

MODEL = "toy-1"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


class Reply(NamedTuple):
    """What the server sends."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}


def completion(content: str | None, **changed: Any) -> Reply:  # noqa: ANN401  any JSON
    """Wrap the words of a model as the protocol has them."""
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    body = {"model": MODEL, "choices": [choice], "usage": USAGE} | changed
    return Reply(json.dumps(body).encode())


def graded(*probabilities: float, model: str = MODEL) -> Reply:
    """Answer well, with these probabilities of the grades 0, 1, ..."""
    said = {str(grade): one for grade, one in enumerate(probabilities)}
    return completion(json.dumps({"reason": "because", "probabilities": said}), model=model)


class Server:
    """Answers with the replies of the script in turn, and the last one for ever."""

    def __init__(self, script: Sequence[Reply]) -> None:
        self.script, self.seen = list(script), list[dict[str, Any]]()
        self.keys: list[str] = []
        self.url = ""

    def next(self) -> Reply:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def serving(*script: Reply) -> Iterator[Server]:
    """Serve a script on a free port of this machine."""
    told = Server(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            told.keys.append(self.headers.get("authorization", ""))
            reply = told.next()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with listening(Handler) as url:
        told.url = f"{url}/v1"
        yield told


KEY = "sk-toy-secret"
SCALE = (0, 1, 2)
ENDPOINT = """\
name = "grader"
kind = "endpoint"
model = "toy"
template = "instructions.txt"
max_tokens = 100
price_in = 1000.0
price_out = 5000.0
budget = 100.0
per_minute = 1000000.0
retries = 2
timeout_s = 20.0
"""
INSTRUCTIONS = "Judge what you are given.\n"


def write_pool(folder: Path, count: int = 4, **changed: str) -> Path:
    """Write a pool; document n shares n of the four words of its query."""
    words = ["salt", "water", "moon", "sea"]
    pairs = [
        JudgingPair(
            query_id=f"q{at}", doc_id=f"d{at}", query=" ".join(words), narrows=0.1, scale=SCALE,
            **{"title": f"No {at}", "snippet": " ".join(words[:at])} | changed,
        )
        for at in range(count)
    ]  # fmt: skip
    path = folder / "pool.qrels"
    judgements.begin(path, Pool(tuple(pairs), (None,) * count))
    return path


class Desk:
    """Lets the judge of a file judge the pool."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.pool = write_pool(folder)
        self.file, self.to = folder / "judge.toml", folder / "machine.jsonl"
        self.kept = folder / "judges"

    def answers(self, *script: Reply) -> None:
        """Make the server answer so from now on, the last reply for ever."""
        self.server.script = [*script]

    def label(self, text: str = ENDPOINT) -> Labelled:
        if not self.file.exists() or self.file.read_text() != text:
            self.file.write_text(text)
        with opened(self.file, self.kept) as answers:
            return label(self.pool, answers, self.to)


@contextmanager
def grading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve a judge, whose file lies in a folder, that gives each pair grade 0 without a pause."""
    (folder / "judge.toml").write_text(ENDPOINT)
    (folder / "instructions.txt").write_text(INSTRUCTIONS)
    monkeypatch.setattr(machine, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(machine, "LONGEST_PAUSE_S", 0.0)
    with serving(graded(1, 0, 0)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server


@contextmanager
def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Set a desk with a server."""
    with grading(folder, monkeypatch) as server:
        yield Desk(folder, server)


def make_panel(folder: Path, count: int = 4, names: Sequence[str] = ("a", "b")) -> dict[str, Path]:
    """Make a pool, ``judged/pool.qrels``, and a file of each person, in which all grades are 1."""
    (folder / "judged").mkdir()
    pool = write_pool(folder / "judged", count)
    files = {name: own_file(pool, name) for name in names}
    for path in files.values():
        pairs = judgements.read_pool(path).pairs
        judgements.write_grades(path, Pool(pairs, (1,) * len(pairs)))
    return files
