"""Attempts reach OpenTelemetry's meter and tracer; without the package nothing is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace

from harness.core import errors
from harness.core.errors import HarnessError
from harness.shadow.comparison import Shadowed
from harness.shadow.record import ProblemKind
from harness.shadow.telemetry import to_opentelemetry
from tests.make.shadow_log import comparison, drained, here
from tests.shadow.arms import Arm, arm


class Reported(list[tuple[Any, ...]]):
    """A meter, its instruments, a tracer and its spans: all that is reported is in the list."""

    def named(self, name: str, **_: str) -> Reported:
        made = Reported()
        made.add = made.record = lambda *said: self.append((name, *said))  # type: ignore[attr-defined]
        return made

    create_counter = create_histogram = named

    def start_span(self, name: str, *, attributes: dict[str, object], start_time: int) -> Reported:
        made = Reported()
        made.end = lambda until: self.append((name, attributes["outcome"], until - start_time))  # type: ignore[attr-defined]
        return made


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    found = Reported()
    monkeypatch.setattr(metrics, "get_meter", lambda _: found)
    monkeypatch.setattr(trace, "get_tracer", lambda _: found)
    return found


def test_each_attempt_is_reported_as_it_is_logged(tmp_path: Path, reported: Reported) -> None:
    with comparison(tmp_path, here(arm()), export=to_opentelemetry()) as made:
        for text in ("ab", "zzz", "secret words"):
            Shadowed(Arm(), made).search(text, 10, client="ada")
        logged = drained(made).observations
    outcomes = [one.outcome.value for one in logged]
    counted = [said["outcome"] for name, _, *(said,) in by(reported, "shadow.attempts")]
    assert sorted(counted) == sorted(outcomes)
    spans = {(outcome, ns) for _, outcome, ns in by(reported, "shadow.attempt")}
    assert spans == {
        (one.outcome.value, one.candidate.elapsed_ns) for one in logged if one.candidate
    }
    assert len(by(reported, "shadow.duration")) == 2 * len(logged)
    assert [one[1] for one in by(reported, "shadow.jaccard")] == [
        one.jaccard for one in logged if one.jaccard is not None
    ]
    assert not any(word in str(reported) for word in ("secret", "ada"))


def by(found: Reported, name: str) -> list[tuple[Any, ...]]:
    return [one for one in found if one[0] == name]


def test_an_exporter_that_raises_loses_no_attempt(tmp_path: Path) -> None:
    def export(_: object) -> None:
        raise ConnectionError("nobody listens")

    with comparison(tmp_path, here(arm()), export=export) as made:
        Shadowed(Arm(), made).search("ab", 10)
        assert made.drain(60)
        found = drained(made)
    assert found.tally.compared == 1
    (fault,) = found.degradations
    assert fault.kind is ProblemKind.FAULT
    assert fault.cause == "nothing is exported from here on: ConnectionError: nobody listens"


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda _: None)
    with pytest.raises(HarnessError, match=r"pip install .search-harness.opentelemetry."):
        to_opentelemetry()


def test_a_comparison_imports_none_of_it() -> None:
    code = "import sys, harness.shadow.comparison, harness.shadow.telemetry as t"
    asks = f"{code}; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", asks], check=False).returncode == 0
