"""The contract of an engine as checks for a test suite of your own."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

from harness.check import checks
from harness.check.checks import CONTRACT_CHECKS, Bench, CheckSample, is_served_elsewhere
from harness.check.subject import DOCUMENTS, Check, CheckOutcome, examine
from harness.core.engine import Engine
from harness.core.records import Document


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """One check of an engine; call it to run the check."""

    check: Check
    bench: Bench
    skips: bool = False
    """Whether a check that has nothing to look at is skipped, as pytest and unittest do."""

    def __call__(self) -> None:
        """Check the promise.

        Raises:
            AssertionError: it is broken, or nothing could be checked; the message has the first
                violations and what to do.
            SkipTest: an engine over HTTP gives the check nothing to look at.
            HarnessError: the engine's file is wrong, or its index cannot be built or opened.
        """
        __tracebackhide__ = True
        finding = examine(self.check, self.bench.subject)
        if self.skips and finding.outcome is CheckOutcome.NOT_CHECKED:
            raise SkipTest(f"{self.check}: {finding.reason}")
        if finding.outcome is not CheckOutcome.HOLDS:
            raise AssertionError(str(finding))

    def __str__(self) -> str:
        return self.check.name


def engine_contract(
    engine: str | Path | Engine,
    *,
    documents: Sequence[Document] = DOCUMENTS,
    queries: Sequence[str] = (),
) -> tuple[EngineCheck, ...]:
    """Return the checks that every engine must pass.

    ``engine`` is the path of a TOML file, or an object with ``build`` and ``open``. The index is
    built at the first check, in a temporary folder, and all checks share it. With your own
    ``documents``, also give ``queries`` that match them; checks that need the sample documents are
    then left out. The check in another process needs a path, not an object.

    A file with ``stack = "http"`` gets the checks of ``harness arm check``: of its mapping, and of
    all that holds without building an index. The documents are those that the server has.

    As a test::

        @pytest.mark.parametrize("check", engine_contract("own.toml"), ids=str)
        def test_own_engine(check):
            check()
    """
    sample = CheckSample() if documents is DOCUMENTS else CheckSample(documents, queries, own=False)
    bench = Bench(engine, sample)
    known = isinstance(engine, str | Path)
    elsewhere = is_served_elsewhere(engine)
    return tuple(
        EngineCheck(check, bench, elsewhere)
        for check in (checks.MAPPING_CHECKS if elsewhere else CONTRACT_CHECKS)
        if (sample.own or not check.own_documents) and (known or not check.by_name)
    )
