"""``surface.diagnostics``: whatever explain knows of a degradation, a caller is told of unasked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engines.contract import EngineError, FeatureUnavailable, IndexUnavailable
from engines.stacks.agent_mail.contract import CandidateList, MailEngine, Message, SearchMode
from engines.stacks.agent_mail.mcp_tools.results import HINTS, Signal
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from tests.engines.agent_mail.fakes import Counting, Failing, message, service
from tests.engines.agent_mail.mcp_tools.conftest import Names, Tools, over

pytestmark = pytest.mark.slow
MAIL = [message(at, f"plan {at}") for at in range(1, 6)]
WORKS: Mapping[FallbackTier, MailEngine] = {
    tier: Counting(tier.value, MAIL)
    for tier in (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
}


def broken(*tiers: FallbackTier, error: BaseException | None = None) -> Tools:
    failing = {tier: Failing(tier, error or IndexUnavailable("torn")) for tier in tiers}
    return over(service(MAIL, lexical={**WORKS, **failing}))


@dataclass(frozen=True)
class ByLike:
    """Finds by LIKE, as FTS5 does with what it cannot match."""

    name: str = "fts5"

    def search(self, text: str, *rest: Any) -> CandidateList:  # noqa: ANN401  as MailEngine
        found = Counting("fts5", MAIL).search(text, *rest)
        return replace(found, used_like_fallback=True, method="like")


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    for explain in (False, True):
        assert "diagnostics" not in over(service(MAIL)).found("plan", explain=explain)


@pytest.mark.parametrize(
    "error", [IndexUnavailable("torn"), EngineError("x"), RuntimeError("boom")]
)
def test_another_engine_answered_in_the_same_mode(error: BaseException) -> None:
    found = broken(FallbackTier.TANTIVY, error=error).found("plan")
    assert len(found["result"]) == 5
    said = found["diagnostics"]
    assert said["degraded"] is True
    assert said["signals"] == ["engine_fallback"]
    assert said["fallback_mode"] == "fts5"
    assert str(error) in said["reason"]
    assert not said["cursor_invalidated"]


def test_the_end_of_the_chain_answered() -> None:
    said = broken(FallbackTier.TANTIVY, FallbackTier.FTS5).found("plan")["diagnostics"]
    assert (said["fallback_mode"], said["signals"]) == ("like", ["engine_fallback"])


@pytest.mark.parametrize("mode", ["semantic", "hybrid", "hybrid_rerank"])
def test_the_mode_was_downgraded(mode: str) -> None:
    said = over(service(MAIL)).found("plan", mode=mode)["diagnostics"]
    assert said["signals"] == ["mode_downgraded", "engine_fallback"]
    assert (said["requested_mode"], said["actual_mode"]) == (mode, "lexical")
    assert said["fallback_mode"] == "tantivy"
    assert "no model" in said["reason"]


def test_the_kill_switch_downgraded_the_mode() -> None:
    tools = over(service(MAIL, switch=KillSwitch.FTS5))
    said = tools.found("plan", mode="hybrid")["diagnostics"]
    assert said["signals"] == ["mode_downgraded"]
    assert said["fallback_mode"] == "fts5"
    assert "fts5" in said["reason"]
    assert "diagnostics" not in tools.found("plan")


def test_the_text_was_searched_for_by_like() -> None:
    tools = over(
        service(MAIL, lexical={**WORKS, FallbackTier.FTS5: ByLike()}, switch=KillSwitch.FTS5)
    )
    said = tools.found("plan")["diagnostics"]
    assert said["signals"] == ["like_fallback"]
    assert said["fallback_mode"] is None
    assert said["reason"]


@pytest.mark.parametrize("token", ["rubbish", "s3fe0000000000000:i4:efts5"])
def test_a_cursor_of_another_engine_began_anew(token: str) -> None:
    found = over(service(MAIL)).found("plan", cursor=token)
    assert [row["id"] for row in found["result"]] == [1, 2, 3, 4, 5]
    said = found["diagnostics"]
    assert said["signals"] == ["cursor_invalidated"]
    assert said["cursor_invalidated"] is True


def test_a_message_that_cannot_be_read_is_counted() -> None:
    whole = service(MAIL)

    def reads(ids: Sequence[int]) -> Mapping[int, Message]:
        if 3 in ids:
            raise ValueError("torn row")
        return whole.hydrate(ids)

    found = over(replace(whole, hydrate=reads)).found("plan")
    assert [row["id"] for row in found["result"]] == [1, 2, 4, 5]
    assert found["diagnostics"]["signals"] == ["messages_unread"]


def test_nothing_was_asked() -> None:
    found = over(service(MAIL)).found("  ")
    assert found["result"] == []
    assert found["diagnostics"]["signals"] == ["invalid_query"]
    assert found["diagnostics"]["degraded"] is False
    assert "guidance" not in found


def test_nothing_could_answer() -> None:
    found = broken(FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE).found(
        "plan", explain=True
    )
    assert found["result"] == []
    assert found["diagnostics"]["signals"] == ["search_failed", "engine_fallback"]
    assert found["explain"]["note"] == found["diagnostics"]["reason"]
    assert "guidance" not in found


class Torn(Names):
    """A directory whose file is broken."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def project_called(self, slug: str) -> int | None:
        del slug
        raise self.error


@pytest.mark.parametrize("error", [IndexUnavailable("torn"), RuntimeError("boom")])
def test_the_names_cannot_be_read(error: Exception) -> None:
    found = over(service(MAIL), Torn(error)).found("plan", project_key="p1")
    assert found["result"] == []
    assert found["diagnostics"]["signals"] == ["search_failed"]
    assert found["served_by"]["engine"] == "none"


def test_what_is_said_is_the_same_each_time() -> None:
    tools = broken(FallbackTier.TANTIVY, error=FeatureUnavailable("gone"))
    assert tools.found("plan")["diagnostics"] == tools.found("plan")["diagnostics"]


def test_every_signal_has_its_hint() -> None:
    assert set(HINTS) == set(Signal)


@pytest.mark.parametrize(
    ("tools", "given", "own"),
    [
        (over(service(MAIL)), {}, True),
        (over(service(MAIL)), {"query": ""}, True),
        (over(service(MAIL)), {"mode": "lexical"}, True),
        (over(service(MAIL), mode=SearchMode.HYBRID), {}, False),
        (over(service(MAIL), mode=SearchMode.HYBRID), {"mode": "lexical"}, False),
        (over(service(MAIL)), {"cursor": "rubbish"}, False),
        (broken(FallbackTier.TANTIVY), {}, False),
        (broken(*WORKS), {}, False),
        (over(service(MAIL), Torn(RuntimeError())), {"project_key": "p1"}, False),
    ],
)
def test_only_what_the_arm_answered_is_signed_with_its_fingerprint(
    tools: Tools, given: dict[str, object], *, own: bool
) -> None:
    said = tools.found(**{"query": "plan", **given})["served_by"]  # type: ignore[arg-type]
    arm = tools.surface.identity.manifest
    assert (said["fingerprint"] == arm.fingerprint) is own
    assert (said["arm"], said["corpus_sha256"]) == ("served", arm.corpus_sha256)
