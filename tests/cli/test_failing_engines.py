"""An engine that fails, exits, prints or never ends makes no verdict of its own in any command.

The commands are those of the program: one that names an engine among its options and is in no table
below makes a test red. ``--all`` tries every command with every failure at every moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from unittest import mock

import pytest

from harness.pipeline.layout import Layout
from tests.cli import broken_engine
from tests.cli.broken_engine import ENDLESS, FAILURES, MOMENTS, stamped
from tests.cli.conftest import Harness
from tests.cli.owned import command_tree, leaves
from tests.docs.pages import Shell
from tests.make import shadow_log as live_log
from tests.make.toy import Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
DATA = ("--dataset", "toy")
PAIR = (*DATA, "--control", "fts5", "--candidate", "{arm}")
COMMANDS = {
    "arm check": ("{arm}",),
    "ask": (*DATA, "balo", "--arm", "{arm}"),
    "ask of a run": ("balo", "--from", "ran", "--arm", "{arm}"),
    "decompose": PAIR,
    "decompose of a run": ("--from", "ran", "--control", "fts5", "--candidate", "{arm}"),
    "stage index": (*DATA, "--arm", "{arm}"),
    "load": (*DATA, "--arm", "{arm}", "--rate", "50"),
    "mail-server": (*DATA, "--arm", "{arm}"),
    "queries pool": (
        "beir/queries.jsonl", "beir/corpus.jsonl", "--arms", "fts5,{arm}", "--depth", "2", "--out",
        "first.qrels",
    ),
    "stage replay": (*DATA, "--arm", "{arm}"),
    "run": (*DATA, "--arms", "fts5,{arm}", "--control", "fts5", "--out", "new", "--exit-code"),
    "shadow replay": ("log", *PAIR),
    "shadow run": (*PAIR, "--out", "shadowed", "--count", "2", "--shadow-settings", "shadow.toml"),
    "tune": (
        "{arm}", "--dataset", "beir", "--split", "test", "--search", "space.toml", "--out",
        "broken/tuned.toml",
    ),
    "verify": (*DATA, "--requery", "3", "--arm", "{arm}"),
    "verify of a run": ("--from", "ran", "--requery", "3", "--arm", "{arm}"),
}  # fmt: skip
"""Commands that may run an engine of somebody's own, with their words."""
OPENS_NONE = {
    "compare", "export", "gate", "init", "labels", "mail drop-fts5", "mail index",
    "migrate begin", "migrate drill",
    "migrate interleave", "plan", "pool",
    "regress",
    "selftest", "shadow mcp", "shadow receive", "shadow traffic",
    *(f"{kept} {does}" for kept in ("code", "docs", "notes") for does in ("ask", "index", "serve")),
}  # fmt: skip
"""Commands that name engines and open none, or only such as come with the program."""
NAMES = {"arm", "arms", "control", "candidate", "serving"}
"""How a command calls an engine among its parameters."""
SPACE = """\
[search]
measure = "nDCG@10"
folds = 2
seed = 7
confidence = 0.95
resamples = 1000

[space]
any = [1, 2]
"""
PRINTED = "printed by an engine"
RAISED = {**FAILURES, "prints": f"print({PRINTED!r})"}
SYNTAX = "def engine(settings, cache:\n    pass\n"
CASES = [
    *product(COMMANDS, MOMENTS, RAISED),
    *product(COMMANDS, [ENDLESS], ["pass"]),
    *product(COMMANDS, ["import"], ["SyntaxError"]),
]


@pytest.fixture(scope="module")
def whole(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Make a project whose engine was indexed, replayed and run while it was whole."""
    made = measured.copied(tmp_path_factory.mktemp("whole") / "project")
    shutil.copy(ROOT / "policy" / "shadow.toml", made.root)
    (made.root / "space.toml").write_text(SPACE)
    (made.root / "policy" / "accepted.toml").write_text("")
    arm, shell = str(broken_engine.write(made.root / "broken")), Shell(made.root)
    live_log.write(made, made.root / "log")
    shell.harness("stage", "index", *DATA, "--arm", arm)
    shell.harness("stage", "replay", *DATA, "--arm", arm)
    shell.harness("run", *DATA, "--arms", f"fts5,{arm}", "--control", "fts5", "--out", "ran")
    shell.harness("gate", "--exit-zero")
    return made


@pytest.fixture
def ready(whole: Toy, project: Toy) -> Toy:
    """Make a copy for a test, in the folder that its commands are called in."""
    shutil.rmtree(project.root)
    return whole.copied(project.root)


@pytest.fixture(autouse=True)
def unserved() -> Iterator[None]:
    """Let what would serve end at once."""
    with mock.patch("harness.core.server.server"):
        yield


def test_every_command_that_names_an_engine_is_known() -> None:
    found = {
        name
        for name, command in leaves(command_tree())
        for param in command.params
        if param.name in NAMES
    }
    assert found == {name.removesuffix(" of a run") for name in COMMANDS} | OPENS_NONE


@pytest.mark.sampled
@pytest.mark.parametrize(("command", "moment", "how"), CASES)
def test_no_failure_of_an_engine_is_a_verdict(
    ready: Toy, harness: Harness, command: str, moment: str, how: str
) -> None:
    arm = ready.root / "broken" / "own.toml"
    if how == "SyntaxError":
        broken_engine.spoken(arm.parent, SYNTAX)
    else:
        broken_engine.write(arm.parent, moment, RAISED.get(how, how))
    for layout in (ready.layout, _ran(ready.root)):
        stamped(layout.index("own"), arm)
    words = [word.format(arm=arm) for word in COMMANDS[command]]
    said = harness(*command.removesuffix(" of a run").split(), *words)
    decided = (ready.root / "new" / "decision.json").is_file()
    assert said.code in ({0, 1, 3} if decided else {0, 2, 3}), said
    assert "Traceback" not in said.err
    assert "shows the traceback" not in said.err, said
    assert PRINTED not in said.out
    assert "\x1b" not in said.err + said.out
    if said.code == 2:
        last = (said.err or said.out).splitlines()[-1]
        assert last.startswith("error: ") or "BREAKS THE CONTRACT" in said.out, said
    assert list(ready.root.rglob(".*.partial")) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_code_of_an_arm_where_that_is_refused(
    ready: Toy, harness: Harness, command: str
) -> None:
    loads = "from pathlib import Path\nPath(__file__).with_name('loaded').touch()\n"
    arm = broken_engine.spoken(ready.root / "broken", loads)
    words = [word.format(arm=arm) for word in COMMANDS[command]]
    said = harness("--no-code", *command.removesuffix(" of a run").split(), *words).error
    assert "the arm own brings code" in said
    assert not (arm.parent / "loaded").exists()


def _ran(root: Path) -> Layout:
    work = root / "ran" / "work"
    return Layout(work / "build" / "toy", work / "perf" / "toy", work / "cache")
