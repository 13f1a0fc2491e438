"""Rows of words for quality, agreement and latency."""

from __future__ import annotations

from dataclasses import replace

from harness.core.scores import Estimate
from harness.report.page import figures, tables
from harness.report.page.cards import merged
from tests.make import report_inputs


def test_arms_are_ordered_by_the_first_measure() -> None:
    found = {
        "a": {"x": Estimate(0.1, 0, 1, 3)},
        "b": {"y": Estimate(0.9, 0, 1, 3)},
        "c": {"x": Estimate(0.2, 0, 1, 3)},
    }
    assert tables.best_first(found, "x") == ("c", "a", "b")
    assert tables.measures_of(found, "y") == ("y", "x")


def test_an_arm_without_scores_is_on_the_leaderboard() -> None:
    report = report_inputs.report()
    shown = tables.leaderboard(replace(report, means={"extra": {}, **report.means})).rows
    assert shown[-1][0].text == "extra"
    assert {cell.text for cell in shown[-1][1:]} == {"not measured"}
    silent = {arm: row for arm, row in report.means.items() if arm != "hybrid-rrf"}
    arms = [row[0].text for row in tables.leaderboard(replace(report, means=silent)).rows]
    assert arms[-1] == "hybrid-rrf"


def test_failures_are_counted_beside_the_mean() -> None:
    rows = {row[0].text: row for row in tables.leaderboard(report_inputs.report()).rows}
    assert "39 answered, 1 failed" in rows["hybrid-rrf"][-1].text
    assert "failed" not in rows["fts5-default"][-1].text


def test_undefined_agreement_is_words_and_counted() -> None:
    rows = {
        row[0].text: row
        for row in tables.agreement(report_inputs.report().evidence["tantivy"]).rows
    }
    assert rows["tau"][1].text == "not defined for any query"
    assert rows["tau"][1].note == "n 0, 40 undefined"


def test_classes_stand_beside_the_noise() -> None:
    evidence = report_inputs.report().evidence["hybrid"]
    rows = {row[0].text: (row[1].text, row[2].text) for row in tables.classes(evidence).rows}
    assert rows["error"] == ("1", "none")
    assert rows["exact"][1] == "40"


def test_times_of_an_unverified_arm_are_not_shown() -> None:
    report = report_inputs.report()
    assert report.latency is not None
    rows = {row[0].text: row for row in figures.percentiles(report.latency).rows}
    assert {cell.text for cell in rows["hybrid-rrf"][1:]} == {"not shown"}
    assert rows["fts5-default"][-1].note.endswith("unbounded]")
    ratios = {row[0].text: row for row in figures.ratios(report, report.latency).rows}
    assert {cell.text for cell in ratios["hybrid"][1:]} == {"not shown"}
    assert ratios["tantivy"][1].text == "1.823"
    assert ratios["fts5-default in other processes (A/A)"][2].text == "not measured"


def test_silence_about_verification_is_a_no() -> None:
    report = report_inputs.report()
    assert report.latency is not None
    silent = replace(report.latency, race=replace(report.latency.race, verified={}))
    assert figures.trusted_ratios(report, silent) == {}
    assert not figures.is_verified(silent, "fts5-default")


def test_provenance_names_the_policy_and_its_absence() -> None:
    assert "mail-migration 2026-11" in dict(tables.provenance(report_inputs.report()))["policy"]
    assert dict(tables.provenance(report_inputs.compared_only()))["policy"] == "none"


def test_differences_by_slice_have_a_column_a_comparison() -> None:
    report = merged(report_inputs.report())
    found = tables.slice_differences(report)
    assert found.header[0] == "slice"
    assert len(found.header) == 1 + len(report.evidence)
    assert [row[0].text for row in found.rows] == ["identifier", "natural language", "phrase"]
    for row in found.rows:
        assert all("[" in cell.note and "n " in cell.note for cell in row[1:])
