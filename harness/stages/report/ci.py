"""What a build server shows of a ``harness run``: a comment, and notes on its queries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_json, write_text
from harness.core.formats import json_file
from harness.core.gate import StepDecision
from harness.core.printable import many
from harness.core.reading import numbered
from harness.core.records import Query
from harness.core.scores import Paired, Scores
from harness.corpus import jsonl
from harness.corpus.prepared import QUERIES
from harness.corpus.score_table import read_scores
from harness.report.decision import decided
from harness.report.decision.annotations import gitlab
from harness.report.decision.ci import Checked, Held, Loss, notes, to_markdown
from harness.report.trends.history import Entry, changed, comparable, entry_of

DECISION, VALUES = "decision.json", "per_query.parquet"
COMMENT, QUALITY = "ci.md", "gl-code-quality-report.json"
HINT = "Give the folder that was --out of one harness run with a control or a policy"
DIGITS = 1e-8
"""``decision.json`` keeps ten significant digits of a mean."""
BEFORE = " before"


class Left(NamedTuple):
    """What a ``harness run`` left, as far as a build server shows it."""

    entry: Entry
    decisions: tuple[StepDecision, ...]
    scores: Mapping[str, Scores]
    """Of the first measure, by arm."""


def read(folder: Path) -> Left:
    """Read the decision in ``folder`` and the values of each query that it rests on.

    Raises:
        BadFile: either is missing or malformed, or there is more than one data set.
        EvidenceError: the two are not of one run.
    """
    path = folder / DECISION
    try:
        whole: dict[str, Any] = json_file(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"no decision ({exc})", HINT) from exc
    decisions = tuple(one.decision for one in decided.from_json(whole, path))
    if len(whole["datasets"]) != 1:
        raise BadFile(path, f"is of {len(whole['datasets'])} data sets, not of one", HINT)
    (about,) = whole["datasets"]
    entry = entry_of(about, decision_sha256=digest.of_file(path), commit="")
    by_arm = read_scores(folder / VALUES, ["arm"])
    scores = {
        arm: found[entry.measure] for (arm,), found in by_arm.items() if entry.measure in found
    }
    for arm, means in entry.means.items():
        mean = scores[arm].mean if arm in scores else None
        said = means[entry.measure].value if entry.measure in means else None
        if (mean is None) != (said is None) or (
            mean is not None
            and said is not None
            and not math.isclose(mean, said, rel_tol=DIGITS, abs_tol=DIGITS)
        ):
            raise EvidenceError(f"{folder / VALUES}: not the values that {path} rests on. {HINT}")
    return Left(entry, decisions, scores)


def check(folder: Path, baseline: Path | None, queries: Path | None) -> Checked:
    """Put together what a ``harness run`` left in ``folder`` and, if named, in ``baseline``.

    ``queries`` is the file with the queries whose lines are noted, JSON lines that are not packed.

    Raises:
        BadFile, EvidenceError: as ``read``, or a query of the run is not in ``queries``.
    """
    now, then = read(folder), read(baseline) if baseline else None
    texts = {query.query_id: query for query in jsonl.queries(folder / QUERIES)}
    lines = _lines(queries, texts) if queries else {}
    return Checked(
        place=seen_from_root(folder),
        entry=now.entry,
        decisions=now.decisions,
        held=_held(now, then, texts),
        baseline=then.entry if then else None,
        changed=changed(then.entry, now.entry) if then else (),
        file=seen_from_root(queries) if queries else "",
        lines=lines,
    )


def write(checked: Checked, folder: Path, most: int) -> Path:
    """Write the comment and the Code Quality report into ``folder``; give the comment's path."""
    write_text(folder / COMMENT, to_markdown(checked, most))
    write_json(folder / QUALITY, gitlab(notes(checked, most)))
    return folder / COMMENT


def seen_from_root(path: Path) -> str:
    """Name a file as its repository does; as it is given without a repository."""
    whole = path.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), None)
    return whole.relative_to(root).as_posix() if root else path.as_posix()


def _lines(path: Path, asked: Mapping[str, Query]) -> Mapping[str, int]:
    pairs = zip(numbered(path), jsonl.queries(path), strict=True)
    found = {query.query_id: number for (number, _), query in pairs}
    missing = sorted(asked.keys() - found.keys())
    if missing:
        problem = f"it lacks {many(len(missing), 'query')} of the run, for example {missing[0]}"
        raise BadFile(path, problem, "Give the queries.jsonl of the run")
    return found


def _held(now: Left, then: Left | None, texts: Mapping[str, Query]) -> tuple[Held, ...]:
    found = []
    for step in now.decisions:
        if {step.control, step.candidate} <= now.scores.keys():
            pair = now.scores[step.control], now.scores[step.candidate]
            losses = lost(*pair, texts)
            found.append(Held(step.candidate, step.control, losses, step.verdict))
    if then and comparable(then.entry, now.entry) and then.entry.measure == now.entry.measure:
        for arm, scores in now.scores.items():
            if arm in then.scores:
                losses = lost(then.scores[arm], scores, texts)
                found.append(Held(arm, arm + BEFORE, losses, None))
    return tuple(found)


def lost(before: Scores, now: Scores, texts: Mapping[str, Query]) -> tuple[Loss, ...]:
    """Find queries that lost; a query without an answer comes before all that have one."""
    old = before.by_query
    gone = [
        Loss(query_id, texts[query_id].text, old[query_id], None, why)
        for why, ids in now.undefined.items()
        for query_id in ids
        if query_id in old
    ]
    pairs = Paired.of(before, now)
    rows = zip(
        pairs.difference.tolist(),
        pairs.query_ids,
        pairs.control.tolist(),
        pairs.candidate.tolist(),
        strict=True,
    )
    fell = sorted(row for row in rows if row[0] < 0)
    return (
        *sorted(gone, key=lambda loss: loss.query_id),
        *(Loss(name, texts[name].text, was, value, "") for _, name, was, value in fell),
    )
