"""``mcp_tools.metrics``: what a server counts, and that nothing private is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

from engines.contract.errors import EngineError
from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.contract.query import SearchMode
from engines.stacks.agent_mail.mcp_tools.metrics import Metrics
from engines.stacks.agent_mail.mcp_tools.search import Identity, Surface
from engines.stacks.agent_mail.mcp_tools.server import application
from engines.stacks.agent_mail.pipeline.fresh import Reached, Steady
from engines.stacks.agent_mail.pipeline.scope import viewer
from engines.stacks.agent_mail.sqlite import store
from tests.engines.agent_mail.mcp_tools.conftest import Tools
from tests.make.mail import live_index

SAMPLE = re.compile(r'([a-z_]+)(?:\{([a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*)\})? (\S+)')


@dataclass(frozen=True)
class Counted(Tools):
    """Tools whose calls are counted."""

    metrics: Metrics

    @cached_property
    def app(self) -> MCPServer[Any]:
        return application(self.surface, None, self.metrics)


def counted(tools: Tools) -> Counted:
    return Counted(tools.surface, Metrics(Steady()))


def samples(text: str) -> dict[str, float]:
    """Read the samples of a page, each line of which is a comment or a sample."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        found[f"{sample[1]} {sample[2] or ''}".strip()] = float(sample[3])
    return found


def test_queries_are_counted_by_mode_tier_and_outcome(tools: Tools) -> None:
    here = counted(tools)
    for _ in range(2):
        here.found("review")
    here.found("review", mode="hybrid_rerank")
    found = samples(here.metrics.text())
    assert found['mail_queries_total mode="lexical",engine="tantivy",outcome="answered"'] == 2
    own = 'mail_queries_total mode="hybrid_rerank",engine="hybrid",outcome="degraded"'
    assert found[own] == 1
    assert found['mail_signals_total signal="mode_downgraded"'] == 1
    assert found['mail_calls_total tool="search_messages",outcome="answered"'] == 2


def test_a_refused_call_and_another_tool_are_counted(tools: Tools) -> None:
    here = counted(tools)
    here.refused(limit="many")
    here.refused(mode="psychic")
    assert not here.call("complete_subject", project_key="*", prefix="rev").is_error
    found = samples(here.metrics.text())
    assert found['mail_calls_total tool="search_messages",outcome="refused"'] == 2
    assert found['mail_calls_total tool="complete_subject",outcome="answered"'] == 1
    assert not any(name.startswith("mail_queries_total") for name in found)


def test_a_search_that_failed_is_not_an_answer(tools: Tools) -> None:
    class Broken:
        def project_called(self, slug: str) -> int | None:
            raise EngineError(f"no table for {slug}")

        product_called = projects_of_product = project_called

    here = counted(Tools(replace(tools.surface, directory=Broken())))  # type: ignore[arg-type]
    here.found("review", project_key="p1")
    found = samples(here.metrics.text())
    assert found['mail_calls_total tool="search_messages",outcome="failed"'] == 1


def test_times_are_a_histogram() -> None:
    metrics = Metrics(Steady())
    for seconds in (0.0005, 0.001, 0.3, 60.0):
        metrics.answered("a", None, seconds)
    found = samples(metrics.text())
    buckets = {
        name.split('le="')[1].rstrip('"'): count
        for name, count in found.items()
        if name.startswith("mail_call_seconds_bucket")
    }
    assert (buckets["0.001"], buckets["0.25"], buckets["0.5"], buckets["5.0"]) == (2, 2, 3, 3)
    assert buckets["+Inf"] == found['mail_call_seconds_count tool="a"'] == 4
    assert found['mail_call_seconds_sum tool="a"'] == 0.0005 + 0.001 + 0.3 + 60.0


def test_no_text_and_no_viewer_is_in_it(tools: Tools) -> None:
    scope = viewer("Ann", frozenset({1}), frozenset())
    here = counted(Tools(replace(tools.surface, scope=scope)))
    here.found("review plan from:Ann")
    here.refused(sender="zebra", from_agent="quagga")
    text = here.metrics.text()
    assert not [word for word in ("review", "plan", "Ann", "zebra", "quagga") if word in text]


def test_how_far_the_indexes_are_is_told(tmp_path: Path) -> None:
    index = live_index.built(tmp_path)
    with live_index.served(tmp_path) as searcher, store.opened(index / mail.STORE) as directory:
        identity = Identity("mine", searcher.manifest)
        surface = Surface(searcher.service, directory, identity, SearchMode.LEXICAL)
        here = Counted(surface, Metrics(searcher.service.fresh))
        here.found("review")
        with ingest.opened(index / mail.STORE) as box:
            box.delete(1)
        behind = samples(here.metrics.text())
        assert behind["mail_generation"] > 0
        assert behind['mail_index_lag index="tantivy"'] == behind["mail_generation"]
        here.found("review")
        found = samples(here.metrics.text())
        assert found['mail_index_lag index="tantivy"'] == 0
        assert found['mail_index_generation index="tantivy"'] == found["mail_generation"]


def test_an_index_that_does_not_know_has_no_number() -> None:
    class Unsure(Steady):
        def reached(self) -> Reached:  # type: ignore[override]
            return Reached(7, {"tantivy": None, "vectors": 4})

    found = samples(Metrics(Unsure()).text())
    assert found['mail_index_lag index="vectors"'] == 3
    assert 'mail_index_lag index="tantivy"' not in found


def test_what_cannot_be_read_hides_no_count() -> None:
    class Broken(Steady):
        def reached(self) -> None:
            raise EngineError("the table is locked")

    metrics = Metrics(Broken())
    metrics.answered("a", None, 0.1)
    assert samples(metrics.text())['mail_calls_total tool="a",outcome="answered"'] == 1
