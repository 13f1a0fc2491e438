"""Files of a data set: what is tracked, what rests on a clock, and what is a cache."""

from __future__ import annotations

from pathlib import Path

from harness.pipeline.layout import File, Layout

LAYOUT = Layout(Path("build/x"), Path("perf/x"), Path(".cache/x"))


def properties() -> dict[str, Path]:
    names = [name for name, kind in vars(Layout).items() if isinstance(kind, File)]
    return {name: getattr(LAYOUT, name) for name in names}


def test_no_two_things_share_a_file() -> None:
    by_arm = (LAYOUT.index, LAYOUT.manifest, LAYOUT.run, LAYOUT.again, LAYOUT.run_receipt)
    named = [*properties().values(), *(of(arm) for of in by_arm for arm in ("a", "b"))]
    assert len(set(named)) == len(named)


def test_what_rests_on_a_clock_is_not_among_the_tracked() -> None:
    timed = {name for name, path in properties().items() if path.is_relative_to(LAYOUT.today)}
    assert timed == {
        "times",
        "decision",
        "junit",
        "decision_receipt",
        "signature",
        "replays",
        "experiments",
        "log",
        "log_link",
    }
    others = set(properties().values()) - {
        properties()[name] for name in (*timed, "race_parts", "score_parts")
    }
    assert all(path.is_relative_to(LAYOUT.root) for path in others)


def test_indexes_and_parts_are_caches() -> None:
    assert LAYOUT.index("a").is_relative_to(LAYOUT.cache)
    assert LAYOUT.parts("a").is_relative_to(LAYOUT.cache)
    assert LAYOUT.race_parts.is_relative_to(LAYOUT.cache)
    assert LAYOUT.manifest("a").is_relative_to(LAYOUT.root)
