"""A damaged index is not asked: whatever is cut, altered or gone is IndexUnavailable."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from engines.contract import IndexUnavailable
from engines.stacks.agent_mail.contract import RankingMode
from engines.stacks.agent_mail.tantivy import index as tantivy_index
from engines.stacks.agent_mail.tantivy.index import INDEX, META, SUFFIXES, check
from tests.make.damage import overwrite
from tests.make.mail.messages import some_mail
from tests.make.mail.tantivy import NONE, Case, built, delete, upsert

pytestmark = pytest.mark.slow
MAIL = some_mail(31, 120)


@pytest.fixture
def mail(tmp_path: Path) -> Case:
    """Two segments, one of them with deleted messages."""
    made = built(tmp_path / "mail", MAIL.messages[:100])
    made.engine.update_incremental([
        delete(MAIL.messages[0].message_id),
        *(upsert(message) for message in MAIL.messages[100:]),
    ])
    del made.source.by_id[MAIL.messages[0].message_id]
    made.source.by_id.update({m.message_id: m for m in MAIL.messages[100:]})
    return made


def _gone(path: Path, _: Random) -> None:
    path.unlink()


def _empty(path: Path, _: Random) -> None:
    overwrite(path, b"")


def _cut(path: Path, rng: Random) -> None:
    overwrite(path, path.read_bytes()[: rng.randrange(1, path.stat().st_size)])


def _altered(path: Path, rng: Random) -> None:
    whole = bytearray(path.read_bytes())
    whole[rng.randrange(len(whole) // 2)] ^= 1 << rng.randrange(8)
    overwrite(path, whole)


def _folder(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *itertools.product([*SUFFIXES, "del"], [_gone, _empty, _cut, _altered, _folder]),
        *itertools.product([META], [_gone, _empty, _cut, _folder]),
    ],
)
def test_a_damaged_file_is_found_when_the_index_is_opened(
    mail: Case, suffix: str, damage: Callable[[Path, Random], None]
) -> None:
    path = next((mail.engine.root / INDEX).glob(f"*{suffix}"))
    damage(path, Random(suffix))
    fresh = mail.fresh()
    with pytest.raises(IndexUnavailable, match=r"broken|no index here"):
        fresh.ids("review")
    health = fresh.engine.health()
    assert not health.ready
    assert str(fresh.engine.root) in health.reason
    with pytest.raises(IndexUnavailable):
        fresh.engine.update_incremental([delete(3)])
    assert fresh.engine.rebuild().documents == 120 - 1
    assert fresh.engine.health().ready
    assert fresh.ids("") == [m.message_id for m in MAIL.messages[1:]]


@pytest.mark.parametrize(
    "garbled", ["", "{", "[]", "{}", '{"segments": 3}', '{"segments": [{}]}', "null", '"meta"']
)
def test_a_garbled_list_of_segments_is_not_ready(mail: Case, garbled: str) -> None:
    (mail.engine.root / INDEX / META).write_text(garbled)
    with pytest.raises(IndexUnavailable, match="broken"):
        mail.fresh().ids("review")
    with pytest.raises(IndexUnavailable, match="broken"):
        mail.engine.search("review", NONE, RankingMode.RELEVANCE, 5)


def test_a_checked_file_is_not_read_again(mail: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mail.engine.root / INDEX
    known = check(index, frozenset())
    suffixes = {Path(seen.name).suffix.removeprefix(".") for seen in known}
    assert suffixes == {*SUFFIXES, "del"}
    read: list[Path] = []
    monkeypatch.setattr(tantivy_index, "_check_one", read.append)
    assert check(index, known) == known
    assert read == []
    mail.engine.update_incremental([delete(MAIL.messages[1].message_id)])
    assert {path.suffix for path in read} == {".del"}, "only what the commit added"


def test_a_file_changed_since_it_was_checked_is_read_again(mail: Case) -> None:
    index = mail.engine.root / INDEX
    known = check(index, frozenset())
    path = next(index.glob("*.store"))
    _altered(path, Random(1))
    with pytest.raises(ValueError, match="altered"):
        check(index, known)
