"""JSON, TOML and YAML within bounds; what is beyond them is one sentence and no traceback."""

import gzip
import os
import re
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import pytest

from harness.core import digest, reading
from harness.core.elementary import exp, expm1, log, log1p, log2, powers
from harness.core.errors import BadFile
from harness.core.formats import MAX_DEPTH, MAX_DIGITS, cell, json_of, toml_of, yaml_of
from harness.core.markup import paragraphs, words
from harness.core.reading import MAX_LINE_BYTES, Malformed, numbered, opened, text_of, whole
from tests.source import ROOT

Read = Callable[[str], Any]


DEEP = "nested more than 100 deep"


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (json_of, "", "Expecting value"), (json_of, "{", "Expecting property name"),
        (json_of, "[" * 100_000, DEEP),
        (json_of, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), DEEP),
        (json_of, '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), DEEP),
        (json_of, "9" * (MAX_DIGITS + 1), "a number has 301 digits"),
        (json_of, "-" + "9" * 5_000, "a number has 5001 digits"),
        (json_of, "1e999", "1e999 is not a finite number"),
        (json_of, "[-1e999]", "-1e999 is not a finite number"),
        (json_of, '{"a": NaN}', "NaN is not JSON"), (json_of, "[Infinity]", "Infinity is not JSON"),
        (json_of, '{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' comes twice"),
        (json_of, r'{"a": "\ud800"}', "half of a surrogate pair"),
        (json_of, r'{"\udfff": 1}', "half of a surrogate pair"),
        (toml_of, "a = ", "at end of document"),
        (toml_of, "a = 1\na = 2\n", "Cannot overwrite a value"),
        (toml_of, "a = " + "[" * 5_000, DEEP), (toml_of, "a = " + "[" * 101 + "]" * 101, DEEP),
        (toml_of, ".".join("a" * 200) + " = 1", DEEP),
        (toml_of, "x = {" + " . ".join(["a", '"b"', "'c'"] * 50_000) + " = 1}", "nested more"),
        (toml_of, "a = " + "9" * 5_000, "digits"), (toml_of, "a = 2026-02-30", "Invalid date"),
        (toml_of, "a = 1e999", "1e999 is not a finite number"),
    ],
)  # fmt: skip
def test_what_is_beyond_the_bounds_of_a_format_is_named(read: Read, text: str, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        read(text)


def test_a_key_of_many_parts_is_refused_before_it_is_read() -> None:
    """By tomllib they take the square of their number in time and in memory."""
    began = thread_time()
    with pytest.raises(Malformed, match="nested more than 100 deep"):
        toml_of("x = {" + " . ".join(["a", '"b"', "'c'"] * 30_000) + " = 1}")
    assert thread_time() - began < 1


# YAML within bounds: no key twice, no alias, no number without an end

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "expected the node content"), ("a: 1\na: 2", "the key 'a' comes twice"),
        ("{1: 1, 1: 2}", "the key 1 comes twice"), ("[" * 500, DEEP),
        ("[" * 101 + "]" * 101, DEEP), ("a: " + "9" * 5_000, "digits"),
        ("a: " + "1:" * 300_000 + "1", "digits"), ("a: .inf", "not a finite number"),
        ("a: .nan", "not a finite number"), ("a: 1.0e+999", "not a finite number"),
        ("a: 2026-13-45", "month must be in"), (BOMB, "an alias"), ("&a [*a]", "an alias"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: 1\n---\nb: 2", "found another document"), ("{[1]: 2}", "unhashable"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("a: \x07", "special characters are not allowed"),
    ],
)  # fmt: skip
def test_what_is_beyond_the_bounds_of_yaml_is_named(text: str, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        yaml_of(text)


# Files are read within bounds, and what is wrong with one is named by its line


def all_of(path: Path) -> list[tuple[int, str]]:
    return list(numbered(path))


@pytest.mark.parametrize("read", [all_of, whole, text_of, opened, digest.of_file])
def test_only_regular_files_are_read(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    wrong = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path}
    for is_a, path in wrong.items():
        with pytest.raises((Malformed, BadFile), match=f"it is a {is_a}, and no regular file"):
            read(path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises((OSError, BadFile)):
            read(tmp_path / "socket")
    with pytest.raises((FileNotFoundError, BadFile)):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("raw", "line", "says"),
    [("Ünïcode\n".encode("utf-16"), 1, "it is UTF-16"),
     ("Ünïcode\n".encode("utf-32"), 1, "it is UTF-32"),
     ("a\nb".encode("utf-16-le"), 1, "NUL byte, so it is UTF-16 or no text"),
     (b"fine\n\x00", 2, "NUL byte"),
     (b"fine\ncaf\xe9\n", 2, "byte 4 of the line, 0xe9, is not UTF-8"),
     (b"half \xed\xa0\x80", 1, "0xed, is not UTF-8"), (b"\xff", 1, "0xff, is not UTF-8")],
)  # fmt: skip
def test_another_encoding_is_named(tmp_path: Path, raw: bytes, line: int, says: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(BadFile, match=says) as told:
        all_of(path)
    with pytest.raises(Malformed, match=says) as malformed:
        text_of(path)
    assert told.value.line == malformed.value.line == line


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb")
    assert text_of(tmp_path / "file") == "a\r\n\ufeffb"
    assert all_of(tmp_path / "file") == [(1, "a"), (2, "\ufeffb")]


def peak(path: Path) -> int:
    """Read until it is refused; return the bytes that took."""
    tracemalloc.start()
    try:
        with pytest.raises(BadFile, match="more than") as told:
            all_of(path)
        assert told.value.line is not None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_without_an_end_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    (tmp_path / "zeros").write_bytes(bytes(2 * MAX_LINE_BYTES))
    assert peak(tmp_path / "zeros") < 4 * MAX_LINE_BYTES


def test_an_archive_that_unpacks_to_much_more_is_a_bad_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "UNPACKED_ANYWAY", 1 << 16)
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(b"a line\n" * (1 << 15)))
    assert peak(path) < 1 << 22
    monkeypatch.setattr(reading, "UNPACKED_ANYWAY", 1 << 20)
    assert len(all_of(path)) == 1 << 15


