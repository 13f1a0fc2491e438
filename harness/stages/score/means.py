"""Means with their intervals, as the files between stages hold them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.cells import cell
from harness.core.errors import BadFile
from harness.core.formats import json_file
from harness.core.scores import Estimate

Means = Mapping[str, Mapping[str, Estimate]]
"""By arm (or ``control~candidate``), then by measure."""
Written = dict[str, dict[str, dict[str, float | int]]]


def as_json(means: Means) -> Written:
    """Write means as ``{arm: {measure: {mean, low, high, queries}}}``."""
    return {
        arm: {
            measure: {"mean": e.value, "low": e.low, "high": e.high, "queries": e.n}
            for measure, e in by_measure.items()
        }
        for arm, by_measure in means.items()
    }


def as_csv(means: Means, measures: Sequence[str]) -> str:
    """Write a row an arm and a column a measure; empty where nothing was measured."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(["arm", *map(cell, measures)])
    for arm, found in means.items():
        rows.writerow([cell(arm), *(found[m].value if m in found else "" for m in measures)])
    return written.getvalue()


def from_json(written: Mapping[str, Mapping[str, Mapping[str, float | int]]]) -> Means:
    """Read what ``as_json`` wrote."""
    return {
        arm: {
            measure: Estimate(row["mean"], row["low"], row["high"], int(row["queries"]))
            for measure, row in by_measure.items()
        }
        for arm, by_measure in written.items()
    }


def read_means(path: Path) -> Means:
    """Read a file of means.

    Raises:
        BadFile: it is missing or holds something else.
    """
    try:
        return from_json(json_file(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(path, f"no means ({exc})", "Run again: dvc repro") from exc


def read_slices(path: Path) -> Mapping[str, Means]:
    """Read a file of means by slice.

    Raises:
        BadFile: it is missing or holds something else.
    """
    try:
        by_slice = json_file(path)
        return {name: from_json(means) for name, means in by_slice.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(path, f"no means by slice ({exc})", "Run again: dvc repro") from exc
