"""A panel: fair parts, agreement, a second look, and judgements in and out."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from harness.core.durable.journal import Change, journal_of
from harness.core.durable.locks import held
from harness.core.durable.owned import NotOurs
from harness.core.errors import BadFile, BadName, HarnessError, UnknownName
from harness.corpus import labels, pool_times
from harness.corpus import pool as pools
from harness.corpus.pool import Overtaken, Pool
from harness.stages.judging.panel.agreement import agreement
from harness.stages.judging.panel.exchange import export, take
from harness.stages.judging.panel.panel import Panel, begin, read
from harness.stages.judging.panel.settle import settle
from tests.make.desk import make_panel, write_pool

NAMES = ("ada", "ben", "cyd")


def dealt(folder: Path, count: int = 60, double: float = 0.3) -> Panel:
    guidelines = folder / "guide.txt"
    guidelines.write_text("1 is: I would be glad to have found it.")
    return begin(write_pool(folder, count), NAMES, double, 7, guidelines, folder / "panel")


def grade(panel: Panel, name: str, *grades: int | None) -> None:
    part = panel.parts[name]
    pools.write_grades(panel.path(name), Pool(part.pairs, grades))


def test_pairs_are_dealt_fairly_and_a_share_of_them_twice(tmp_path: Path) -> None:
    panel = dealt(tmp_path)
    assert len(panel.grades) == 60
    twice = [tuple(by) for by in panel.grades.values() if len(by) == 2]
    assert len(twice) == 18
    shared = {two: twice.count(two) for two in combinations(NAMES, 2)}
    assert max(shared.values()) - min(shared.values()) <= 1
    assert [len(part.pairs) for part in panel.parts.values()] == [26, 26, 26]
    assert (panel.folder / "guidelines.md").read_text().startswith("1 is")


def test_everyone_has_another_order_and_no_part_tells_which_pairs_are_shared(
    tmp_path: Path,
) -> None:
    panel = dealt(tmp_path, double=1.0)
    orders = [[pair.query_id for pair in part.pairs] for part in panel.parts.values()]
    assert all(order != sorted(order) for order in orders)
    for one, other in combinations(orders, 2):
        both = set(one) & set(other)
        assert [q for q in one if q in both] != [q for q in other if q in both]
    known = set(panel.parts["ada"].pairs[0].model_dump())
    assert not {"arm", "rank", "assessor", "double"} & known
    again = dealt_again(tmp_path)
    assert [part.pairs for part in again.parts.values()] == [p.pairs for p in panel.parts.values()]


def dealt_again(folder: Path) -> Panel:
    return begin(folder / "pool.qrels", NAMES, 1.0, 7, None, folder / "panel-2")


@pytest.mark.parametrize(
    ("names", "error", "says"),
    [
        (["ada"], HarnessError, "a panel needs two assessors"),
        (["ada", "ada"], HarnessError, "ada is taken as a name"),
        (["ada", "Ada"], BadName, "differs from it only by its case"),
        (["ada", "disagreements"], HarnessError, "disagreements is taken as a name"),
        (["ada", "../x"], BadName, "is not a name of an assessor"),
        (["a", "b", "c", "d", "e"], HarnessError, "the pool has 4 pairs, too few for 5"),
    ],
)
def test_a_panel_that_cannot_be_is_named_and_leaves_nothing(
    tmp_path: Path, names: list[str], error: type[Exception], says: str
) -> None:
    pool = write_pool(tmp_path)
    with pytest.raises(error, match=says):
        begin(pool, names, 0.0, 1, None, tmp_path / "panel")
    assert not (tmp_path / "panel").exists()


def test_a_panel_is_never_dealt_anew(tmp_path: Path) -> None:
    panel = make_panel(tmp_path)
    with pytest.raises(HarnessError, match="a panel began already"):
        begin(tmp_path / "dealt" / "pool.qrels", ["a", "b"], 1.0, 1, None, panel.folder)
    assert read(panel.folder).grades == panel.grades
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("my own")
    with pytest.raises(NotOurs):
        begin(tmp_path / "dealt" / "pool.qrels", ["a", "b"], 1.0, 1, None, tmp_path / "mine")


def test_two_who_judge_one_pair_at_once_lose_nothing(tmp_path: Path) -> None:
    panel = dealt(tmp_path, 6, 1.0)
    work = [
        (panel.path(name), pair, (at + len(name)) % 3)
        for name in NAMES for at, pair in enumerate(panel.parts[name].pairs)
    ]  # fmt: skip
    with ThreadPoolExecutor(6) as many:
        list(many.map(lambda one: pools.regrade(one[0], one[1], None, one[2]), work))
    now = read(panel.folder)
    for path, pair, given in work:
        part = now.parts[path.stem]
        assert part.grades[part.pairs.index(pair)] == given
    assert all(len(pool_times.read(panel.path(name))) == 4 for name in NAMES)
    with pytest.raises(Overtaken):
        pools.regrade(work[0][0], work[0][1], None, (work[0][2] + 1) % 3)
    assert len(pool_times.read(work[0][0])) == 4


def test_agreement_of_what_was_judged_twice(tmp_path: Path) -> None:
    panel = dealt(tmp_path, 60, 1.0)
    for name in NAMES:
        thirds = (int(pair.query_id[1:]) % 3 for pair in panel.parts[name].pairs)
        grade(panel, name, *((2 if name == "cyd" and one == 0 else one) for one in thirds))
    found = agreement(read(panel.folder), 0.95)
    cohen = {(one, other): kappa for one, other, kappa in found.cohen}
    same, off = cohen["ada", "ben"], cohen["ada", "cyd"]
    assert found.alpha
    assert found.fleiss
    assert same
    assert off
    assert same.value == 1
    assert off.value < 0.6
    assert off.high < same.low
    assert off.value < found.alpha.value < 1
    assert found.twice == 60
    assert found.differ == found.far > 0


def test_what_is_not_judged_twice_has_no_agreement(tmp_path: Path) -> None:
    found = agreement(dealt(tmp_path), 0.95)
    assert (found.twice, found.alpha, found.fleiss, found.cohen) == (0, None, None, ())
    assert [one.judged for one in found.assessors] == [0, 0, 0]


def test_speed_leaves_breaks_out_and_drift_is_seen(tmp_path: Path) -> None:
    panel = make_panel(tmp_path, 40, double=0.0)
    pairs = panel.parts["a"].pairs
    grades = [int(at >= 10) * 2 for at in range(20)]
    pools.write_grades(panel.path("a"), Pool(pairs, tuple(grades)))
    at, lines = datetime(2026, 1, 1, tzinfo=UTC), []
    for place, pair in enumerate(pairs):
        at += timedelta(hours=2) if place == 5 else timedelta(seconds=8)
        lines.append({"at": at.isoformat(), "query_id": pair.query_id, "doc_id": pair.doc_id,
                      "grade": grades[place]})  # fmt: skip
    times = pool_times.beside(panel.path("a"))
    times.write_text("".join(json.dumps(line) + "\n" for line in lines))
    one, other = agreement(read(panel.folder), 0.95).assessors
    assert one.median_s == 8
    assert one.drift
    assert (one.drift.value, one.drift.low) == (2, 2)
    assert other.median_s is None
    assert other.drift is None
    times.write_text('{"at": "noon"}\n')
    with pytest.raises(BadFile, match=r"a\.qrels\.times\.jsonl:1: it is not the time of a grade"):
        agreement(panel, 0.95)


def test_disagreements_get_a_second_look_before_anything_is_settled(tmp_path: Path) -> None:
    panel, to = make_panel(tmp_path), tmp_path / "settled.qrels"
    part = panel.parts["a"].pairs
    grade(panel, "a", 2, 0, 1, None)
    first = settle(read(panel.folder), to)
    assert (first.settled, first.unjudged, first.open) == (1, 1, 2)
    assert not to.exists()
    looked = pools.read(panel.disagreements)
    assert {pair.doc_id for pair in looked.pairs} == {part[0].doc_id, part[1].doc_id}
    pools.regrade(panel.disagreements, looked.pairs[0], None, 2)
    grade(panel, "a", 2, 0, 0, None)
    second = settle(read(panel.folder), to)
    assert (second.settled, second.open) == (1, 2)
    for pair in pools.read(panel.disagreements).pairs:
        if pair != looked.pairs[0]:
            pools.regrade(panel.disagreements, pair, None, 0)
    assert settle(read(panel.folder), to) == (3, 1, 0)
    assert sorted(pools.read(to).grades, key=str) == [0, 0, 2]
    assert pools.read(panel.disagreements).grades.count(2) == 1


def test_the_farthest_apart_come_first(tmp_path: Path) -> None:
    panel = make_panel(tmp_path)
    grade(panel, "a", 0, 2, 2, 1)
    other = {pair: 0 if at == 2 else 1 for at, pair in enumerate(panel.parts["a"].pairs)}
    grade(panel, "b", *(other[pair] for pair in panel.parts["b"].pairs))
    settle(read(panel.folder), tmp_path / "settled.qrels")
    assert pools.read(panel.disagreements).pairs[0] == panel.parts["a"].pairs[2]


def test_judgements_go_out_as_labels_and_come_back(tmp_path: Path) -> None:
    panel, to = make_panel(tmp_path), tmp_path / "people.jsonl"
    assert export(panel, to) == 8
    rows = labels.read(to)
    assert {(row.by, row.kind, row.grade) for row in rows} == {
        ("a", "person", 1),
        ("b", "person", 1),
    }
    with pytest.raises(BadFile, match="labels of 2 judges"):
        labels.judgements(to, "person")
    own = tmp_path / "a.jsonl"
    labels.write(own, [row for row in rows if row.by == "a"])
    grade(panel, "a", None, 1, None, None)
    assert take(panel, own, "a") == 3
    assert read(panel.folder).grades == panel.grades
    assert take(panel, own, "a") == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q9 0 d9 1", "a does not have this pair"),
        ("q1 0 d1 7", "the grade 7 is not on the scale"),
        ("q1 0 d1 2", "a judged it 1 already, and 2 here"),
    ],
)
def test_what_does_not_fit_a_part_changes_nothing(tmp_path: Path, line: str, says: str) -> None:
    panel = make_panel(tmp_path)
    grade(panel, "a", *(1 if pair.query_id == "q1" else None for pair in panel.parts["a"].pairs))
    before = panel.path("a").read_bytes()
    (tmp_path / "a.qrels").write_text(f"q0 0 d0 1\n{line}\n")
    with pytest.raises(BadFile, match=says):
        take(panel, tmp_path / "a.qrels", "a")
    assert panel.path("a").read_bytes() == before
    with pytest.raises(UnknownName, match="no assessor named 'eve'"):
        take(panel, tmp_path / "a.qrels", "eve")


def test_a_header_that_is_damaged_is_named(tmp_path: Path) -> None:
    panel = make_panel(tmp_path)
    (panel.folder / "panel.json").write_text("{}")
    with pytest.raises(BadFile, match=r"panel\.json: is not a panel's"):
        read(panel.folder)


def cut_off(path: Path, text: str) -> None:
    """Leave the journal of a change that no one completed."""
    left = Change(path, (path.parent,), "cut off")
    left.write(path, text)
    left.prepare(path, "")
    journal = journal_of(path)
    told = json.loads(journal.read_text())
    del told["proof"]
    journal.write_text(json.dumps(told))


@pytest.mark.parametrize("what", ["settle", "judge"])
def test_a_change_that_was_cut_off_is_completed_by_whoever_holds_the_pool(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the pool within its lock waited ten minutes for that lock."""
    monkeypatch.setattr("harness.core.durable.journal.held", partial(held, patience_s=0.2))
    panel = dealt(tmp_path, 10, 1.0)
    for name, given in zip(NAMES, (0, 1, 1), strict=True):
        grade(panel, name, *[given] * len(panel.parts[name].pairs))
    panel = read(panel.folder)
    first = settle(panel, tmp_path / "settled.qrels")
    path = panel.disagreements
    cut_off(path, path.read_text())
    if what == "settle":
        assert settle(panel, tmp_path / "settled.qrels").open == first.open > 0
    else:
        pools.regrade(path, pools.read_held(path).pairs[0], None, 1)
        assert pools.read(path).grades[0] == 1
    assert not journal_of(path).exists()


