"""Golden runs of the thorns: what commands wrote and said is what it was."""

import pytest

from tests.oracle import golden


@pytest.mark.slow
@pytest.mark.parametrize("scenario", golden.QUICK)
def test_outputs_are_what_they_were(scenario: str) -> None:
    said = [*golden.differences(scenario, golden.found(scenario).items())]
    assert not said, "\n".join(said)
