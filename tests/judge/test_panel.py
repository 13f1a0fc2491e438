"""Panels of assessors, and judgements taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, BadName
from harness.core.folders import NotOurs
from harness.core.records import Qrels
from harness.corpus import judgements
from harness.corpus.judgements import Pool
from harness.judge.judge import judged_queries
from harness.judge.panel import Settled, agreement, own_file, read, second_look, settle
from tests.make.desk import make_panel, write_pool

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


def test_agreement_of_what_was_judged_twice(tmp_path: Path) -> None:
    files = make_panel(tmp_path, 60, NAMES)
    for name, path in files.items():
        thirds = (int(pair.query_id[1:]) % 3 for pair in judgements.read_pool(path).pairs)
        grade(path, *((2 if name == "cyd" and one == 0 else one) for one in thirds))
    found = agreement(read(panel_of(files)), 0.95)
    cohen = {(one, other): kappa for one, other, kappa in found.cohen}
    same, off = cohen["ada", "ben"], cohen["ada", "cyd"]
    assert found.alpha
    assert same
    assert off
    assert same.value == 1
    assert off.value < 0.6
    assert off.high < same.low
    assert off.value < found.alpha.value < 1
    assert found.twice == 60
    assert found.differ == found.far > 0
    grade(files["ada"], *([0, 1, 2] * 4), *[None] * 48)
    found = agreement(read(panel_of(files)), 0.95)
    assert found.alpha
    assert found.fleiss
    assert (found.twice, found.alpha.n, found.fleiss.n) == (60, 60, 12)


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


def test_the_farthest_apart_come_first(tmp_path: Path) -> None:
    files, to = make_panel(tmp_path), tmp_path / "settled.qrels"
    grade(files["a"], 0, 2, 2, 1)
    grade(files["b"], 1, 1, 0, 1)
    settled(files, to)
    first = judgements.read_pool(second_look(to)).pairs[0]
    assert first == judgements.read_pool(files["a"]).pairs[2]


def test_no_file_of_a_person_is_written_over(tmp_path: Path) -> None:
    files = make_panel(tmp_path)
    before = files["a"].read_bytes()
    with pytest.raises(NotOurs):
        settled(files, files["a"])
    assert files["a"].read_bytes() == before


def first_lines(path: Path, count: int) -> None:
    """Cut a file off, as a copy that broke off does."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


@pytest.mark.parametrize(
    ("texts_too", "says"),
    [
        (False, r"pool\.b\.qrels: 2 of 4 pairs are gone, the first .*Put the lines back"),
        (True, r"b\.qrels: its 2 pairs are not the 4 of pool\.a\.qrels\. Restore it and pool\.b"),
    ],
)
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, says: str, *, texts_too: bool) -> None:
    """It read as "2 of 2 judged", and the judgements of two pairs were gone without a word."""
    files = make_panel(tmp_path)
    first_lines(files["b"], 2)
    if texts_too:
        first_lines(judgements.texts_path(files["b"]), 2)
    with pytest.raises(BadFile, match=says):
        read(panel_of(files))


def test_a_grade_off_the_scale_is_refused_with_its_line(tmp_path: Path) -> None:
    files = make_panel(tmp_path)
    lines = files["a"].read_text().splitlines()
    lines[2] = f"{lines[2][:-1]}3"
    files["a"].write_text("\n".join(lines) + "\n")
    with pytest.raises(BadFile, match=r"a\.qrels:3: the grade 3 is not on the scale 0, 1, 2"):
        read(panel_of(files))


def test_of_queries_without_a_difference_as_many_are_drawn_as_people_judged_others() -> None:
    signs = {f"q{at}": {"d": 1} if at < 10 else {} for at in range(30)}
    people = Qrels({f"q{at}": {"d": 1} for at in range(5)})
    found = judged_queries(signs, people, Path("human.qrels"), seed=1)
    assert (found[:10].sum(), found[10:].sum()) == (5, 10)