def test_a_file_read_whole_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert whole(tmp_path / "file", most=5) == b"12345"
    with pytest.raises(Malformed, match="it has more than 4 bytes"):
        whole(tmp_path / "file", most=4)


@pytest.mark.parametrize("beginning", [0, 10_000], ids=["whole", "but-its-beginning"])
@pytest.mark.parametrize("read", [whole, digest.of_file, text_of])
def test_a_file_that_is_all_hole_is_refused(
    tmp_path: Path, read: Callable[[Path], object], beginning: int
) -> None:
    """A terabyte that takes no room on the disk; to digest it took a quarter of an hour."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x" * beginning)
        file.flush()
        os.fsync(file.fileno())
        file.truncate(1 << 40)
    with pytest.raises((Malformed, BadFile), match="it has 1099511627776 bytes, of which the disk"):
        read(path)


# No cell of a table is a formula


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "=", "--1"]
)
def test_what_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert cell(text) == f"'{text}"


# Statistics have the same bits whatever vector instructions numpy finds

EXACT = ("stats", "agreement", "measures", "gates")
TIMED = {"times.py"}
"""Times are other ones at each run."""
BY_INSTRUCTIONS = re.compile(
    r"np\.(log\w*|exp\w*|power|cosh?|sinh?|tanh?|arc\w+|cbrt|float_power|dot|inner|matmul)\("
    r"|[a-z_)\]] ?\*\* ?(?:[3-9]\b|\d*\.\d)"
)
NEWER = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"


DRAWN = """
import numpy as np
from harness.agreement import rbo
from harness.stats.bounded import ValueRange
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from harness.stats.sequential import NS_PER_S, blocks, p_above
from tests.agreement.reference import pair_of

rng = np.random.default_rng(7)
values, clusters = rng.random((1100, 60)) ** 2, np.sort(rng.integers(0, 900, 1100))
span = ValueRange(0.0, 1.0)
sure = Inference(confidence=0.95, resamples=300, seed=1)
one = values[:, 0]
for few in (1100, 300):
    print(interval_each(values[:few], span=span, inference=sure, clusters=clusters[:few]))
