"""Readers under random and hostile files."""

import gzip
import os
import random
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from harness.core.formats import MAX_DEPTH, MAX_DIGITS
from tests.fuzz.__main__ import changed, seeds
from tests.fuzz.readers import READERS
from tests.fuzz.trying import PLANTED, Input, fault_of, faults

pytestmark = pytest.mark.slow
FEW = 30


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", READERS)
def test_a_reader_ends_soon_and_says_at_most_what_is_wrong(name: str) -> None:
    rng = random.Random(name)
    kept = seeds(name)
    assert faults(name, [*kept, *(changed(rng.choice(kept), rng) for _ in range(FEW))]) == []


@pytest.mark.parametrize("name", READERS)
def test_no_message_holds_what_a_terminal_obeys(name: str) -> None:
    """Escape codes are put at each place of a file where one may be quoted."""
    data = READERS[name][1]
    for at in range(0, len(data), max(1, len(data) // 40)):
        assert fault_of(name, data[:at] + PLANTED.encode() + data[at:]) == "", at


BYTES = {"run", "scores", "times", "packed documents"}
"""Files that are no text."""
ANY_TEXT = {"mbox", "query log"}
"""Whatever a mail or a line of a log holds, it ends no import."""
TEXTS = sorted(READERS.keys() - BYTES - ANY_TEXT)
LINES = {
    "trec qrels", "trec run", "beir qrels", "topics", "topic table", "switch", "pool", "quepid",
}  # fmt: skip
"""Texts that are no JSON, TOML or YAML."""
DEEP, DIGITS = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "9" * (MAX_DIGITS + 1)
DOTTED = "1\n" + ".".join("z" * 9_999) + "=1"
ADDED = {
    "json": (
        '"zz":{},',
        [DEEP, "[" * 50_000, DIGITS, "1e999", "NaN", '1,"zz":1', '"\\ud800"', '"\udc80"'],
    ),
    "toml": (
        "zz={}\n",
        [DEEP, "[" * 50_000, DOTTED, "9" * 5_000, "1e999", "1\nzz=1", '"\udc80"'],
    ),
    "yaml": (
        "zz: {}\n",
        [DEEP, "[" * 5_000, DIGITS, "1.0e+999", "1\nzz: 1", "&a [x]\nyy: *a", '"\udc80"'],
    ),
}
"""What no file of a form may hold as a value, and where it stands, before the rest of the file."""


def endless(path: Path) -> None:
    """Make a file of a terabyte that takes no room."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


def form(name: str) -> str:
    """Say what a reader's file is written in."""
    text = READERS[name][1].decode()
    if text.startswith("{"):
        return "json"
    with suppress(tomllib.TOMLDecodeError):
        tomllib.loads(text)
        return "toml"
    assert isinstance(yaml.safe_load(text), dict)
    return "yaml"


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_regular_file_or_has_no_end_is_refused(name: str) -> None:
    nowhere: list[Input] = [
        os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), endless
    ]  # fmt: skip
    assert faults(name, nowhere, refused=True) == []


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", TEXTS)
def test_another_encoding_is_refused(name: str) -> None:
    data = READERS[name][1]
    text, end = data.decode(), data.index(b"\n") if b"\n" in data else len(data)
    others = [text.encode(code) for code in ("utf-16", "utf-16-le", "utf-32")]
    within = [data[:end] + bad + data[end:] for bad in (b"\xe9", b"\0", b"\xed\xa0\x80", b"\xff")]
    assert faults(name, [*others, *within], refused=True) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in TEXTS if name not in LINES])
def test_what_no_form_may_hold_is_refused(name: str) -> None:
    text, kind = READERS[name][1].decode(), form(name)
    at = 1 if kind == "json" else 0
    place, values = ADDED[kind]
    found = [text[:at] + place.replace("{}", value) + text[at:] for value in values]
    assert faults(name, [one.encode("utf-8", "surrogatepass") for one in found], refused=True) == []


@pytest.mark.parametrize("what", [b"\0" * (1 << 26), b'{"_id":"1"}\n' * 8_000_000])
def test_an_archive_that_unpacks_to_much_more_is_refused(what: bytes) -> None:
    packed = gzip.compress(what)
    assert len(packed) < 1 << 18
    broken = [packed[:-9], packed[:100], b"no archive", packed[:50] + b"\xff" + packed[51:]]
    assert faults("packed documents", [packed, *broken], refused=True) == []


@pytest.mark.parametrize("name", sorted(BYTES - {"packed documents"}))
def test_a_table_that_is_cut_or_of_another_kind_is_refused(name: str) -> None:
    data = READERS[name][1]
    others: list[Input] = [READERS[other][1] for other in BYTES - {name}]
    cut: list[Input] = [data[:at] for at in (0, 4, 40, len(data) // 2, len(data) - 1)]
    assert faults(name, [*others, *cut], refused=True) == []
