"""``harness.serve.pages``: what a page says of a judged pool can be pasted, and is right."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from harness.serve.pages import afterwards
from tests.serve.conftest import make_pool


def commands(pool: Path, harness: str = "harness") -> list[list[str]]:
    return [shlex.split(one.command) for one in afterwards(pool, harness)]


def test_a_pool_goes_into_a_data_set_that_is_there_or_becomes_one(tmp_path: Path) -> None:
    pool = tmp_path / "pool.qrels"
    make_pool(pool)
    assert commands(pool) == [
        ["harness", "judge", str(pool), "--merge", "NAME", "--by", "WHO"],
        shlex.split(f"harness import jsonl corpus.jsonl queries.jsonl {pool} --name NAME"),
    ]


@pytest.mark.parametrize("name", ["two words", "it's", "$HOME;x"])
def test_a_path_of_any_name_is_one_word(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    pool = tmp_path / name / "pool.qrels"
    make_pool(pool)
    for command in commands(pool):
        assert str(pool) in command


def test_the_program_is_named_as_the_reader_calls_it(tmp_path: Path) -> None:
    pool = tmp_path / "pool.qrels"
    make_pool(pool)
    for command in commands(pool, "python3 run.py harness"):
        assert command[:3] == ["python3", "run.py", "harness"]
