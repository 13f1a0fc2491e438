"""All checks on one engine, in their order."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from engines import registry
from harness.core.durable.scratch import scratch
from harness.core.engine import Engine, Manifest
from harness.core.errors import DatasetError, HarnessError
from harness.core.formats import toml_file
from harness.core.reading import Malformed
from harness.core.records import Document
from harness.corpus.prepared import Prepared
from harness.stages.contract import answers, indexes, mapping, process, sameness
from harness.stages.contract.check import Check, Finding, examine_all
from harness.stages.contract.documents import COMMON, DOCUMENTS, OBVIOUS
from harness.stages.contract.subject import Named, Subject, standing

CHECKS: tuple[Check, ...] = (*answers.CHECKS, *sameness.CHECKS, *process.CHECKS, *indexes.CHECKS)
QUERIES = 50
"""Queries of a data set that are run, taken evenly from all."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What an engine is checked on."""

    documents: Sequence[Document] = DOCUMENTS
    texts: Sequence[str] = (*OBVIOUS, *COMMON)
    own: bool = True
    """Whether these are the sample documents of the harness."""

    @classmethod
    def of(cls, data: Path) -> Sample:
        """Take documents and queries from prepared data.

        Raises:
            BadFile: the folder holds no prepared data.
            DatasetError: it has no document.
        """
        prepared = Prepared.open(data)
        documents = tuple(prepared.documents())
        if not documents:
            raise DatasetError(f"{data}: no document to check an engine on. Name another data set")
        texts = tuple(dict.fromkeys(query.text for query in prepared.queries()))
        return cls(documents, texts[:: -(-len(texts) // QUERIES) or 1], own=False)


@dataclass(frozen=True, slots=True)
class Checked:
    """What all checks of one engine saw."""

    arm: str
    manifest: Manifest
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether no promise is broken."""
        return not any(found.broken for found in self.findings)

    def told(self) -> Mapping[str, Any]:
        """Give it as JSON."""
        return {
            "arm": self.arm,
            "holds": self.holds,
            "fingerprint": self.manifest.fingerprint,
            "documents": self.manifest.documents,
            "checks": [
                {
                    "name": found.check.name,
                    "promise": found.check.promise,
                    "outcome": str(found.outcome),
                    "violations": list(found.violations),
                    "count": found.count,
                    "reason": found.reason,
                    "hint": found.check.hint if found.broken else "",
                }
                for found in self.findings
            ],
        }


def check(name: str, cache: Path, sample: Sample | None = None) -> Checked:
    """Build an index of an arm, open it and run every check; all of it is removed after that.

    Raises:
        BadPolicy, UnknownName, BadName: the file of the arm is wrong.
        InvalidArm: its engine cannot be made, built or opened.
    """
    given = sample or Sample()
    arm = registry.load(name, cache)
    checks = mapping.CHECKS if isinstance(arm.engine, mapping.ServedElsewhere) else CHECKS
    with scratch() as beside, _stood(arm, Named(name, cache), beside, given) as subject:
        found = tuple(examine_all(checks, subject, own_documents=given.own))
        return Checked(arm.name, subject.built, found)


def _stood(
    engine: Engine, named: Named | None, beside: Path, given: Sample
) -> AbstractContextManager[Subject]:
    """Build and open an engine; one whose server holds documents takes whatever it has."""
    inner = engine.engine if isinstance(engine, registry.Arm) else engine
    if given.own and isinstance(inner, mapping.ServedElsewhere):
        return standing(inner.of_any_documents(), beside, (), given.texts, None)
    return standing(engine, beside, given.documents, given.texts, named)


class Bench:
    """An engine whose index is built when the first check looks at it."""

    def __init__(self, engine: str | Path | Engine, sample: Sample) -> None:
        self._engine, self._sample = engine, sample

    @cached_property
    def subject(self) -> Subject:
        """Build and open the index; it stays open until no check is left, or Python ends.

        Raises:
            HarnessError: as ``check``.
        """
        opened = ExitStack()
        weakref.finalize(self, opened.close)
        beside = opened.enter_context(scratch())
        given, sample = self._engine, self._sample
        arm = None
        if isinstance(given, str | Path):
            arm = Named(str(given), beside / "cache")
            given = registry.load(*arm)
        return opened.enter_context(_stood(given, arm, beside, sample))


def is_served_elsewhere(engine: str | Path | Engine) -> bool:
    """Tell by the file alone, for no engine is made when tests are collected."""
    if not isinstance(engine, str | Path):
        return isinstance(engine, mapping.ServedElsewhere)
    try:
        return toml_file(registry.path_of(str(engine))).get("stack") == "http"
    except (HarnessError, OSError, Malformed):
        return False
