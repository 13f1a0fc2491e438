"""What fuzzing found stays fixed, and each reader stands a few files that nobody would write."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.__main__ import FINDS, TOKENS, changed, seeds
from tests.fuzz.readers import READERS
from tests.fuzz.trying import PLANTED, fault_of, faults

FEW = 30


@pytest.mark.sampled(11)
@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_ends_soon_and_says_at_most_what_is_wrong(name: str) -> None:
    rng = random.Random(name)
    kept = seeds(name)
    assert faults(name, [*kept, *(changed(rng.choice(kept), rng) for _ in range(FEW))]) == []


@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_the_file_that_it_begins_with_or_says_why(name: str) -> None:
    assert fault_of(name, READERS[name][1]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_no_message_holds_what_a_terminal_obeys(name: str) -> None:
    """Escape codes are put at each place of a file where one may be quoted."""
    data = READERS[name][1]
    for at in range(0, len(data), max(1, len(data) // 40)):
        assert fault_of(name, data[:at] + PLANTED.encode() + data[at:]) == "", at


def test_what_is_kept_is_of_a_reader() -> None:
    known = {name.replace(" ", "-") for name in READERS}
    assert {path.name for path in FINDS.iterdir()} <= known | {"README.md"}
    assert len(TOKENS) > 50
