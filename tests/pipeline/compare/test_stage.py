"""Stage ``compare``: agreement of the pairs, of each control with itself, and differences."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.corpus.parquet import table_of
from harness.corpus.runs import CLASS_COLUMNS, read_run, read_scores, write_run
from harness.pipeline.compare import check_compared, compare, read_agreement
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import note_run
from tests.make.toy import CANDIDATE, CONTROL, NOTHING, Toy

PAIR = (CONTROL, CANDIDATE)


def test_each_query_has_a_class_and_each_control_a_noise(measured: Toy) -> None:
    found = read_agreement(measured.layout)
    assert set(found) == {PAIR, (CONTROL, CONTROL)}
    classes = dict(zip(found[PAIR].query_ids, found[PAIR].classes, strict=True))
    assert len(classes) == 41
    assert classes[NOTHING] == "both_empty"
    assert set(found[CONTROL, CONTROL].classes) == {"exact", "both_empty"}


def test_tables_of_other_pairs_are_refused(project: Toy) -> None:
    table = table_of(project.layout.classes, CLASS_COLUMNS)
    at = table.column_names.index("candidate")
    others = pa.array(["other"] * table.num_rows)
    pq.write_table(table.set_column(at, "candidate", others), project.layout.classes)
    with pytest.raises(BadFile, match="its pairs of engines are not those of"):
        read_agreement(project.layout)


def test_an_unsteady_control_shows_in_the_noise_alone(project: Toy) -> None:
    before = read_agreement(project.layout)[PAIR].scores["Jaccard@10"].mean
    write_run(
        replace(read_run(project.layout.run("hash-hybrid")), arm=CONTROL),
        project.layout.again(CONTROL),
    )
    note_run(project.layout, CONTROL)
    project.judge_again()
    found = read_agreement(project.layout)
    assert found[PAIR].scores["Jaccard@10"].mean == before
    assert "exact" not in set(found[CONTROL, CONTROL].classes)


def test_jaccard_is_over_the_union(measured: Toy) -> None:
    runs = [read_run(measured.layout.run(arm)) for arm in PAIR]
    found = read_agreement(measured.layout)[PAIR].scores["Jaccard@10"]
    for query_id, value in found.by_query.items():
        left, right = (set(run.ranking(query_id, 10)) for run in runs)
        assert value == pytest.approx(len(left & right) / len(left | right))
    assert found.undefined == {"both_empty": (NOTHING,)}


def test_differences_are_candidate_less_control(measured: Toy) -> None:
    scores = read_scores(measured.layout.per_query, ["arm"])
    apart = measured.layout.read(Layout.differences)[f"{CONTROL}~{CANDIDATE}"]
    for measure in measured.params.score.measures:
        values = [scores[arm,][measure].values for arm in PAIR]
        assert apart[measure].value == pytest.approx(float(np.mean(values[1] - values[0])))


def test_no_pair_is_no_comparison(project: Toy) -> None:
    compare(project.layout, [], project.params.compare, project.params.score.inference())
    assert read_agreement(project.layout) == {}
    assert json.loads(project.layout.differences.read_text()) == {}


def test_comparing_before_scoring_is_refused(project: Toy) -> None:
    project.layout.score_receipt.unlink()
    with pytest.raises(EvidenceError, match=r"nothing was measured yet\. .*harness stage score"):
        compare(project.layout, [PAIR], project.params.compare, project.params.score.inference())


def test_comparing_a_run_that_is_newer_than_its_scores_is_refused(project: Toy) -> None:
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="was changed since"):
        compare(project.layout, [PAIR], project.params.compare, project.params.score.inference())


def test_a_comparison_is_of_the_runs_it_was_made_from(project: Toy) -> None:
    check_compared(project.layout, [PAIR])
    path = project.layout.again(CONTROL)
    path.write_bytes(project.layout.again(CANDIDATE).read_bytes())
    with pytest.raises(EvidenceError, match=r"again\.parquet: was changed .*harness stage compare"):
        check_compared(project.layout, [PAIR])


def test_classes_that_are_gone_are_named(project: Toy) -> None:
    project.layout.classes.unlink()
    with pytest.raises(
        BadFile, match=r"classes\.parquet: no such file. Run: harness stage compare"
    ):
        read_agreement(project.layout)


def test_a_depth_below_one_is_refused(project: Toy) -> None:
    params = project.params.compare.model_copy(update={"depths": (0,)})
    with pytest.raises(HarnessError, match="depth 0"):
        compare(project.layout, [PAIR], params, project.params.score.inference())
