"""Golden runs of the thorns: what commands wrote and said is what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import golden


@pytest.mark.slow
@pytest.mark.parametrize("scenario", golden.QUICK)
def test_outputs_are_what_they_were(scenario: str) -> None:
    differences = golden.compared(scenario, golden.found(scenario))
    assert not differences, "\n".join(map(str, differences))


def test_an_output_that_changed_is_shown_by_its_first_line() -> None:
    assert "-PASS\n    +FAIL" in golden.difference(["one", "PASS"], "one\nFAIL")
    assert golden.difference(golden.digest("one"), "two").startswith("differs")
    assert golden.difference(golden.digest("one"), "one") == ""
    assert golden.difference(None, "one") == "is new"


def test_what_is_of_this_machine_is_taken_out() -> None:
    text = "/here/a 0123456789abcdef 0.12345678901: AMD EPYC, 2 cores, Linux x86_64, Python 3.11.7"
    assert golden.plain(text, Path("/here")) == "TMP/a # 0.1234568: MACHINE"
