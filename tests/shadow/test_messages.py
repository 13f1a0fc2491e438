"""Whatever a candidate says: nothing of it is run, and who asks goes on."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.run import Status
from harness.shadow import worker
from harness.shadow.record import LoggedAnswer, ProblemKind
from harness.shadow.worker import (
    Answered,
    Garbage,
    OpeningReply,
    ProcessWorker,
    WorkerLost,
    asking,
    frame_of,
    heard,
    said,
)
from tests.make.shadow_log import LIMITS, changed
from tests.shadow.babbling import Runs, babbling, frame

SIDE = LoggedAnswer(
    Status.ANSWERED, (Hit("é\u2028", 0.5, -1e300),), "f", "note", "", 5, "g:1", "g:2"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "a pickle", "no JSON", "JSON of no kind", "a deep list", "a number that never ends",
        "a key twice", "a frame of less than nothing", "a frame of two gigabytes", "half a frame",
        "a byte", "two frames",
    ],
)  # fmt: skip
def test_what_a_candidate_babbles_loses_it_and_runs_nothing(tmp_path: Path, how: str) -> None:
    made = tmp_path / "made"
    limits = changed(LIMITS, start_s=6.0 if how == "half a frame" else 60.0)
    with pytest.raises(WorkerLost, match="it did not open") as lost:
        ProcessWorker(partial(babbling, how, made), limits)
    assert lost.value.kind is ProblemKind.CRASH
    assert not made.exists()


def test_what_is_planted_would_run_where_it_is_unpickled(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Runs(str(tmp_path / "made"))))  # noqa: S301  that is the point
    assert (tmp_path / "made").is_dir()


def test_a_pickle_is_no_message_and_is_not_run(tmp_path: Path) -> None:
    """Behind a candidate's process it may be refused for what follows it alone."""
    with pytest.raises(Garbage):
        heard(pickle.dumps(Runs(str(tmp_path / "made"))))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("message", [OpeningReply(""), OpeningReply("no"), Answered(7, SIDE)])
def test_a_message_comes_through_as_it_was(message: OpeningReply | Answered) -> None:
    assert heard(said(message)) == message


def test_a_question_may_hold_half_a_character() -> None:
    assert b"\\ud800" in asking(1, ("\ud800", 5, {"a": 1.5, "b": None}), 9)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("answered", "maybe"),
        lambda text: text.replace("0.5", "1e999"),
        lambda text: text.replace("0.5", "null"),
        lambda text: text.replace('"number":7', '"number":0'),
        lambda text: text.replace('"number":7', '"number":"7"'),
        lambda text: text.replace('"note"', "5"),
        lambda text: text.replace('{"number"', '{"more":1,"number"'),
        lambda text: text.replace('{"number":7', '{"number":7,"number":7'),
        lambda text: text[:-1],
        lambda text: f"[{text}]",
        lambda _: "null",
    ],
)
def test_what_is_no_message_is_refused(change: Callable[[str], str]) -> None:
    with pytest.raises(Garbage):
        heard(change(said(Answered(7, SIDE)).decode()).encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    with pytest.raises(Garbage):
        heard(raw)


def read(*pieces: bytes) -> bytes:
    """Read a frame from a pipe into which the pieces are written one by one."""
    left = list(pieces)
    out, into = os.pipe()

    def ready() -> None:
        if left:
            os.write(into, left.pop(0))
        else:
            raise TimeoutError

    try:
        return frame_of(out, ready)
    finally:
        os.close(out)
        os.close(into)


def test_a_frame_may_come_in_pieces() -> None:
    whole = frame(b"abc")
    assert read(whole) == b"abc"
    assert read(*(whole[at : at + 1] for at in range(len(whole)))) == b"abc"


@pytest.mark.parametrize(
    ("pieces", "error", "says"),
    [
        ([], TimeoutError, None),
        ([b"\x00"], TimeoutError, None),
        ([frame(b"ab", 3)], TimeoutError, None),
        ([frame(b"x", -1)], Garbage, "bytes; at most"),
        ([frame(b"x", worker.MAX_ANSWER_BYTES + 1)], Garbage, "bytes; at most"),
        ([frame(b"x", (1 << 31) - 1)], Garbage, "bytes; at most"),
        ([frame(b"a") + frame(b"b")], Garbage, "more than was requested"),
    ],
)
def test_a_frame_ends_in_time_has_a_length_that_can_be_and_nothing_behind_it(
    pieces: list[bytes], error: type[Exception], says: str | None
) -> None:
    with pytest.raises(error, match=says):
        read(*pieces)
