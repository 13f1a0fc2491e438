"""``examples/other_engine``: one file judges and shadows an engine of another make."""

from __future__ import annotations

import gc
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import SkipTest

import httpx
import pytest
from typer.testing import CliRunner

from harness.agreement import Class
from harness.api.contract import engine_contract
from harness.cli import application
from harness.corpus.beir import Beir
from tests.make.mail_project import BOUNDED_S, listening
from tests.make.shadow_log import written
from tests.programs import PYTHON
from tests.source import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("read_once", "none_drawn"),
]
EXAMPLE = ROOT / "examples" / "other_engine"
TEXTS = ("red", "cone", "a blue cube", "zzzz")


@contextmanager
def served(corpus: Path) -> Iterator[str]:
    """Start the example's server on a port of its own, and give its address."""
    made: dict[str, Any] = {"__name__": "server"}
    exec(compile((EXAMPLE / "server.py").read_text("utf-8"), "server.py", "exec"), made)  # noqa: S102  the example is a script
    with made["server"](corpus, 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def at(address: str, folder: Path) -> Path:
    """Copy the arm's file, and point it at another port."""
    text = (EXAMPLE / "bm25s.toml").read_text("utf-8")
    path = folder / "bm25s.toml"
    path.write_text(re.sub(r"http://127.0.0.1:\d+", address, text), "utf-8")
    return path


@pytest.mark.whole("tests/docs/test_guides.py::test_a_server_is_judged_by_its_file")
def test_it_is_checked_and_judged_from_its_file(tmp_path: Path, collection: Path) -> None:
    with served(collection / "corpus.jsonl") as address:
        path = at(address, tmp_path)
        words = ["arm", "check", str(path), "--dataset", str(collection)]
        said = CliRunner().invoke(application(), words)
        assert said.exit_code == 0, said.output
        assert "bm25s: keeps the contract" in said.output
        words = ["run", "--dataset", str(collection), "--arms", f"fts5,{path}"]
        words += ["--control", "fts5", "--out", str(tmp_path / "out")]
        said = CliRunner().invoke(application(), words)
        assert said.exit_code == 0, said.output
        assert (tmp_path / "out" / "index.html").exists()


def test_it_keeps_the_contract_as_tests_of_ones_own(tmp_path: Path, collection: Path) -> None:
    theirs = Beir(collection, "test")
    documents, queries = tuple(theirs.documents()), [query.text for query in theirs.queries()]
    with served(collection / "corpus.jsonl") as address:
        made = engine_contract(at(address, tmp_path), documents=documents, queries=queries[:5])
        checks = {str(check): check for check in made}
        skipped = set()
        for name, check in checks.items():
            try:
                check()
            except SkipTest:
                skipped.add(name)
        broken = at(address, tmp_path)
        broken.write_text(broken.read_text("utf-8").replace('id = "doc"', 'id = "_id"'), "utf-8")
        made = engine_contract(broken, documents=documents, queries=queries[:5])
        wrong = {str(check): check for check in made}
        with pytest.raises(AssertionError, match="has no id"):
            wrong["answers"]()
        held = set(checks)
        del made, checks, check, wrong  # they hold the server's connections open
        gc.collect()
    assert "total" in skipped
    assert {"answers", "finds", "ids", "k", "order of ties", "threads"} <= held - skipped


@pytest.mark.whole(
    "tests/cli/test_shadow_servers.py::test_mirrored_queries_are_in_the_log_and_a_stop_loses_none"
)
def test_it_is_shadowed_from_the_same_file(tmp_path: Path, collection: Path) -> None:
    half = tmp_path / "half.jsonl"
    lines = (collection / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)
    half.write_text("".join(lines[: len(lines) // 2]), "utf-8")
    log = tmp_path / "log"
    with served(collection / "corpus.jsonl") as control, served(half) as candidate:
        start = [
            *PYTHON, "shadow", "receive", "--control", control,
            "--candidate", candidate, "--reading", str(EXAMPLE / "bm25s.toml"), "--out", str(log),
        ]  # fmt: skip
        with listening(start, ROOT) as (receiver, process), httpx.Client(trust_env=False) as client:
            for text in TEXTS:
                sent = {"text": text, "size": 5}
                assert client.post(f"{receiver}/search", json=sent).status_code == 204
            client.get(f"{receiver}/status")
            found = written(log, len(TEXTS), within_s=BOUNDED_S)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=BOUNDED_S)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes[-1] is Class.BOTH_EMPTY
    assert Class.ERROR not in outcomes
    assert set(outcomes[:-1]) - {Class.EXACT}
