"""Commands killed or failed at each call of the system."""

import errno
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.files import REMEDY
from harness.core.folders import cut_off
from harness.corpus import judgements
from harness.migrate import ledger as migrate_ledger
from harness.pipeline.prepare import prepare
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from tests.crash import crashing as crash
from tests.crash.crashing import Command, Crashing, Ended, everything, left_over
from tests.crash.server import KILL, Attempt
from tests.make import toy
from tests.make.desk import write_pool
from tests.make.toy import NAME, Toy

pytestmark = [
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
    pytest.mark.slow,
]
EVERY = os.environ.get("HARNESS_CRASH") == "full"
WAYS = [(KILL, False), (errno.ENOSPC, True)]
MORE_WAYS = [(errno.EROFS, True), (errno.EINTR, False), (errno.EIO, False)]


@pytest.fixture(scope="module")
def crashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashing]:
    """Start the server once: it takes seconds to import everything."""
    with crash.serving(tmp_path_factory.mktemp("crash")) as found:
        yield found


@pytest.fixture
def template(tmp_path: Path) -> Toy:
    """Import and prepare the data, and no more."""
    made = toy.make(tmp_path / "template")
    prepare(made.root / "datasets" / NAME, made.root / "qrels" / NAME, made.layout.data)
    return made


class CrashTrial:
    """One command in its project, run undisturbed and then crashed."""

    def __init__(self, crashing: Crashing, command: Command, template: Toy) -> None:
        command.before(template)
        self.crashing, self.command, self.template = crashing, command, template.root
        self.straight = self.run()
        assert self.straight.code == 0, self.straight
        assert command.told is None or self.told(self.straight)
        self.wanted = self.seen()
        self.left = left_over(crashing.root)

    def run(self, at: int = 0, how: int = KILL, *, for_good: bool = False) -> Ended:
        """Run the command in a fresh copy."""
        self.crashing.put_back(self.template)
        return self.again(at, how, for_good=for_good)

    def again(self, at: int = 0, how: int = KILL, *, for_good: bool = False) -> Ended:
        words, folder = list(self.command.words), str(self.crashing.root)
        return self.crashing.attempt(Attempt(folder, words, self.command.typed, at, how, for_good))

    def told(self, ended: Ended) -> bool:
        """Whether a person saw that it was done."""
        return self.command.told is not None and self.command.told in ended.out

    def seen(self) -> dict[str, str]:
        return everything(self.crashing.root, left_out=self.command.left_out)

    def points(self) -> list[int]:
        """Choose calls: every one, or that after the first rename and the last rename."""
        calls = self.straight.calls
        if EVERY:
            return list(range(1, len(calls) + 1))
        renames = [at for at, call in enumerate(calls, start=1) if call.startswith("rename")]
        return [renames[0] + 1, renames[-1]]


@pytest.mark.parametrize("name", crash.COMMANDS if EVERY else crash.QUICK)
def test_wherever_it_ends_the_same_command_completes_it(
    crashing: Crashing, template: Toy, name: str
) -> None:
    trial = CrashTrial(crashing, crash.COMMANDS[name], template)
    for path in trial.command.durable:
        assert crash.synced(trial.straight.calls, crashing.root / path), path
    for how, for_good in WAYS + MORE_WAYS * EVERY:
        for at in trial.points():
            ended = trial.run(at, how, for_good=for_good)
            where = (at, errno.errorcode.get(how, "killed"), trial.straight.calls[at - 1], ended)
            assert how != KILL or ended.code == -signal.SIGKILL, where
            consistent(crashing.root)
            if not trial.told(ended):
                done = trial.again()
                known = trial.command.known
                assert done.code == 0 or (known and known in done.err), (where, done)
                assert done.code or left_over(crashing.root) == trial.left, where
            assert trial.seen() == trial.wanted, where


def consistent(root: Path) -> None:
    """See that the switch is what the ledger says, unless the ledger says that a move waits."""
    place = root / "migration"
    if (place / "ledger.json").exists() and not cut_off(place / "ledger.json"):
        known = migrate_ledger.read(place)
        assert value_in(place / "switch.env") in {known.state.switch, "fts5"}


def test_a_key_that_was_answered_is_in_the_pool(crashing: Crashing, template: Toy) -> None:
    """Whoever is killed while judging loses the last key at most, and goes on with the next."""
    command = Command(
        ("judge", "pool.qrels"), lambda project: write_pool(project.root), typed="1010"
    )
    trial = CrashTrial(crashing, command, template)
    assert crash.synced(trial.straight.calls, crashing.root / "pool.qrels")
    for at in trial.points():
        ended = trial.run(at)
        pool = judgements.read_pool(crashing.root / "pool.qrels")
        grades = [grade for grade in pool.grades if grade is not None]
        assert grades == [1, 0, 1, 0][: len(grades)], at
        shown = ended.err.count(" open   grade")
        assert len(grades) in {shown, shown - 1}, (at, ended)


def with_release(project: Toy, measured: Toy) -> Toy:
    """Decide on a copy of what was measured, and keep it as a release."""
    shutil.rmtree(project.root)
    made = measured.copied(project.root)
    made.untimed()
    made.decide()
    shutil.copytree(made.root / "build", made.root / "before")
    shutil.copy(made.root / "policy" / "toy.toml", made.root / "policy" / "regress.toml")
    return made


TEMPORARY = (
    "init begun", "arm check fts5", f"verify --dataset {NAME}", "regress --baseline before",
)  # fmt: skip
"""Commands that write temporary files; the last ones read a decision."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("typed", TEMPORARY)
def test_without_room_for_temporary_files_nothing_is_lost_and_the_message_says_where(
    crashing: Crashing, template: Toy, measured: Toy, tmp_path: Path, typed: str
) -> None:
    if typed in TEMPORARY[2:]:
        template = with_release(template, measured)
    temporary = tmp_path / "temporary"

    def run(at: int = 0) -> Ended:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        crashing.put_back(template.root)
        fails: Any = {"at": at, "how": errno.ENOSPC, "for_good": True, "temporary": str(temporary)}
        return crashing.attempt(Attempt(str(crashing.root), typed.split(), **fails))

    straight = run()
    assert straight.code == 0, straight.out
    before, calls = everything(template.root), len(straight.calls)
    assert calls
    for at in range(1, calls + 1) if EVERY else (1, calls // 2):
        ended = run(at)
        where = (at, straight.calls[at - 1], ended)
        if ended.code == 0:
            assert straight.calls[at - 1].startswith(("unlink ", "rmdir ")), where
            continue
        assert ended.code == 2, where
        assert f"{temporary}/harness-{os.getuid()}: temporary files cannot be written" in ended.err
        assert REMEDY in ended.err, where
        after = everything(crashing.root)
        assert {one: after.get(one) for one in before} == before, where
        assert left_over(crashing.root) == left_over(template.root), where
        assert not [one for one in temporary.rglob("*") if one.is_file()], where
