"""Judged samples as files: what was drawn, what was judged of it, and by whom."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from harness.core import digest, json_models
from harness.core.evidence import Sample
from harness.core.files import write_text

REMEDY = "Take the sample in again: harness labels POOL --by NAME"


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    control: str
    candidate: str
    measure: str
    seed: int
    rate: float = Field(gt=0)
    by: str = Field(min_length=1)
    grades: dict[str, dict[str, int]]


def name_of(sample: Sample) -> str:
    """Name the file of a sample: one for control, candidate and measure."""
    return f"{digest.of_json(list(sample.key))[:16]}.sample.json"


def write(folder: Path, sample: Sample) -> None:
    """Write a sample in the place of an earlier one of the same arms and measure."""
    grades = {q: dict(sorted(sample.grades[q].items())) for q in sorted(sample.grades)}
    found = _Written(
        control=sample.control,
        candidate=sample.candidate,
        measure=sample.measure,
        seed=sample.seed,
        rate=sample.rate,
        by=sample.by,
        grades=grades,
    )
    write_text(folder / name_of(sample), found.model_dump_json(indent=1) + "\n")


def read(path: Path) -> Sample:
    """Read a sample.

    Raises:
        BadFile: the file is not one.
    """
    found = json_models.from_file(_Written, path, REMEDY)
    return Sample(
        found.control, found.candidate, found.measure, found.seed, found.rate, found.grades,
        found.by,
    )  # fmt: skip
