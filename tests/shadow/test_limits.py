"""Settings, the sampler, the gate and the backlog."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import BadPolicy
from harness.shadow.comparison import LoadShedder, Sampler, Shadowed, ShadowLog, ShedReason
from harness.shadow.log import Between
from harness.shadow.settings import MILLION, ComparisonSettings, read_settings
from tests.make.arms import Hand
from tests.make.shadow_log import LIMITS, changed, drained
from tests.shadow.arms import Arm, arm
from tests.source import ROOT

FILE = ROOT / "policy" / "shadow.toml"
TEXT = FILE.read_text(encoding="utf-8")
KEYS = [line.split("=")[0].strip() for line in TEXT.splitlines() if "=" in line and line[0] != "#"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        *((next(one for one in TEXT.splitlines() if one.startswith(f"{key} ")), "",
           f"{key}: is missing") for key in KEYS),
        ("rate = 1000000", "rate = 1000001", "sampling.rate"),
        ("rate = 1000000", "rate = -1", "sampling.rate"),
        ("queue = 64", "queue = -1", "limits.queue"),
        ("persistence = 0.9", "persistence = 1.0", "recording.persistence"),
        ("in_flight = 1", "in_flight = 0", "limits.in_flight"),
        ("seed = 20261122", "seeds = 1", "sampling.seeds: unknown key"),
        ("hang_ms = 3000.0", "hang_ms = 1.0", "hang_ms 1.0 must not lie below"),
        ("backoff_ms = 1000.0", "backoff_ms = 70000.0", "backoff_most_ms 60000.0 below"),
    ],
)  # fmt: skip
def test_nothing_has_a_default_and_what_is_wrong_is_named(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in TEXT
    (tmp_path / "shadow.toml").write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read_settings(tmp_path / "shadow.toml")
    assert raised.value.line is not None


@pytest.mark.slow
def test_a_comparison_is_made_of_it(tmp_path: Path) -> None:
    given = ComparisonSettings.model_validate({
        **read_settings(FILE).model_dump(),
        "sampling": {"rate": 500_000, "seed": 3},
    })
    with ShadowLog(tmp_path, given).compared(arm(), between=Between("old", "new")) as made:
        for _ in range(6):
            Shadowed(Arm(), made).search("ab", 10)
        found = drained(made)
    assert found.tally.compared == 3
    assert {one.k for one in found.observations} == {10}


rates = st.integers(0, MILLION)
seeds = st.integers(0, 2**32)


def off_by(picked: list[bool], rate: int) -> int:
    """Most millionths by which any window misses its share."""
    low = high = at = 0
    for one in picked:
        at += MILLION * one - rate
        low, high = min(low, at), max(high, at)
    return high - low


@given(rate=rates, seed=seeds, start=st.integers(1, 10**12))
def test_every_window_has_its_share_but_for_one(rate: int, seed: int, start: int) -> None:
    sampler = Sampler(rate=rate, seed=seed)
    assert off_by([sampler.takes(start + n) for n in range(300)], rate) <= MILLION


def test_the_share_is_the_rate() -> None:
    sampler = Sampler(rate=97_003, seed=1)
    assert sum(sampler.takes(n) for n in range(1, MILLION + 1)) == 97_003
    everything, nothing = Sampler(rate=MILLION, seed=1), Sampler(rate=0, seed=1)
    assert all(everything.takes(n) for n in range(1, 100))
    assert not any(nothing.takes(n) for n in range(1, 100))


def test_the_same_seed_picks_the_same_and_another_seed_others() -> None:
    def picks(seed: int) -> list[int]:
        sampler = Sampler(rate=10_000, seed=seed)
        return [n for n in range(1, 1_001) if sampler.takes(n)]

    assert picks(7) == picks(7)
    assert len({tuple(picks(seed)) for seed in range(20)}) > 10


SECOND = 1_000_000_000


def gate(*, in_flight: int = 2, queue: int = 1, budget_s: float = 10.0) -> tuple[LoadShedder, Hand]:
    clock = Hand()
    limits = changed(LIMITS, in_flight=in_flight, queue=queue, budget_s=budget_s)
    return LoadShedder(limits, clock.now_ns), clock


def test_no_more_pairs_are_inside_than_may_run_and_wait() -> None:
    made, _ = gate()
    assert [made.admit() for _ in range(5)] == [None] * 3 + [ShedReason.QUEUE] * 2
    made.done(1)
    assert made.inside == 2
    assert made.admit() is None
    assert made.shed == {ShedReason.QUEUE: 2}
    made, _ = gate(in_flight=1, queue=0)
    assert [made.admit(), made.admit()] == [None, ShedReason.IN_FLIGHT]


def test_the_budget_is_of_the_minute_that_just_was() -> None:
    made, clock = gate()
    for spent in (4, 6):
        assert made.admit() is None
        made.done(spent * SECOND)
        clock.at_ns += 20 * SECOND
    assert made.admit() is ShedReason.BUDGET
    clock.at_ns += 19 * SECOND
    assert made.admit() is ShedReason.BUDGET
    clock.at_ns += SECOND
    assert made.admit() is None
    made.done(4 * SECOND)
    assert made.admit() is ShedReason.BUDGET


def test_the_switch_sheds_all_and_lets_in_again() -> None:
    made, _ = gate()
    made.switch_off("by hand")
    assert made.admit() is ShedReason.OFF
    assert made.off == "by hand"
    made.switch_on()
    assert made.admit() is None
    assert made.shed == {ShedReason.OFF: 1}


def test_threads_do_not_lose_a_count() -> None:
    made = LoadShedder(changed(LIMITS, queue=0, budget_s=60.0))
    admitted: list[int] = []

    def ask() -> None:
        found = 0
        for _ in range(2_000):
            if made.admit() is None:
                found += 1
                made.done(0)
        admitted.append(found)

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) + sum(made.shed.values()) == 8_000
    assert made.inside == 0
