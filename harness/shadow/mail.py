"""Message search compared with Tantivy while it is served (``SEARCH_ENGINE=shadow``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.core.digest import of_json
from harness.core.engine import Answer, Searcher
from harness.pipeline.mail import engine_of, opened
from harness.shadow.comparison import LiveComparison, ShadowLog
from harness.shadow.log import Between
from harness.shadow.pair import ServedQuery, generation_of
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.arm import MailSearcher, params_of
from harness_engines.stacks.agent_mail.contract import SearchMode, SearchQuery, SearchResponse
from harness_engines.stacks.agent_mail.mcp_tools.arguments import Signal, diagnose
from harness_engines.stacks.agent_mail.mcp_tools.server import manifest_under
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness_engines.stacks.agent_mail.service import Observer


def observer(control: MailSearcher, comparison: LiveComparison) -> Observer:
    """Return what offers each answer of the service to a comparison, its messages as documents."""
    now = partial(generation_of, control)

    def served(query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        diagnostics = diagnose(search_response)
        signals = diagnostics.signals if diagnostics else []
        failed = Signal.SEARCH_FAILED.value in signals
        comparison.offer(
            ServedQuery(
                text=query.text,
                k=query.effective_limit,
                params=params_of(query),
                answer=None if failed else _answer(control, search_response),
                error=diagnostics.reason if diagnostics and failed else "",
                elapsed_ns=elapsed_ns,
                generation=now(),
            ),
            now,
        )

    return served


def _answer(control: MailSearcher, found: SearchResponse) -> Answer:
    who, explain = control.manifest.fingerprint, found.explain
    if found.fell_back or explain.used_like_fallback:
        who = of_json([who, found.served_by, explain.method])
    return Answer(control.hits_of(found), who, explain.note)


@contextmanager
def watched(
    searcher: MailSearcher, arm: arms.Arm, index: Path, cache: Path, log: ShadowLog
) -> Iterator[Observer]:
    """Run Tantivy over the same index in the shadow of what ``searcher`` serves."""
    opens = partial(candidate, str(arm.path), index, cache)
    between = Between(
        *(f"{arm.name} ({switch.value})" for switch in (KillSwitch.FTS5, KillSwitch.TANTIVY))
    )
    with log.compared(opens, between=between) as comparison:
        yield observer(_as(searcher, arm, KillSwitch.FTS5), comparison)


@contextmanager
def candidate(arm_path: str, index: Path, cache: Path) -> Iterator[Searcher]:
    """Open the arm as it is under SEARCH_ENGINE=tantivy, asked for words alone."""
    arm = arms.load(arm_path, cache)
    with opened(arm, index) as searcher:
        yield _as(searcher, arm, KillSwitch.TANTIVY)


def _as(searcher: MailSearcher, arm: arms.Arm, switch: KillSwitch) -> MailSearcher:
    settings = {**engine_of(arm).settings.model_dump(), "mode": SearchMode.LEXICAL.value}
    return replace(
        searcher,
        service=replace(searcher.service, switch=switch, observer=None),
        manifest=manifest_under(searcher.manifest, settings, switch),
        mode=SearchMode.LEXICAL,
    )
