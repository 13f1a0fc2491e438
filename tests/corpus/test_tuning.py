"""The record of a tuning, and which queries of a decision it has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.records import Query
from harness.corpus.tuning import (
    Difference,
    Seen,
    TuningRecord,
    digest_of,
    digests_of,
    leak,
    read,
)

SHA = "0" * 64


def record(*texts: str) -> TuningRecord:
    seen = digests_of(Query(f"t{at}", text) for at, text in enumerate(texts))
    one = Seen(
        dataset="a",
        split="train",
        corpus=SHA,
        queries=SHA,
        qrels=SHA,
        words=seen,
        left_out=None,
    )
    return TuningRecord(
        arm="own",
        base=SHA,
        measure="nDCG@10",
        k=10,
        seed=1,
        folds=5,
        confidence=0.95,
        resamples=1000,
        first=None,
        keep=0.5,
        space={"k1": (0.9, 1.2)},
        settings={"k1": 0.9},
        candidates=2,
        failed={},
        given=0.5,
        apparent=0.75,
        expected=0.625,
        gain=Difference(value=0.125, low=0.0, high=0.25),
        collections=(one,),
    )


@pytest.mark.parametrize("text", ["Moving average?", "average, moving", "MOVING  average"])
def test_a_query_is_known_by_its_words_and_not_by_its_id_case_or_order(text: str) -> None:
    found = leak("own", record("moving average", "heat"), [Query("x", text), Query("y", "cold")])
    assert (found.seen, found.judged, found.collections) == (1, 2, ("a/train",))
    assert found.said == "own was tuned on 1 of the 2 judged queries (a/train)"


def test_another_word_is_another_query() -> None:
    assert digest_of("moving average") != digest_of("moving averages")
    assert leak("own", record("moving average"), [Query("t0", "moving averages")]).seen == 0


def test_what_is_written_is_read_and_optimism_is_what_the_choice_loses(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(record("heat").model_dump_json())
    found = read(tmp_path / "r.json")
    assert found == record("heat")
    assert found.optimism == 0.125


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "not a tuning record"), ("{}", "arm: Field required"), (None, "no such file")],
)
def test_what_is_no_record_is_refused_by_its_name(
    tmp_path: Path, text: str | None, told: str
) -> None:
    path = tmp_path / "r.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadFile, match=told) as refused:
        read(path)
    assert str(path) in str(refused.value)
    assert "harness tune" in str(refused.value)
