"""Which SQLite reads the store is a setting of the arm: the answers stay, the name does not."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path

import pytest

from engines.contract.errors import FeatureUnavailable
from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail.sqlite import apsw as apsw_store
from engines.stacks.agent_mail.sqlite import drivers
from engines.stacks.agent_mail.sqlite.drivers import Driver
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Document

SETTINGS = {
    "mode": "lexical",
    "search_engine": "fts5",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "",
    "max_tokens": 64,
}
DOCUMENTS = [
    Document("a", "br-2tnl is ready", "review it", {"sender": "Ann", "recipients": "Bob"}),
    Document("b", "lunch", "nothing to review", {"sender": "Bob", "recipients": "Ann,Cid"}),
]


def stack(cache: Path, sqlite: str) -> mail.Mail:
    return mail.Mail(mail.Settings.model_validate({**SETTINGS, "sqlite": sqlite}), cache)


def test_an_arm_that_names_none_is_read_by_pythons_and_says_its_version(tmp_path: Path) -> None:
    plain = mail.Mail(mail.Settings.model_validate(SETTINGS), tmp_path)
    assert plain.settings.driver is Driver.STDLIB
    assert plain.version.startswith(f"sqlite {sqlite3.sqlite_version}, tantivy ")


@pytest.fixture
def no_apsw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw_store, "find_spec", lambda _: None)


@pytest.mark.usefixtures("no_apsw")
def test_an_absent_driver_is_told_with_its_hint_when_built_and_when_opened(tmp_path: Path) -> None:
    (index := tmp_path / "index").mkdir()
    stack(tmp_path, "stdlib").build(DOCUMENTS, index)
    asked = stack(tmp_path, "apsw")
    with pytest.raises(InvalidArm, match=r"apsw.*pip install"), asked.open(index):
        pass
    (other := tmp_path / "other").mkdir()
    with pytest.raises(InvalidArm, match=r"apsw.*pip install"):
        asked.build(DOCUMENTS, other)
    with pytest.raises(FeatureUnavailable, match="pip install"):
        drivers.version(Driver.APSW)


@pytest.mark.skipif(not importlib.util.find_spec("apsw"), reason="apsw is an optional extra")
def test_through_apsw_the_arm_answers_alike_and_signs_as_another(tmp_path: Path) -> None:
    answers, signed = [], []
    for name in ("stdlib", "apsw"):
        (index := tmp_path / name).mkdir()
        made = stack(tmp_path, name).build(DOCUMENTS, index)
        with stack(tmp_path, name).open(index) as searcher:
            found = searcher.search("review br-2tnl", 5)
        assert found.served_by == made.fingerprint
        answers.append([(hit.doc_id, pytest.approx(hit.raw_score)) for hit in found.hits])
        signed.append(made)
    assert answers[0] == answers[1] != []
    assert signed[0].fingerprint != signed[1].fingerprint
    assert drivers.version(Driver.APSW) in signed[1].version
    with pytest.raises(IndexNotReady), stack(tmp_path, "apsw").open(tmp_path / "stdlib"):
        pass
