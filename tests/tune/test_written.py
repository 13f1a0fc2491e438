"""The text of a tuned arm, and what cannot be replaced line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, BadName, HarnessError
from harness.core.formats import toml_of
from harness.core.records import Scalar
from harness.tune.files import MARK, arm_text, check_place, is_ours

ARM = """\
summary = "mine"
stack = "own.py"
[settings]
k1 = 1.2  # saturation
"b" = 0.75
name = "a # b" # not a comment
[settings.deep.er]
k1 = 7
"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(ARM)
    return tmp_path / "own.toml"


def test_values_are_replaced_where_they_stand(arm: Path) -> None:
    chosen: dict[str, Scalar] = {"k1": 0.9, "name": 'it"s', "deep.er.k1": 8, "b": True}
    text = arm_text(arm, chosen, "r.json")
    assert toml_of(text)["settings"] == {
        "k1": 0.9, "b": True, "name": 'it"s', "deep": {"er": {"k1": 8}},
    }  # fmt: skip
    assert "k1 = 0.9  # saturation\n" in text
    assert "# not a comment\n" in text
    assert toml_of(text)["tuning"] == "r.json"


def test_a_tuned_arm_is_tuned_again(arm: Path) -> None:
    once = arm_text(arm, {"k1": 0.9}, "r.json")
    arm.write_text(once)
    assert is_ours(arm)
    assert arm_text(arm, {"k1": 0.9}, "r.json") == once
    again = arm_text(arm, {"k1": 0.5}, "s.json")
    assert again.count(MARK) == again.count("tuning =") == 1
    assert toml_of(again)["tuning"] == "s.json"


@pytest.mark.parametrize(
    "table", ["deep = {k1 = 1}", "deep.k1 = 1", "k1 = 2\n[settings.deep]\nk1 = [\n1]"]
)
def test_a_value_that_has_no_line_of_its_own_is_refused(arm: Path, table: str) -> None:
    arm.write_text(f'summary = "x"\nstack = "own.py"\n[settings]\n{table}\n')
    with pytest.raises(BadFile, match="on a line of its own"):
        arm_text(arm, {"deep.k1": 2}, "r.json")


def test_a_file_whose_name_no_arm_can_have_is_refused(arm: Path) -> None:
    """The whole search was done, and no command took the arm."""
    with pytest.raises(BadName, match="may have letters"):
        check_place(arm.with_name("a b.toml"), arm, "tantivy")


def test_an_arm_is_written_where_it_finds_its_code(arm: Path) -> None:
    check_place(arm.with_name("new.toml"), arm, "own.py")
    check_place(arm.parent / "x" / "new.toml", arm, "tantivy")
    for to, told in ((arm, "is the arm"), (arm.parent / "x" / "new.toml", "lies beside")):
        with pytest.raises(HarnessError, match=told):
            check_place(to, arm, "own.py")
