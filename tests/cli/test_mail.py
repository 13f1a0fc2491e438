"""``harness mail``: a mailbox of one's own, indexed without queries and judgements."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.project import Project
from harness.pipeline.mail import in_mailbox, mail_box, mail_service
from harness_engines.mcp_server import resolved
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.mcp_tools.arguments import InProject
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.cli.conftest import Harness
from tests.make.toy import Toy

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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("mail", "index", "absent.mbox"), "missing file"),
        (("mail", "index", "BOX", "BOX"), "has the name of another file"),
        (("mail", "index", "BOX", "--arm", "fts5"), "only arms of the stack mail"),
        (("mail", "drop-fts5"), "--mailbox"),
        (("mail-server", "--mailbox", "nowhere", "--dataset", "toy"), "not both"),
        (("mail-server", "--mailbox", "."), "harness mail"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    project: Toy, harness: Harness, tmp_path: Path, given: tuple[str, ...], says: str
) -> None:
    del project
    own = str(written(tmp_path, "work", ("ann", "Heat pump", "The pump is noisy.")))
    said = harness(*(own if one == "BOX" else one for one in given))
    assert said.code == 2
    assert says in said.error
