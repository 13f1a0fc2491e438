"""``harness load`` as it is typed: real processes, exit codes, and what it refuses."""

from __future__ import annotations

import pytest

from harness.load.files import TRIALS, history_of, page_of
from tests.cli.conftest import Harness
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
LOAD = ("load", "--dataset", "toy", "--arm", "tantivy")


def test_a_load_is_run_by_processes_and_shown(project: Toy, harness: Harness) -> None:
    said = harness(*LOAD, "--rate", "30", "--seconds", "0.3")
    assert said.code in {0, 3}
    assert "Response time from the intended start" in said.out
    assert "tantivy (A/A)" in said.out
    assert "load.html" in said.out
    assert page_of(project.layout).is_file()
    records = TRIALS.read(history_of(project.layout))
    assert [record.rate for record in records].count(30.0) == 2
    assert all(record.trial.seconds > 0 for record in records)
    assert {record.about["processes"] for record in records} == {1}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--find",), "--find needs --budget-ms above 0"),
        (("--budget-ms", "5"), "--budget-ms needs --find"),
        (("--rate", "5", "--arrivals", "x.jsonl"), "leave --rate or --arrivals out"),
        (("--arrivals", "absent.jsonl"), "absent.jsonl: missing file"),
        (("--mix", "identifier"), "'identifier' is not NAME=WEIGHT"),
        (("--mix", "identifier=1,identifier=2"), "names identifier twice"),
        (("--mix", "nothing=1"), "no slice named 'nothing'"),
        (("--rate", "-1"), "must be above 0"),
        (("--processes", "-1"), "--processes -1"),
        (("--processes", "9" * 40), "less than or equal to 256"),
        (("--threads", "257"), "less than or equal to 256"),
        (("--arm", "tantivy"), "none twice"),
        (("--arm", "dense"), "dense"),
    ],
)
def test_what_cannot_be_run_is_refused(
    harness: Harness, words: tuple[str, ...], problem: str
) -> None:
    assert problem in harness(*LOAD, "--seconds", "0.2", *words).error
