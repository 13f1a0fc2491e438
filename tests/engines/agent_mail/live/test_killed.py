"""kill -9 while messages are written and indexed: what was said is there, once, in every index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from time import sleep

import pytest

from engines.stacks.agent_mail.live import Live
from tests.engines.agent_mail.live import writer
from tests.make.mail.live_index import built, check_agree, served, table
from tests.source import ROOT

pytestmark = pytest.mark.slow
MOMENTS = 50
LONGEST_S = 0.6
"""Of work before the kill; a round of changes and indexing takes about a tenth of a second."""
AT_ONCE = 2
"""Kills of one index, one after the other."""


def killed(folder: Path, seed: int) -> tuple[dict[int, str], str | None]:
    """Let the writer work for a while, and kill it.

    Gives what it said it wrote, subjects by id, and the subject of a change that it announced and
    did not say: the kill may have come before that change or after it.
    """
    words = [sys.executable, "-m", writer.__name__, str(folder), str(seed)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        sleep(Random(seed).uniform(0, LONGEST_S))
        process.kill()
        lines = [line.rstrip("\n") for line in process.stdout if line.endswith("\n")]
    said: dict[int, str] = {}
    announced: str | None = None
    for first, _, subject in (line.partition(" ") for line in lines):
        if first == ">":
            announced = subject
        else:
            said[int(first)], announced = subject, None
    return said, announced


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, MOMENTS, AT_ONCE))
def test_after_a_kill_at_any_moment_all_indexes_agree_with_the_table(
    tmp_path: Path, first: int
) -> None:
    index = built(tmp_path, mode="hybrid")
    for seed in range(first, first + AT_ONCE):
        said, announced = killed(tmp_path, seed)
        with served(tmp_path, mode="hybrid") as searcher:
            for text in ("review", "lunch plan"):
                answer = searcher.search(text, 1_000)
                assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
            assert isinstance(searcher.service.fresh, Live)
            searcher.service.fresh.catch_up()
        now = table(index)
        for number, subject in said.items():
            assert (now[number].subject if number in now else "") in (subject, announced)
        check_agree(index)
