"""Message search as a stack under test: who answers, filters, and what happens to a broken part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engines import registry as arms
from engines.stacks.agent_mail import arm as mail
from harness.core.engine import TakesParams
from harness.core.errors import IndexNotReady
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import observe
from tests.make.damage import overwrite

DOCUMENTS = [
    Document(
        "m1",
        "br-2tnl is ready",
        "please review",
        {
            "project_id": 1,
            "product_id": 5,
            "sender": "Ann",
            "recipients": "Bob,Cid",
            "importance": "high",
            "created_ts": 10,
        },
    ),
    Document(
        "m2",
        "review of the plan",
        "br 2tnl mentioned in words",
        {
            "project_id": 2,
            "product_id": 5,
            "sender": "Bob",
            "recipients": "Ann",
            "ack_required": True,
            "created_ts": 20,
        },
    ),
    Document(
        "m3",
        "lunch",
        "review nothing",
        {
            "project_id": 3,
            "sender": "Ann",
            "recipients": "Bob",
            "thread_id": "t9",
            "created_ts": 30,
        },
    ),
]
SETTINGS = {
    "mode": "lexical",
    "search_engine": "",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "hash",
    "max_tokens": 64,
}


def stack(cache: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.Settings.model_validate({**SETTINGS, **changed}), cache)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "index"
    folder.mkdir()
    stack(tmp_path).build(DOCUMENTS, folder)
    yield folder
    shutil.rmtree(folder)


def shown(engine: mail.Mail, index: Path, text: str, **params: object) -> list[str]:
    with engine.open(index) as searcher:
        assert isinstance(searcher, TakesParams)
        found = searcher.search_with(text, 10, params)  # type: ignore[arg-type]
        assert found.served_by == searcher.manifest.fingerprint
        return [hit.doc_id for hit in found.hits]


@pytest.mark.parametrize("switch", ["fts5", "tantivy"])
def test_an_identifier_finds_its_message_first_in_both_engines(tmp_path: Path, switch: str) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    engine = stack(tmp_path, search_engine=switch)
    engine.build(DOCUMENTS, folder)
    assert shown(engine, folder, "br-2tnl")[0] == "m1"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"project_id": 2}, ["m2"]),
        ({"product_id": 5}, ["m1", "m2"]),
        ({"importance": "high,urgent"}, ["m1"]),
        ({"sender_name": "Ann"}, ["m1", "m3"]),
        ({"recipient_name": "Cid"}, ["m1"]),
        ({"agent_name": "Ann", "direction": "inbox"}, ["m2"]),
        ({"ack_required": True}, ["m2"]),
        ({"thread_id": "t9"}, ["m3"]),
        ({"min_ts": 20, "max_ts": 30}, ["m2", "m3"]),
        ({"sender_name": "Ann", "project_id": 3}, ["m3"]),
    ],
)
def test_params_are_filters_in_every_mode(
    tmp_path: Path, index: Path, params: dict[str, object], expected: list[str]
) -> None:
    assert sorted(shown(stack(tmp_path), index, "review", **params)) == expected


def test_another_setting_does_not_open_this_index(tmp_path: Path, index: Path) -> None:
    with pytest.raises(IndexNotReady), stack(tmp_path, mode="hybrid").open(index):
        pass


def test_an_unknown_param_is_a_failed_query_that_names_it(tmp_path: Path, index: Path) -> None:
    with stack(tmp_path).open(index) as searcher:
        query = Query("q", "review", params={"folder": "x"})
        row = observe(searcher, query, 5, 10**12).row
    assert row.status is Status.FAILED
    assert "folder" in row.error


def test_a_query_with_params_is_asked_with_them(tmp_path: Path, index: Path) -> None:
    query = Query("q", "review", params={"project_id": 3})
    with stack(tmp_path).open(index) as searcher:
        with_params = observe(searcher, query, 5, 10**12).row
        without = observe(searcher, replace(query, params={}), 5, 10**12).row
    assert [hit.doc_id for hit in with_params.hits] == ["m3"]
    assert len(without.hits) == 3


def test_a_broken_tantivy_is_served_by_fts5_and_not_signed_by_the_arm(
    tmp_path: Path, index: Path
) -> None:
    shutil.rmtree(index / mail.TANTIVY)
    (index / mail.TANTIVY).write_text("not a folder")
    with stack(tmp_path).open(index) as searcher:
        answer = searcher.search("review", 5)
        assert len(answer.hits) == 3
        assert answer.served_by != searcher.manifest.fingerprint
        assert "tantivy" in answer.note


def test_a_broken_vector_file_is_an_absent_part_and_the_arm_does_not_sign(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    engine = stack(tmp_path, mode="hybrid")
    engine.build(DOCUMENTS, folder)
    path = folder / mail.VECTORS
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    overwrite(path, raw)
    with engine.open(folder) as searcher:
        answer = searcher.search("review", 5)
        assert len(answer.hits) == 3
        assert answer.served_by != searcher.manifest.fingerprint
        assert "vectors.amvi: its CRC-32 is" in answer.note


def test_an_error_of_the_caller_is_not_taken_for_a_broken_index(
    tmp_path: Path, index: Path
) -> None:
    with pytest.raises(ValueError, match="mine"), stack(tmp_path).open(index):
        raise ValueError("mine")


def test_the_mail_arms_differ_in_what_answers_first() -> None:
    loaded = {name: arms.load(name, Path()) for name in arms.names() if name.startswith("mail-")}
    assert set(loaded) >= {"mail-fts5", "mail-tantivy", "mail-hybrid", "mail-hash"}
    settings = {name: arm.engine.settings for name, arm in loaded.items()}  # type: ignore[attr-defined]
    assert settings["mail-fts5"].search_engine == "fts5"
    assert settings["mail-hybrid"].mode == "hybrid"


@pytest.mark.parametrize(
    "path", sorted(arms.FOLDER.glob("mail-*.toml")), ids=lambda path: path.stem
)
def test_each_arm_has_a_budget(path: Path, tmp_path: Path) -> None:
    served = arms.load(path.stem, tmp_path).engine
    assert isinstance(served, mail.Mail)
    assert 10_000 <= served.settings.budget_ms <= 60_000
