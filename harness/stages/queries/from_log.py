"""Make a query set of a log: a stratified sample, and a card that says how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core import digest
from harness.core.durable.journal import changing, completed
from harness.core.durable.owned import check_new
from harness.core.errors import BadFile
from harness.core.files import json_text
from harness.core.formats import json_file
from harness.core.records import Query
from harness.corpus import jsonl
from harness.corpus.clusters import near_duplicates
from harness.corpus.querylog.formats import Fields
from harness.corpus.querylog.masks import LIMITS
from harness.corpus.querylog.tally import Tally
from harness.stages.queries.counting import Counts, count
from harness.stages.queries.strata import Stratum, drawn, strata

FORMAT = 1
REMEDY = "Make the sample anew: harness queries from-log."


class StratumRow(BaseModel):
    """A stratum, as the card has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    queries: Annotated[int, Field(ge=1)]
    requests: Annotated[int, Field(ge=1)]
    sampled: Annotated[int, Field(ge=1)]


class SampleCard(BaseModel):
    """What a sample is of, and how it was drawn; the file beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    log: str
    log_sha256: str
    log_format: str
    seed: int
    lines: int
    requests: int
    sessions: int
    foreign_lines: int
    untold_requests: int
    left_out: dict[str, int]
    masked: dict[str, int]
    mask_limits: list[str]
    strata: dict[str, StratumRow]
    near_duplicates: int
    """Sampled queries with nearly the words of another."""
    queries_sha256: str


class Made(NamedTuple):
    """What was written."""

    card: SampleCard
    queries: int


def beside(path: Path) -> Path:
    """Where the card of a sample lies."""
    return path.with_name(f"{path.name}.card.json")


def from_log(path: Path, to: Path, *, kind: str, fields: Fields, size: int, seed: int) -> Made:
    """Write a sample of at most ``size`` queries into ``to``, and its card beside it.

    Raises:
        NotOurs: a file is there already.
        BadFile: the log cannot be read, or has no query.
        HarnessError: ``size`` is below what each stratum needs.
    """
    completed(to, within=(to.parent,))
    for file in (to, beside(to)):
        check_new(file, reads=[path])
    with Tally.open() as tally:
        counts = count(path, tally, kind, fields)
        parts = strata(tally, size)
        queries = drawn(tally, parts, seed)
    sample_card = _card(path, counts, parts, queries, seed)
    with changing(to, within=(to.parent,), what="queries from-log") as change:
        for file in (to, beside(to)):
            check_new(file)
        change.write(beside(to), json_text(sample_card.model_dump(mode="json")))
        change.write(to, jsonl.queries_text(queries))
    return Made(sample_card, len(queries))


def read_card(path: Path) -> SampleCard:
    """Read the card of the sample at ``path``.

    Raises:
        BadFile: it is missing, holds something else, or the sample was changed since.
    """
    place = beside(path)
    try:
        sample_card = SampleCard.model_validate(json_file(place))
    except FileNotFoundError as exc:
        raise BadFile(place, "missing card of a sample", REMEDY) from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the card"
        raise BadFile(place, f"{key}: {first['msg']}", REMEDY) from exc
    except ValueError as exc:
        raise BadFile(place, f"it is not JSON ({exc})", REMEDY) from exc
    if digest.of_queries(jsonl.queries(path)) != sample_card.queries_sha256:
        raise BadFile(path, "it was changed since its card was written", REMEDY)
    return sample_card


def _card(
    path: Path, counts: Counts, parts: Mapping[str, Stratum], queries: Sequence[Query], seed: int
) -> SampleCard:
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return SampleCard(
        format=FORMAT,
        log=path.name,
        log_sha256=digest.of_files(files),
        log_format=counts.format,
        seed=seed,
        lines=counts.lines,
        requests=counts.requests,
        sessions=counts.sessions,
        foreign_lines=counts.foreign,
        untold_requests=counts.untold,
        left_out={str(why): number for why, number in sorted(counts.left.items())},
        masked=dict(sorted(counts.masked.items())),
        mask_limits=list(LIMITS),
        strata={name: StratumRow(**asdict(one)) for name, one in parts.items()},
        near_duplicates=sum(map(len, near_duplicates(queries))),
        queries_sha256=digest.of_queries(queries),
    )
