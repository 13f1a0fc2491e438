"""A folder with reports and a pool, and somebody who asks for them."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from harness.core.files import write_json, write_text
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Pool
from harness.load import page_of
from harness.pipeline.layout import Layout
from harness.pipeline.report import linked
from harness.report.decision import to_json
from harness.report.inputs import ReportInput
from harness.serve.application import Guard, application
from harness.serve.shelf import folders
from tests.make import report_inputs

URL = "http://127.0.0.1:8642"


SCALE = (0, 1, 2, 3)


def make_pool(path: Path, pairs: int = 4) -> Pool:
    """Write a pool of as many pairs, each with words of its own."""
    every = [
        JudgingPair(
            query_id=f"q{at}", doc_id=f"d{at}", query=f"question {at}", title=f"Title {at}",
            snippet=f"words of document {at}", narrows=0.25, scale=SCALE,
        )
        for at in range(pairs)
    ]  # fmt: skip
    made = Pool((*every,), (None,) * pairs)
    write_text(judgements.texts_path(path), judgements.PAIRS.text(made.pairs))
    judgements.write_grades(path, made)
    return made


@cache
def decision(*datasets: str) -> Mapping[str, Any]:
    """Return what a report on data sets of these names decides."""
    return to_json([report_inputs.report(name) for name in datasets])


def write_decision(folder: Path, *datasets: str) -> None:
    """Write that, with a page that says nothing."""
    write_text(folder / "index.html", "<!doctype html><title>report</title>")
    write_json(folder / "decision.json", decision(*datasets))


@cache
def compared() -> ReportInput:
    return report_inputs.compared_only("mail")


def write_compared(folder: Path, layout: Layout) -> None:
    """Write the page of a load where its layout has it, and a report that leads to it."""
    write_text(page_of(layout), "<!doctype html><title>load</title>")
    report = replace(linked(compared(), layout, folder), apart=())
    write_text(folder / "index.html", report_inputs.page_of(report))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ``reports`` with a decision, and ``out`` with a run of its own and a pool, once."""
    root = tmp_path_factory.mktemp("site")
    write_decision(root / "reports", "mail")
    for name in ("report.md", "junit.xml"):
        write_text(root / "reports" / name, f"<{name} of a report>")
    work = root / "out" / "mine" / "work"
    kept = Layout(work / "build" / "mail", work / "perf", work / "cache")
    write_compared(root / "out" / "mine", kept)
    make_pool(root / "out" / "pool.qrels")
    return root


@pytest.fixture
def site(written: Path, tmp_path: Path) -> Path:
    """Copy it, for a test to do with as it likes."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def guard(site: Path) -> Guard:
    return application(folders([site / "reports", site / "out"]), URL)


@pytest.fixture
def stranger(guard: Guard) -> Iterator[TestClient]:
    """Ask from this machine without the token."""
    with TestClient(guard, base_url=URL, follow_redirects=False) as made:
        yield made


@pytest.fixture
def client(stranger: TestClient, guard: Guard) -> TestClient:
    """Ask as a browser that opened the printed address."""
    assert stranger.get(guard.address).status_code == 200
    return stranger
