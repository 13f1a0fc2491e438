"""A kill switch that is set while the service runs: who answers, and how the answer is signed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail.budget import SwitchFile
from engines.stacks.agent_mail.contract import SearchMode
from engines.stacks.agent_mail.mcp_tools.server import Switched, under
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.engines.agent_mail.mcp_tools.conftest import DOCUMENTS, SETTINGS, Tools

ARM = mail.Settings.model_validate(SETTINGS).model_dump()


def through(made: Switched) -> Tools:
    return Tools(made)  # type: ignore[arg-type]


def switched(tools: Tools, file: Path) -> Tools:
    return through(Switched(tools.surface, ARM, SwitchFile(file).read))


def said(tools: Tools) -> tuple[str, str]:
    by = tools.found()["served_by"]
    return by["fingerprint"], by["engine"]


def test_the_next_question_is_answered_by_the_engine_that_the_file_names(
    tools: Tools, tmp_path: Path
) -> None:
    file = tmp_path / "switch.env"
    file.write_text("# by hand\nSEARCH_ENGINE=tantivy\n")
    here = switched(tools, file)
    seen = [said(here)]
    for value in ("fts5", "hybrid", "shadow", "tantivy"):
        file.with_suffix(".new").write_text(f"SEARCH_ENGINE={value}\n")
        file.with_suffix(".new").replace(file)
        seen.append(said(here))
    assert [engine for _, engine in seen] == ["tantivy", "fts5", "hybrid", "fts5", "tantivy"]
    assert seen[0] == seen[-1]
    assert len({fingerprint for fingerprint, _ in seen}) == 4


@pytest.mark.parametrize("switch", sorted(set(KillSwitch) - {KillSwitch.HYBRID_RERANK}))
def test_who_is_meant_is_who_answers(tools: Tools, switch: KillSwitch) -> None:
    made = Switched(tools.surface, ARM, lambda: switch)
    assert said(through(made)) == made.who(switch)


def test_without_a_reranker_nobody_signs_as_one(tools: Tools) -> None:
    made = Switched(tools.surface, ARM, lambda: KillSwitch.HYBRID_RERANK)
    fingerprint, engine = said(through(made))
    assert engine == "hybrid"
    assert made.who(KillSwitch.HYBRID_RERANK).engine == "rerank"
    assert fingerprint != made.who(KillSwitch.HYBRID_RERANK).fingerprint


def test_an_arm_under_the_switch_signs_as_the_arm_that_has_it(tools: Tools, tmp_path: Path) -> None:
    """Built on its own, the arm with ``search_engine = "fts5"`` has this very fingerprint."""
    set_so = mail.Mail(
        mail.Settings.model_validate({**SETTINGS, "search_engine": "fts5"}), tmp_path
    )
    index = tmp_path / "index"
    index.mkdir()
    made = set_so.build(DOCUMENTS, index)
    own = tools.surface.identity
    assert under(own, ARM, KillSwitch.FTS5).manifest == made
    assert under(own, ARM, None) is own
    set_already = {**ARM, "search_engine": "fts5"}
    assert under(own, set_already, KillSwitch.FTS5) is own


def test_what_is_degraded_is_not_signed_as_the_switch_says(tools: Tools) -> None:
    """Without vectors, hybrid falls back; the fingerprint is then not the one that is meant."""
    tiers = replace(tools.surface.service.tiers, semantic=None)
    lame = replace(tools.surface, service=replace(tools.surface.service, tiers=tiers))
    made = Switched(lame, ARM, lambda: KillSwitch.HYBRID)
    fingerprint, engine = said(through(made))
    assert engine != "hybrid"
    assert fingerprint != made.who(KillSwitch.HYBRID).fingerprint
    assert made.base.mode is SearchMode.LEXICAL
