"""YAML within bounds: no key twice, no alias, no number without an end."""

from __future__ import annotations

import pytest
import yaml

from harness.core.formats import Loader, yaml_of
from harness.core.reading import Malformed

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "expected the node content"),
        ("a: 1\na: 2", "the key 'a' comes twice"),
        ("{1: 1, 1: 2}", "the key 1 comes twice"),
        ("[" * 500, "nested more than 100 deep"),
        ("[" * 101 + "]" * 101, "nested more than 100 deep"),
        ("a: " + "9" * 5_000, "digits"),
        ("a: " + "1:" * 300_000 + "1", "digits"),
        ("a: .inf", "not a finite number"),
        ("a: .nan", "not a finite number"),
        ("a: 1.0e+999", "not a finite number"),
        ("a: 2026-13-45", "month must be in"),
        (BOMB, "an alias"),
        ("&a [*a]", "an alias"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: 1\n---\nb: 2", "found another document"),
        ("{[1]: 2}", "unhashable"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("a: \x07", "special characters are not allowed"),
    ],
)
def test_what_is_beyond_the_bounds_of_yaml_is_named(text: str, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        yaml_of(text)


@pytest.mark.parametrize(
    "text", ["a: [1, 2.5]\nb: {c: x}", "", "- 2026-01-01\n- yes\n- 0x1f", "1: a\n2: b"]
)
def test_what_is_within_the_bounds_is_read_as_by_any_safe_loader(text: str) -> None:
    assert yaml_of(text) == yaml.safe_load(text)
    assert issubclass(Loader, yaml.SafeLoader)
