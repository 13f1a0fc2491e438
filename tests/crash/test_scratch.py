"""A disk that has no room for temporary files ends a command, and costs nothing that was there.

Calls are counted below TMPDIR, and fail from one on as on a full disk. ``HARNESS_CRASH=full`` tries
every call; the suite tries the first, and one in the middle.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.files import REMEDY
from tests.crash.crashing import Crashing, Ended, everything, left_over
from tests.crash.server import Attempt
from tests.make.toy import NAME, Toy
from tests.source import ROOT

pytestmark = [
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
    pytest.mark.slow,
]
EVERY = os.environ.get("HARNESS_CRASH") == "full"
MAIL = """\
From a@example.org Thu Jan  1 00:00:00 2026
Message-ID: <one@example.org>
Subject: boats

Salt water.

"""


@dataclass(frozen=True)
class Case:
    """A command that writes temporary files."""

    words: tuple[str, ...]
    module: str
    """Which of the program's files asks for the folder."""
    before: Callable[[Path], object] = lambda _: None
    code: int = 0
    """How it ends while there is room."""
    measured: bool = False
    """Whether it reads what the pipeline made, and a decision."""


def with_mail(root: Path) -> None:
    (root / "box").write_text(MAIL)
    (root / "q.jsonl").write_text('{"_id": "q", "text": "boats"}\n')
    (root / "q.qrels").write_text("q 0 one@example.org 1\n")


def with_release(root: Path) -> None:
    shutil.copytree(root / "build", root / "before")
    shutil.copy(root / "policy" / "toy.toml", root / "policy" / "regress.toml")


PLAIN = ("--policy", "policy/toy.toml", "--dataset", "beir")
CASES = {
    "init": Case(("init", "begun"), "harness/pipeline/init.py"),
    "plan": Case(("plan", *PLAIN), "harness/pipeline/plan.py"),
    "policy pin": Case(
        ("policy", "pin", "policy/pairwise.toml", "--dataset", "beir"),
        "harness/pipeline/pins.py",
    ),
    "arm check": Case(("arm", "check", "fts5"), "harness/check/checks.py"),
    "arm check of a data set": Case(
        ("arm", "check", "fts5", "--dataset", "beir"), "harness/cli/check.py"
    ),
    "queries from-log": Case(
        ("queries", "from-log", "beir/queries.jsonl", "--size", "20", "--out", "drawn.jsonl"),
        "harness/logs/querylog.py",
    ),
    "verify": Case(
        ("verify", "--dataset", NAME), "harness/pipeline/derive.py", measured=True
    ),
    "regress": Case(
        ("regress", "--baseline", "before"),
        "harness/cli/decide.py",
        with_release,
        code=3,
        measured=True,
    ),
    "queries pool": Case(
        ("queries", "pool", "beir/queries.jsonl", "beir/corpus.jsonl", "--arms", "fts5",
         "--depth", "2", "--out", "first.qrels"),
        "harness/logs/commands.py",
    ),
    "convert": Case(
        ("convert", NAME, "--format", "quepid", "--out", "quepid"), "harness/cli/data.py"
    ),
    "import mbox": Case(
        ("import", "mbox", "box", "--name", "mail", "--queries", "q.jsonl", "--qrels", "q.qrels"),
        "harness/pipeline/imports.py",
        with_mail,
    ),
}  # fmt: skip
ELSEWHERE = {
    "engines/harness_engines/stacks/agent_mail/views.py",
    "harness/shadow/http.py",
}
"""What only programs that serve ask, and those that need more than the default packages."""


def test_every_command_that_writes_temporary_files_is_known() -> None:
    asks = re.compile(r"\bfrom harness\.core\.files import (?:\([^)]*|[^\n(]*)\bscratch\b")
    found = {
        path.relative_to(ROOT).as_posix()
        for part in ("harness", "engines")
        for path in (ROOT / part).rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    }
    assert found == {case.module for case in CASES.values()} | ELSEWHERE


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("template", "name"),
    [pytest.param(case.measured, name, id=name) for name, case in CASES.items()],
    indirect=["template"],
)
def test_without_room_for_temporary_files_nothing_is_lost_and_the_message_says_where(
    crashing: Crashing, template: Toy, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    case.before(template.root)
    temporary = tmp_path / "temporary"

    def run(at: int = 0) -> Ended:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        crashing.put_back(template.root)
        attempt = Attempt(
            str(crashing.root),
            list(case.words),
            temporary=str(temporary),
            at=at,
            how=errno.ENOSPC,
            for_good=True,
        )
        return crashing.attempt(attempt)

    straight = run()
    assert straight.codes == (case.code,), straight.out
    before, calls = everything(template.root), len(straight.calls)
    assert calls
    for at in range(1, calls + 1) if EVERY else (1, calls // 2):
        ended = run(at)
        where = (at, straight.calls[at - 1], ended)
        if ended.codes == (case.code,):
            assert straight.calls[at - 1].startswith(("unlink ", "rmdir ")), where
            continue
        assert ended.codes == (2,), where
        assert f"{temporary}/harness-{os.getuid()}: temporary files cannot be written" in ended.err
        assert REMEDY in ended.err, where
        after = everything(crashing.root)
        assert {one: after.get(one) for one in before} == before, where
        assert left_over(crashing.root) == left_over(template.root), where
        assert not [one for one in temporary.rglob("*") if one.is_file()], where
