"""A table for a paper: Markdown and LaTeX."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.api.comparison import Inference, Leaderboard, leaderboard
from harness.api.export import to_latex, to_markdown
from tests.api.conftest import QUERIES, Small
from tests.make.runs import run_of


@pytest.fixture
def board(small: Small, sure: Inference) -> Leaderboard:
    return leaderboard(small.control, small.candidates, small.qrels, ["RR@10", "P@1"], sure=sure)


def test_markdown_has_means_marks_and_what_they_mean(board: Leaderboard) -> None:
    lines = to_markdown(board).splitlines()
    assert lines[2:7] == [
        "|  | RR@10 | P@1 |",
        "| --- | ---: | ---: |",
        "| better | **0.8333**† | **0.6667**† |",
        "| control | 0.5000 | 0 |",
        "| worse | 0.2500‡ | 0 |",
    ]
    assert "Holm's correction over the whole table (comparisons: 4)" in lines[-1]


def test_latex_is_a_booktabs_table(board: Leaderboard) -> None:
    text = to_latex(board)
    rules = re.findall(r"\\(toprule|midrule|bottomrule)", text)
    assert rules == ["toprule", "midrule", "bottomrule"]
    assert r"better & \textbf{0.8333}$^{\dagger}$ & \textbf{0.6667}$^{\dagger}$ \\" in text
    assert r"worse & 0.2500$^{\ddagger}$ & 0 \\" in text
    assert text.index("Holm") > text.index(r"\end{tabular}")
    assert text.isascii()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a_b", r"a\_b"),
        ("50%&$#", r"50\%\&\$\#"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("~^<>", r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}"),
    ],
)
def test_a_name_cannot_write_latex(small: Small, sure: Inference, name: str, written: str) -> None:
    other = replace(small.better, arm=name)
    text = to_latex(leaderboard(small.control, [other], small.qrels, ["RR@10"], sure=sure))
    assert f"\n{written} & " in text


def test_a_name_cannot_break_a_markdown_table(small: Small, sure: Inference) -> None:
    other = run_of({q: ["a"] for q in QUERIES}, "a|b\n| c")
    text = to_markdown(leaderboard(small.control, [other], small.qrels, ["RR@10"], sure=sure))
    assert r"| a\|b \| c | **1.000**† |" in text
