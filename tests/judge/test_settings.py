"""The file of a judge, the rule and the cross-encoder, and grades from scores."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.digest import of_file
from harness.core.errors import BadFile, HarnessError, ModelNotReady
from harness.judge import machine
from harness.judge.label import Overlap
from harness.judge.machine import Answer, OverlapSettings, Seen, cumulative
from tests.make import tiny_model
from tests.make.desk import ENDPOINT, OVERLAP, Desk
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "judge"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_is_read(path: Path) -> None:
    assert machine.read(path).name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file"),
        ("name = 3", "the file"),
        (OVERLAP.replace('"overlap"\ncuts', '"oracle"\ncuts'), "the file: Input tag 'oracle'"),
        (OVERLAP.replace("slope = 20.0\n", ""), "slope: Field required"),
        (OVERLAP + "cheap = true\n", "cheap: Extra inputs are not permitted"),
        (OVERLAP.replace("0.4, 0.8", "0.8, 0.4"), "cuts: Value error, they do not ascend"),
        (OVERLAP.replace("0.4, 0.8", ""), "cuts: "),
        (OVERLAP.replace('name = "overlap"', 'name = "../x"'), "name: Value error"),
        (ENDPOINT.replace("retries = 2", "retries = 99"), "retries: "),
        (ENDPOINT.replace("per_minute = 1000000.0", "per_minute = inf"), "per_minute: "),
        (ENDPOINT.replace("per_minute = 1000000.0", "per_minute = 1e-300"), "per_minute: "),
        (re.sub("timeout_s = .*", "timeout_s = 1e300", ENDPOINT), "timeout_s: "),
        ("name = ", "Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "judge.toml"
    path.write_text(text)
    with pytest.raises(BadFile) as said:
        machine.read(path)
    assert says in str(said.value)


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        machine.read(tmp_path / "none.toml")


def test_the_rule_counts_shared_words() -> None:
    judge = Overlap(OverlapSettings(name="o", kind="overlap", cuts=(0.4, 0.8), slope=20.0))
    texts = {"nothing": 0, "Salt, and": 1, "salt WATER": 2, "": 0}
    for text, grade in texts.items():
        assert judge.judge(Seen("salt water", "", text, (0, 1, 2))).grade((0, 1, 2)) == grade
    assert judge.judge(Seen("", "", "salt", (0, 1, 2))).grade((0, 1, 2)) == 0


def test_a_score_becomes_grades_at_stated_cuts() -> None:
    found = cumulative(1.0, (0.0, 2.0), 1.0)
    above = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))
    assert found == pytest.approx((1 - above[0], above[0] - above[1], above[1]))
    assert cumulative(1e9, (0.0, 2.0), 1.0) == (0.0, 0.0, 1.0)


@given(
    st.floats(-50, 50), st.lists(st.floats(-50, 50), min_size=1, max_size=5, unique=True),
    st.floats(0.01, 100),
)  # fmt: skip
def test_grades_are_a_distribution_and_rise_with_the_score(
    score: float, cuts: list[float], slope: float
) -> None:
    low, high = (cumulative(one, sorted(cuts), slope) for one in (score, score + 1))
    assert math.fsum(low) == pytest.approx(1)
    assert min(low) >= 0
    expected = [math.fsum(at * p for at, p in enumerate(each)) for each in (low, high)]
    assert expected[1] >= expected[0] - 1e-12


def test_of_equals_the_lowest_grade_is_given() -> None:
    assert Answer((0.4, 0.4, 0.2), "m").grade((0, 1, 2)) == 0


def of_encoder(folder: Path, **changed: object) -> str:
    table = {
        "name": "encoder", "kind": "cross-encoder", "folder": folder.name, "max_tokens": 64,
        "sha256": of_file(folder / "model.onnx"), "cuts": [-1.5, 0.5], "slope": 1.0,
    } | changed  # fmt: skip
    return "".join(f"{key} = {value!r}\n" for key, value in table.items())


def test_a_cross_encoder_judges_by_its_logits(tmp_path: Path) -> None:
    """Its logit is twice the shared words less 3: -3, -1, 1, 3 for none to three of them."""
    folder = tiny_model.write(tmp_path / "tiny")
    at = Desk(tmp_path)
    done = at.label(of_encoder(folder))
    assert [row.grade for row in done.labels] == [0, 1, 2, 2]
    assert [row.note for row in done.labels][:2] == ["logit -3.0000", "logit -1.0000"]
    assert done.labels[0].probabilities == pytest.approx(cumulative(-3.0, (-1.5, 0.5), 1.0))
    assert "cross-encoder" in done.labels[0].model


def test_weights_that_are_absent_or_others_are_refused(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "tiny")
    at = Desk(tmp_path)
    with pytest.raises(ModelNotReady, match=r"the judge encoder: .*SHA-256"):
        at.label(of_encoder(folder, sha256="0" * 64))
    text = of_encoder(folder)
    shutil.rmtree(folder)
    with pytest.raises(HarnessError, match=r"model\.onnx: no such file"):
        at.label(text)
