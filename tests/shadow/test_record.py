"""A record comes back as it was written, and a line that is none is named."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agreement import Class
from harness.core.engine import Hit
from harness.core.errors import BadFile
from harness.core.records import Scalar
from harness.core.run import Status
from harness.shadow.record import (
    AGREED,
    DIVERGING,
    HEAD,
    SKIPPED,
    AnyRecord,
    Divergence,
    LoggedAnswer,
    Observation,
    dumped,
    parsed,
    query_key,
)
from tests.make.shadow_records import degradation, observation
from tests.make.shadow_records import reordered as divergence
from tests.make.shadow_records import showing as side

PATH = Path("shadow/observations.jsonl")


@pytest.mark.parametrize(
    "record",
    [
        observation(),
        observation(outcome=Class.SHED, reason="queue", candidate=None, jaccard=None, rbo=None),
        divergence(),
        divergence(candidate=side("", status=Status.TIMED_OUT, error="late", elapsed_ns=5)),
        degradation(),
    ],
)
def test_a_record_comes_back_as_it_was_written(
    record: AnyRecord,
) -> None:
    line = dumped(record)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)["format"] == 1
    assert parsed(type(record), line, PATH, 1) == record


finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    text=words,
    hits=st.lists(st.tuples(words, finite, finite), max_size=4),
    params=st.dictionaries(words, st.none() | st.booleans() | st.integers() | finite | words),
)
def test_whatever_was_typed_and_shown_comes_back(
    text: str,
    hits: list[tuple[str, float, float]],
    params: dict[str, str | int | float | bool | None],
) -> None:
    shown = LoggedAnswer(
        Status.ANSWERED, tuple(Hit(*hit) for hit in hits), "p", "", "", 1, "g", "g"
    )
    wanted = divergence(text=text, params=params, candidate=shown)
    found = parsed(Divergence, dumped(wanted), PATH, 1)
    assert found == wanted
    assert [hit.doc_id for hit in found.candidate.hits] == [hit[0] for hit in hits]
    assert {k: type(v) for k, v in found.params.items()} == {k: type(v) for k, v in params.items()}


LINE = dumped(observation())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "does not start with"),
        (LINE.replace(b'"format":1', b'"format":2'), "does not start with"),
        (LINE[: len(LINE) // 2], "is not JSON"),
        (HEAD + b"}", "is not JSON"),
        (LINE.replace(b'"k":10', b'"k":"10"'), "k: Input should be a valid integer"),
        (LINE.replace(b'"number":1', b'"number":0'), "number: "),
        (LINE.replace(b'"exact"', b'"equalish"'), "outcome: "),
        (LINE.replace(b'"answered"', b'"maybe"'), "'maybe' is not one of answered"),
        (LINE.replace(b'"jaccard":1.0', b'"jaccard":1.1'), "jaccard: "),
        (LINE.replace(b'"rbo":1.0', b'"rbo":NaN'), "NaN is not JSON"),
        (dumped(observation(jaccard=float("nan"))).replace(b"null", b"NaN"), "NaN is not JSON"),
        (LINE.replace(b'"k":10', b'"k":10,"z":1'), "z: Unexpected"),
        (dumped(divergence()), "invalid observation"),
    ],
)
def test_a_line_that_is_no_record_is_named_by_file_and_line(line: bytes, problem: str) -> None:
    with pytest.raises(BadFile, match=problem) as caught:
        parsed(Observation, line, PATH, 7)
    assert str(caught.value).startswith(f"{PATH}:7: ")


@pytest.mark.parametrize("key", ["at", "number", "served", "k", "elapsed_ns", "hits"])
def test_a_count_that_no_array_takes_is_refused(key: str) -> None:
    """A time of 10^29 ns ended every reader of the log, and ``traffic`` at 10^20 already."""
    line = dumped(observation())
    for number, refused in ((2**63 - 1, False), (2**63, True)):
        told = re.sub(rb'("%s":)\d+' % key.encode(), rb"\g<1>%d" % number, line, count=1)
        with pytest.raises(BadFile, match=key) if refused else nullcontext():
            assert parsed(Observation, told, PATH, 1) != observation()


def test_the_key_is_of_text_and_params() -> None:
    asked: list[tuple[str, dict[str, Scalar]]]
    asked = [("a", {}), ("b", {}), ("a", {"p": 1}), ("a", {"p": "1"}), ("a", {"p": True})]
    assert len({query_key(text, params) for text, params in asked}) == len(asked)
    assert query_key("a", {"p": 1, "q": 2}) == query_key("a", {"q": 2, "p": 1})


def test_every_class_agrees_diverges_or_was_not_compared() -> None:
    assert len(AGREED) + len(DIVERGING) + len(SKIPPED) == len(AGREED | DIVERGING | SKIPPED)
    assert set(Class) == AGREED | DIVERGING | SKIPPED
    assert observation(outcome=Class.BOTH_EMPTY).compared
    assert not observation(outcome=Class.TIMEOUT).compared
