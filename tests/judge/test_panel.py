"""Panels of assessors, and judgements taken over."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from harness.core.errors import BadFile, BadName, EvidenceError, HarnessError
from harness.core.files import held
from harness.core.folders import FileChange, NotOurs, journal_of
from harness.corpus import judgements
from harness.corpus.judgements import Overtaken, Pool
from harness.judge.panel import Settled, agreement, own_file, read, second_look, settle
from harness.judge.pool import folder_of, labels_in, samples_in, take_sample
from tests.make.desk import make_panel, write_pool
from tests.make.toy import Toy

NAMES = ("ada", "ben", "cyd")
Files = dict[str, Path]


def grade(path: Path, *grades: int | None) -> None:
    judgements.write_grades(path, Pool(judgements.read_pool(path).pairs, grades))


def panel_of(files: Files) -> list[Path]:
    return [*files.values()]


def settled(files: Files, to: Path) -> Settled:
    return settle(read(panel_of(files)), to, panel_of(files))


def test_each_has_a_file_without_the_grades_of_others_and_goes_on_in_it(tmp_path: Path) -> None:
    pool = write_pool(tmp_path)
    judgements.write_grades(pool, Pool(judgements.read_pool(pool).pairs, (2, 1, 0, None)))
    path = own_file(pool, "ada")
    assert path == tmp_path / "pool.ada.qrels"
    assert judgements.read_pool(path).pairs == judgements.read_pool(pool).pairs
    assert judgements.read_pool(path).grades == (None,) * 4
    grade(path, 1, None, None, None)
    assert own_file(pool, "ada") == path
    assert judgements.read_pool(path).grades == (1, None, None, None)
    with pytest.raises(BadName, match="is not a name of an assessor"):
        own_file(pool, "../x")


def test_two_who_judge_one_pair_at_once_lose_nothing(tmp_path: Path) -> None:
    pool = write_pool(tmp_path, 4)
    files = {name: own_file(pool, name) for name in NAMES}
    work = [
        (path, pair, (at + len(name)) % 3)
        for name, path in files.items() for at, pair in enumerate(judgements.read_pool(path).pairs)
    ]  # fmt: skip
    with ThreadPoolExecutor(6) as many:
        list(many.map(lambda one: judgements.regrade(one[0], one[1], None, one[2]), work))
    for path, pair, given in work:
        part = judgements.read_pool(path)
        assert part.grades[part.pairs.index(pair)] == given
    with pytest.raises(Overtaken):
        judgements.regrade(work[0][0], work[0][1], None, (work[0][2] + 1) % 3)


def test_agreement_of_what_was_judged_twice(tmp_path: Path) -> None:
    files = make_panel(tmp_path, 60, NAMES)
    for name, path in files.items():
        thirds = (int(pair.query_id[1:]) % 3 for pair in judgements.read_pool(path).pairs)
        grade(path, *((2 if name == "cyd" and one == 0 else one) for one in thirds))
    found = agreement(read(panel_of(files)), 0.95)
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


def test_fleiss_is_of_the_pairs_that_all_judged(tmp_path: Path) -> None:
    files = make_panel(tmp_path, 30, NAMES)
    for path in files.values():
        grade(path, *(at % 3 for at in range(30)))
    grade(files["cyd"], *(at % 3 if at < 12 else None for at in range(30)))
    found = agreement(read(panel_of(files)), 0.95)
    assert found.alpha
    assert found.fleiss
    assert (found.twice, found.alpha.n, found.fleiss.n) == (30, 30, 12)


def test_what_is_not_judged_twice_has_no_agreement(tmp_path: Path) -> None:
    pool = write_pool(tmp_path)
    found = agreement(read([own_file(pool, name) for name in NAMES]), 0.95)
    assert (found.twice, found.alpha, found.fleiss, found.cohen) == (0, None, None, ())
    assert [(one.judged, one.of) for one in found.assessors] == [(0, 4)] * 3


def test_disagreements_get_a_second_look_before_anything_is_settled(tmp_path: Path) -> None:
    files, to = make_panel(tmp_path), tmp_path / "settled.qrels"
    part = judgements.read_pool(files["a"]).pairs
    grade(files["a"], 2, 0, 1, None)
    grade(files["b"], 1, 1, 1, None)
    assert settled(files, to) == (1, 1, 2)
    assert not to.exists()
    path = second_look(to)
    looked = judgements.read_pool(path)
    assert {pair.doc_id for pair in looked.pairs} == {part[0].doc_id, part[1].doc_id}
    judgements.regrade(path, looked.pairs[0], None, 2)
    grade(files["a"], 2, 0, 0, None)
    assert settled(files, to) == (1, 1, 2)
    for pair in judgements.read_pool(path).pairs:
        if pair != looked.pairs[0]:
            judgements.regrade(path, pair, None, 0)
    assert settled(files, to) == (3, 1, 0)
    assert sorted(judgements.read_pool(to).grades, key=str) == [0, 0, 2]
    assert judgements.read_pool(path).grades.count(2) == 1


def test_a_pair_that_one_judged_is_settled_by_that_grade(tmp_path: Path) -> None:
    files, to = make_panel(tmp_path), tmp_path / "settled.qrels"
    grade(files["b"], None, None, 1, None)
    assert settled(files, to) == (4, 0, 0)
    assert judgements.read_pool(to).grades == (1, 1, 1, 1)


def test_the_farthest_apart_come_first(tmp_path: Path) -> None:
    files, to = make_panel(tmp_path), tmp_path / "settled.qrels"
    grade(files["a"], 0, 2, 2, 1)
    grade(files["b"], 1, 1, 0, 1)
    settled(files, to)
    assert (
        judgements.read_pool(second_look(to)).pairs[0] == judgements.read_pool(files["a"]).pairs[2]
    )


def test_no_file_of_a_person_is_written_over(tmp_path: Path) -> None:
    files = make_panel(tmp_path)
    before = files["a"].read_bytes()
    with pytest.raises(NotOurs):
        settled(files, files["a"])
    assert files["a"].read_bytes() == before


def test_two_people_are_needed_and_each_has_one_file(tmp_path: Path) -> None:
    files = make_panel(tmp_path)
    with pytest.raises(HarnessError, match="takes the files of two people"):
        read([files["a"]])
    with pytest.raises(HarnessError, match="a has another file"):
        read([files["a"], files["a"]])


def cut_off(path: Path, text: str) -> None:
    """Leave the journal of a change that no one completed."""
    left = FileChange(path, (path.parent,), "cut off")
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
    monkeypatch.setattr("harness.core.folders.held", partial(held, patience_s=0.2))
    files, to = make_panel(tmp_path), tmp_path / "settled.qrels"
    grade(files["a"], 0, 0, 0, 0)
    first = settled(files, to)
    path = second_look(to)
    cut_off(path, path.read_text())
    if what == "settle":
        assert settled(files, to).open == first.open > 0
    else:
        judgements.regrade(path, judgements.read_held(path).pairs[0], None, 1)
        assert judgements.read_pool(path).grades[0] == 1
    assert not journal_of(path).exists()


def first_lines(path: Path, count: int) -> None:
    """Cut a file off, as a copy that broke off does."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


