"""Commands of migrations, drills and mail."""

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.cli.project import Project
from harness.pipeline.mail import in_mailbox, mail_box, mail_service
from harness_engines.mcp_server import resolved
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.mcp_tools.arguments import InProject
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, value_in
from tests.cli.conftest import Harness
from tests.docs.pages import Shell
from tests.make.forging import forge, promoted
from tests.make.toy import FAILS, GATES, HEAD, STEP, Toy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("derived_once")]
SWITCHED = STEP + 'switch = "tantivy"\n'


@pytest.fixture(scope="module")
def begun_once(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Begin a migration of one step, whose decision says PROMOTE."""
    project = measured.copied(tmp_path_factory.mktemp("begun") / "project")
    project.untimed()
    project.policy(HEAD + SWITCHED + GATES)
    project.decide()
    Shell(project.root).harness("migrate", "begin", "--serving", "fts5")
    return project


@pytest.fixture
def begun(begun_once: Toy, project: Toy) -> Toy:
    """Make a copy for a test, in the folder that its commands are called in."""
    shutil.rmtree(project.root)
    return begun_once.copied(project.root)


def serves(project: Toy) -> str:
    return value_in(project.root / "migration" / "switch.env")


def test_a_step_is_taken_by_its_decision_and_taken_back_at_once(
    begun: Toy, harness: Harness
) -> None:
    assert serves(begun) == "fts5"
    said = harness("migrate", "status")
    assert said.code == 0, said
    assert "nothing is taken since" in said.out
    assert "ADVANCE    nothing blocks tantivy" in said.out
    assert "noted: decision" in harness("migrate", "observe").out
    assert harness("migrate", "observe").out == "nothing new\n"
    said = harness("migrate", "advance")
    assert said.code == 0, said
    assert serves(begun) == "tantivy"
    assert "in force   tantivy since" in said.out
    assert "DRILL      the way back from tantivy was never walked" in said.out
    assert "evidence 0 days old, good for 2" in said.out
    assert "is the last step" in harness("migrate", "advance").error
    said = harness("migrate", "rollback", "--reason", "names are not found")
    assert (said.code, said.out) == (0, "back to start: SEARCH_ENGINE=fts5\n")
    assert serves(begun) == "fts5"
    said = harness("migrate", "advance")
    assert said.code == 1
    assert "it was decided before tantivy was taken back" in said.out
    assert serves(begun) == "fts5"


def test_a_decision_written_by_hand_takes_no_step(begun: Toy, harness: Harness) -> None:
    begun.policy(HEAD + SWITCHED + FAILS)
    begun.decide()
    assert "the decision is HOLD: Overlap fails" in harness("migrate", "advance").out
    forge(begun.layout, promoted)
    said = harness("migrate", "advance")
    assert said.code == 1
    assert "the decision is not believed" in said.out
    assert 'findings.Overlap.verdict: stored "pass", derived "fail"' in said.out
    assert serves(begun) == "fts5"


def test_the_files_that_a_run_left_are_verified_too(
    begun: Toy, harness: Harness, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    words = ("run", "--dataset", begun.layout.root.name, "--arms", "fts5,tantivy")
    assert harness(*words, "--control", "fts5", "--out", left).code == 0
    observed = ("migrate", "observe", "--from", left)
    assert "noted: decision" in harness(*observed).out
    (left / "index.html").write_text("another")
    assert "index.html: is not what its evidence gives" in harness(*observed).error


def test_an_override_is_done_and_shown_for_ever(begun: Toy, harness: Harness) -> None:
    begun.layout.decision.unlink()
    assert "--override asks for --reason" in harness("migrate", "advance", "--override").error
    assert "--reason is only for" in harness("migrate", "advance", "--reason", "x").error
    said = harness("migrate", "advance", "--override", "--reason", "the old disk is full")
    assert said.code == 0, said
    assert serves(begun) == "tantivy"
    harness("migrate", "rollback")
    said = harness("migrate", "status")
    assert "OVERRIDDEN tantivy on" in said.out
    assert "the old disk is full" in said.out
    assert "set aside: nothing was decided yet" in said.out


def test_a_step_in_force_that_fails_asks_for_its_rollback(
    begun: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness("migrate", "advance")
    begun.policy(HEAD + SWITCHED + FAILS)
    begun.decide()
    said = harness("migrate", "status")
    assert said.code == 1
    assert "ROLLBACK   to start: tantivy is in force and fails since" in said.out
    assert serves(begun) == "tantivy"
    begun.policy(HEAD + SWITCHED + GATES)
    begun.decide()
    later = datetime.now(UTC) + timedelta(days=3)
    monkeypatch.setattr("harness.migrate.commands.now", lambda: later)
    said = harness("migrate", "status")
    assert said.code == 3
    assert "MEASURE    of tantivy: evidence of" in said.out


def test_a_switch_set_by_hand_is_noticed_and_mended(begun: Toy, harness: Harness) -> None:
    path = begun.root / "migration" / "switch.env"
    harness("migrate", "advance")
    path.write_text("SEARCH_ENGINE=hybrid\n")
    said = harness("migrate", "status")
    assert said.code == 3
    assert "SWITCH" in said.out
    assert "is set to hybrid, and by the ledger it is tantivy" in said.out
    (again,) = re.findall(r"Set it again: harness (.+)", said.out)
    assert harness(*again.split()).code == 0
    assert serves(begun) == "tantivy"
    assert harness("migrate", "status").code == 0
    path.unlink()
    assert harness("migrate", "status").code == 3


def test_a_torn_ledger_is_refused_and_the_way_back_is_open_all_the_same(
    begun: Toy, harness: Harness
) -> None:
    harness("migrate", "advance")
    path = begun.root / "migration" / "ledger.json"
    path.write_text(path.read_text()[:-40])
    for words in (("status",), ("advance",), ("observe",), ("rollback",)):
        assert "is torn" in harness("migrate", *words).error
    assert serves(begun) == "tantivy"
    path.with_name("switch.env").write_text("SEARCH_ENGINE=fts5\n")
    assert serves(begun) == "fts5"


def test_days_are_counted_by_the_arms_that_were_compared(project: Toy, harness: Harness) -> None:
    """Two steps that were compared on one day were "2 days of comparison"."""
    second = SWITCHED.replace('"tantivy"', '"again"', 1).replace('baseline = "x"', "")
    project.untimed()
    project.policy(HEAD + SWITCHED + GATES + second.replace('"fts5"', '"hash-hybrid"', 1) + GATES)
    project.judge_again()
    harness("gate", "--exit-zero")
    assert harness("migrate", "begin", "--serving", "fts5").code == 0
    said = harness("migrate", "observe")
    today = datetime.now(UTC).date()
    first, *pairs = said.out.splitlines()
    assert first.startswith("noted: decision ")
    assert [line.strip() for line in pairs] == [
        f"{arms} -> tantivy: 1 day of comparison ({today})" for arms in ("fts5", "hash-hybrid")
    ]


def test_a_policy_with_a_step_that_no_switch_takes_is_refused_before_it_begins(
    project: Toy, harness: Harness
) -> None:
    project.untimed()
    project.policy(HEAD + STEP + GATES)
    said = harness("migrate", "begin", "--serving", "fts5").error
    assert "names no switch for tantivy, so they could never be taken; write switch = " in said
    assert not (project.root / "migration" / "ledger.json").exists()


MAIL = """From {name} Thu Jan  1 00:00:00 2026
Message-ID: <{name}@x>
From: {name}@corp.example
To: all@corp.example
Subject: {subject}

{text}

"""


def written(folder: Path, name: str, *mails: tuple[str, str, str]) -> Path:
    path = folder / f"{name}.mbox"
    parts = (MAIL.format(name=who, subject=about, text=text) for who, about, text in mails)
    path.write_text("".join(parts), encoding="utf-8")
    return path


def found(box: Path, query: str, switch: KillSwitch | None = None) -> tuple[list[str], str]:
    """Search every project; give the subjects, and the engine that answered."""
    cache = Project.here().cache
    with mail_service(in_mailbox(box), "mail-tantivy", cache, lambda: switch) as service:
        given = {"project_key": "*", "query": query}
        answer = service.now.search(resolved(InProject, given))
    return [one.subject for one in answer.result], answer.served_by.engine


@pytest.fixture
def box(project: Toy, harness: Harness, tmp_path: Path) -> Path:
    del project
    work = written(tmp_path, "work", ("ann", "Heat pump", "The pump is noisy."))
    home = written(tmp_path, "home", ("bob", "Pump", "Straw."), ("ann", "Bees", "Two hives."))
    said = harness("mail", "index", str(work), str(home), "--out", str(tmp_path / "box"))
    assert (said.code, said.out.split()[0]) == (0, "3")
    return tmp_path / "box"


def test_a_file_is_a_project_and_needs_no_queries(box: Path, harness: Harness) -> None:
    assert sorted(found(box, "pump")[0]) == ["Heat pump", "Pump"]
    assert found(box, "pump project:home") == (["Pump"], "tantivy")
    other = written(box.parent, "later", ("cid", "Pump house", "Rent."))
    assert harness("mail", "index", str(other), "--out", str(box)).code == 0
    assert found(box, "pump")[0] == ["Pump house"]


def test_fts5_is_dropped_for_good_once_tantivy_has_all(box: Path, harness: Harness) -> None:
    layout, cache = in_mailbox(box), Project.here().cache
    with mail_box(layout, "mail-tantivy", cache) as letters:
        (late,) = letters.insert(Draft(1, "late", "", "Ann")).message_ids
        said = harness("mail", "drop-fts5", "--mailbox", str(box))
        assert "Tantivy is not ready" in said.error
        letters.delete(late)
    assert found(box, "pump", KillSwitch.FTS5)[1] == "fts5"
    assert harness("mail", "drop-fts5", "--mailbox", str(box)).code == 0
    assert found(box, "pump project:home") == (["Pump"], "tantivy")
    assert found(box, "pump project:home", KillSwitch.FTS5) == (["Pump"], "like")
