"""A leaderboard as Markdown and as LaTeX, with its marks and their meaning."""

from __future__ import annotations

from harness.api.board import ABSENT, HIGHER, LOWER, Leaderboard
from harness.core.printable import one_line
from harness.report.plain import markdown
from harness.report.rounding import MINUS, number

LATEX = str.maketrans({
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    HIGHER: r"$^{\dagger}$",
    LOWER: r"$^{\ddagger}$",
    MINUS: "$-$",
})


def to_markdown(board: Leaderboard) -> str:
    """Write a table; the best mean of each measure is bold."""
    lines = [
        markdown(board.caption),
        "",
        _line(["", *map(markdown, board.measures)]),
        _line(["---", *["---:"] * len(board.measures)]),
        *(
            _line([markdown(arm), *(_marked(board, arm, m, "**", "**") for m in board.measures)])
            for arm in board.scores
        ),
        "",
        markdown(board.note),
    ]
    return "\n".join(lines) + "\n"


def to_latex(board: Leaderboard) -> str:
    """Write a ``table`` for the package booktabs; the best mean of each measure is bold."""
    rows = [
        [
            _latex(arm),
            *(_marked(board, arm, m, r"\textbf{", "}").translate(MARKS) for m in board.measures),
        ]
        for arm in board.scores
    ]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(board.caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * len(board.measures)}}}",
        r"\toprule",
        " & ".join(["", *map(_latex, board.measures)]).strip() + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\par\smallskip{{\footnotesize {_latex(board.note)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


MARKS = {ord(sign): LATEX[ord(sign)] for sign in (HIGHER, LOWER, MINUS)}
"""Signs that a cell may have beside digits."""


def _marked(board: Leaderboard, arm: str, measure: str, before: str, after: str) -> str:
    mean = board.mean(arm, measure)
    if mean is None:
        return ABSENT
    text = number(mean)
    shown = f"{before}{text}{after}" if mean == board.best(measure) else text
    return shown + board.mark(arm, measure)


def _latex(text: str) -> str:
    return one_line(text).translate(LATEX)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