USES: dict[str, Callable[[Files, Path], object]] = {
    "report": lambda files, _: agreement(read(panel_of(files)), 0.95),
    "settle": settled,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("texts_too", "says"),
    [
        ("", r"pool\.b\.qrels: 2 of 4 pairs are gone, the first .*Put the lines back"),
        (
            "its texts too",
            r"b\.qrels: its 2 pairs are not the 4 of pool\.a\.qrels\. Restore it and pool\.b",
        ),
    ],
)
def test_a_file_that_was_cut_off_is_refused(
    tmp_path: Path, use: str, texts_too: str, says: str
) -> None:
    """It read as "2 of 2 judged", and the judgements of two pairs were gone without a word."""
    files, to = make_panel(tmp_path), tmp_path / "to"
    path = files["b"]
    first_lines(path, 2)
    if texts_too:
        first_lines(judgements.texts_path(path), 2)
    before = path.read_bytes()
    with pytest.raises(BadFile, match=says):
        USES[use](files, to)
    assert path.read_bytes() == before
    assert not to.exists()
    assert not second_look(to).exists()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("grade", [-1, 3])
def test_a_grade_off_the_scale_is_refused_with_its_line(
    tmp_path: Path, use: str, grade: int
) -> None:
    files, to = make_panel(tmp_path), tmp_path / "to"
    lines = files["a"].read_text().splitlines()
    lines[2] = f"{lines[2][:-1]}{grade}"
    files["a"].write_text("\n".join(lines) + "\n")
    says = rf"a\.qrels:3: the grade {grade} is not on the scale 0, 1, 2"
    with pytest.raises(BadFile, match=says):
        USES[use](files, to)
    assert not to.exists()


def test_disagreements_that_were_cut_off_are_refused(tmp_path: Path) -> None:
    files, to = make_panel(tmp_path), tmp_path / "to"
    grade(files["a"], 0, 0, 0, 0)
    assert settled(files, to).open == 4
    first_lines(second_look(to), 2)
    with pytest.raises(BadFile, match=r"disagreements: 2 of 4 pairs are gone"):
        settled(files, to)


def test_a_pool_that_is_no_sample_is_refused(project: Toy, tmp_path: Path) -> None:
    pool = tmp_path / "pool.qrels"
    pool.write_text("q00 0 d00 1\n")
    with pytest.raises((BadFile, EvidenceError), match="pool"):
        take_sample(project.layout, pool, "ada")
    assert labels_in(project.layout) == ()


def test_a_damaged_file_is_named(project: Toy) -> None:
    folder_of(project.layout).mkdir()
    (folder_of(project.layout) / "a.sample.json").write_text('{"query_id": 3}\n')
    with pytest.raises(BadFile, match=r"a\.sample\.json"):
        samples_in(project.layout)
