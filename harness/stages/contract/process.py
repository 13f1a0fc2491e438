"""The same answers in another process, whose strings have other hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from engines import registry
from harness.core.printable import one_line
from harness.stages.contract.check import Check
from harness.stages.contract.sameness import difference
from harness.stages.contract.subject import NotChecked, Subject, ask, shown

CODE = "from harness.stages.contract.process import answer; answer()"
PATIENCE_S = 600.0
"""How long the other process may take."""
SEED = "271828"
"""Of the hashes of the other process; this one draws its own."""
SAID = 300
"""Characters of what a process said that failed."""


def answer() -> None:
    """Open an index and run queries, as the JSON on the standard input says."""
    given = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        found = _answers(given)
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def _answers(given: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, float]]]]:
    arm = registry.load(given["arm"], Path(given["cache"]))
    with arm.open(Path(given["index"])) as searcher:
        answers = [ask(searcher, text, k) for text, k in given["queries"]]
        return [(one.error, shown(one.hits)) for one in answers]


def _processes(subject: Subject) -> Iterator[str]:
    """Let another interpreter open the same index, and compare its answers."""
    before = subject.answered()
    if subject.arm is None:
        raise NotChecked("needs the engine's TOML file, to open it in another process")
    given = {
        "arm": subject.arm.name,
        "cache": str(subject.arm.cache),
        "index": str(subject.index),
        "queries": [(one.text, one.k) for one in before],
    }
    done = _run(json.dumps(given))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        yield f"the other process failed: {one_line(last, SAID)}"
        return
    for one, (error, hits) in zip(before, json.loads(done.stdout.splitlines()[-1]), strict=True):
        seen = [(doc_id, score) for doc_id, score in hits]
        if error or seen != shown(one.hits):
            yield f"{one}: {error or difference(shown(one.hits), seen)}, in another process"


def _run(given: str) -> subprocess.CompletedProcess[str]:
    """Start an interpreter that finds the modules that this one finds, with other hashes."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONHASHSEED": SEED,
    }
    return subprocess.run(  # noqa: S603  this interpreter, and code of this module
        [sys.executable, "-c", CODE],
        input=given, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


CHECKS = (
    Check(
        "processes",
        "Another process that opens the index gets the same answers.",
        "Sort what comes out of a set before you rank it: the order of a set differs by process",
        _processes,
        by_name=True,
    ),
)