def first_lines(path: Path, count: int) -> None:
    """Cut a file off, as a copy that broke off does."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


USES: dict[str, Callable[[Panel, Path], object]] = {
    "report": lambda panel, _: agreement(panel, 0.95),
    "export": export,
    "settle": settle,
    "import": lambda panel, to: take(panel, to.with_name("own.qrels"), "a"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("texts_too", "says"),
    [
        ("", r"a\.qrels: 2 of 4 pairs are gone, the first .*Put the lines back"),
        (
            "its texts too",
            r"a\.qrels: it has 2 pairs, and 4 were dealt to a\. Restore it and a\.qrels\.jsonl",
        ),
    ],
)
def test_a_part_that_was_cut_off_is_refused(
    tmp_path: Path, use: str, texts_too: str, says: str
) -> None:
    """It read as "2 of 2 judged", and the judgements of two pairs were gone without a word."""
    panel, to = make_panel(tmp_path), tmp_path / "to"
    path = panel.path("a")
    (tmp_path / "own.qrels").write_text(path.read_text().splitlines()[0] + "\n")
    first_lines(path, 2)
    if texts_too:
        kept = {line.split()[2] for line in path.read_text().splitlines()}
        rows = pools.beside(path).read_text().splitlines(keepends=True)
        pools.beside(path).write_text("".join(r for r in rows if json.loads(r)["doc_id"] in kept))
    before = path.read_bytes()
    with pytest.raises(BadFile, match=says):
        USES[use](read(panel.folder), to)
    assert path.read_bytes() == before
    assert not to.exists()
    assert not panel.disagreements.exists()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("grade", [-1, 3])
def test_a_grade_off_the_scale_is_refused_with_its_line(
    tmp_path: Path, use: str, grade: int
) -> None:
    panel, to = make_panel(tmp_path), tmp_path / "to"
    lines = panel.path("a").read_text().splitlines()
    (tmp_path / "own.qrels").write_text(lines[0] + "\n")
    lines[2] = f"{lines[2][:-1]}{grade}"
    panel.path("a").write_text("\n".join(lines) + "\n")
    says = rf"a\.qrels:3: the grade {grade} is not on the scale 0, 1, 2"
    with pytest.raises(BadFile, match=says):
        USES[use](read(panel.folder), to)
    assert not to.exists()


def test_disagreements_that_were_cut_off_are_refused(tmp_path: Path) -> None:
    panel, to = make_panel(tmp_path), tmp_path / "to"
    grade(panel, "a", 0, 0, 0, 0)
    assert settle(read(panel.folder), to).open == 4
    first_lines(panel.disagreements, 2)
    with pytest.raises(BadFile, match=r"disagreements\.qrels: 2 of 4 pairs are gone"):
        settle(read(panel.folder), to)


def test_a_panel_of_an_earlier_version_says_what_was_dealt_by_its_texts(tmp_path: Path) -> None:
    panel = make_panel(tmp_path)
    header = json.loads((panel.folder / "panel.json").read_text())
    assert header.pop("dealt") == {"a": 4, "b": 4}
    (panel.folder / "panel.json").write_text(json.dumps(header))
    assert len(read(panel.folder).grades) == 4
    first_lines(panel.path("b"), 3)
    with pytest.raises(BadFile, match=r"b\.qrels: 1 of 4 pairs are gone"):
        export(read(panel.folder), tmp_path / "to")