at = np.arange(len(one)) * NS_PER_S
print(blocks(one, at, block_s=2, period_s=20).interval(0.95))
print(p_above(one, 0.3, span=span, clusters=clusters))
lists = ([str(at) for at in rng.permutation(200)[:100]] for _ in range(2))
print(rbo(pair_of(*lists), 100, 0.9))
"""


def test_statistics_have_the_same_bits_without_newer_instructions() -> None:
    if not np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found"):
        pytest.skip("numpy found no instructions here that could be left out")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    drawing = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", DRAWN], cwd=ROOT, stdout=subprocess.PIPE,
            env={**env, "NPY_DISABLE_CPU_FEATURES": without},
        )
        for without in (NEWER, "")
    ]  # fmt: skip
    said, wanted = (one.communicate()[0] for one in drawing)
    assert said == wanted
    assert [one.returncode for one in drawing] == [0, 0]


def test_no_statistic_is_computed_by_code_that_differs_between_processors() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in EXACT
        for file in sorted((ROOT / "harness" / room).rglob("*.py"))
        if file.name not in TIMED
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if BY_INSTRUCTIONS.search(line.partition('"""')[0])
    ]
    assert wrong == [], "use harness.core.elementary, or products"


def test_an_exponential_is_a_sum_with_one() -> None:
    """Numpy's own, whose bits differ between processors, has more digits of small values."""
    small = exp(np.linspace(-40, -1, 199)) * 2.0**53
    assert (small == small.round()).all()


def test_the_functions_are_what_they_are_named() -> None:
    values = np.array([1e-300, 1e-9, 0.3, 1.0, 7.5, 1e9])
    np.testing.assert_allclose(log(values), np.log(values), rtol=1e-15)
    np.testing.assert_allclose(log1p(values), np.log1p(values), rtol=1e-15)
    np.testing.assert_allclose(exp(-values), np.exp(-values), atol=3e-16)
    np.testing.assert_allclose(expm1(-values), np.expm1(-values), rtol=1e-15)
    np.testing.assert_allclose(log2(np.arange(1, 99)), np.log2(np.arange(1, 99)), rtol=1e-15)
    np.testing.assert_allclose(powers(0.9, 99), 0.9 ** np.arange(100), rtol=2e-14)
    assert log(np.zeros(1)) == log1p(-np.ones(1)) == -np.inf


# What a person reads of a page, in linear time


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("", ""),
        ("<p>one<br>two</p>three", "one two three"),
        ("a &lt;b&gt; &amp; c&nbsp;d &#233;", "a <b> & c d é"),
        ("<script>no('<p>')</script >yes<STYLE>p{}</STYLE> and", "yes and"),
        ('<a title="x > y" href=z>link</a>', "link"),
        ("<!-- no <p> -->yes<!DOCTYPE html><?php no ?>", "yes"),
        ("1 < 2 and 3 <= 4 <5", "1 < 2 and 3 <= 4 <5"),
        ("before <b after", "before"),
        ("<script>never closed", ""),
        ("&#" + "9" * 5_000 + ";", "\ufffd"),
        ("Upp<b>sala</b><option>Oslo<option>Rome</html>late", "Uppsala Oslo Rome late"),
        ("<ruby>\u6f22<rp>(</rp><rt>kan</rt>\u5b57<rt>ji</ruby>.", "\u6f22\u5b57(kanji)."),
    ],
)
def test_words_of_a_page(page: str, says: str) -> None:
    assert words(page) == says


@pytest.mark.parametrize(
    "page",
    ["<a" * 500_000, "<script>" + "</script " * 100_000, "<a '" * 300_000, "<!" * 500_000,
     "<div>" * 80_000 + "</p>" * 80_000],
)  # fmt: skip
def test_markup_that_never_ends_takes_no_longer_than_the_page(page: str) -> None:
    """An end tag is looked for in all elements that are open, so their number is bounded."""
    before = time.process_time()
    words(page)
    assert time.process_time() - before < 5


def test_what_is_nested_too_deep_ends_the_page() -> None:
    assert words("<p>first" + "<b>" * 6_000 + "last") == "first"


def test_a_run_of_blanks_takes_no_time() -> None:
    begun = time.process_time()
    found = paragraphs("<pre>a" + " " * 80_000 + "b\n" + " \n" * 50_000 + "c</pre>")
    assert found.endswith("b\n\nc")
    assert time.process_time() - begun < 5
