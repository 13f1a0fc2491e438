"""One question, whichever engine: what is found, through filters, after a restart, in threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from engines.stacks.agent_mail.contract import Filters, RankingMode, SearchMode, SearchQuery
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import (
    PRODUCTS,
    passes,
    some_filters,
    some_mail,
    some_text,
)
from tests.source import ROOT

pytestmark = pytest.mark.slow
ALL = 1_000
MAIL = some_mail(57, 250)
WAYS = [*((mode, None) for mode in SearchMode), (SearchMode.LEXICAL, KillSwitch.FTS5)]
TEXT = "deployment review br-2tnl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("engines")
    build(made, MAIL.messages)
    return made


@pytest.fixture(scope="module")
def mail(folder: Path) -> Iterator[Whole]:
    with whole(folder) as made:
        yield made


def question(text: str, filters: Filters, mode: SearchMode = SearchMode.LEXICAL) -> SearchQuery:
    """Ask with these filters; a set of projects is asked for as the product that has them."""
    products = {projects: product for product, projects in PRODUCTS.items()}
    by_product = filters.product_projects
    return SearchQuery(
        text,
        mode=mode,
        limit=ALL,
        project_id=filters.project_id,
        product_id=None if by_product is None else products[by_product],
        importance=tuple(filters.importance),
        direction=filters.direction,
        agent_name=filters.agent_name,
        thread_id=filters.thread_id,
        ack_required=filters.ack_required,
        time_range=filters.time_range,
        sender_name=filters.sender_name,
        recipient_name=filters.recipient_name,
    )


def test_fts5_and_tantivy_find_the_same_messages(mail: Whole) -> None:
    rng, found = Random(1), 0
    for _ in range(150):
        query = question(some_text(rng), some_filters(rng) if rng.random() < 0.5 else Filters())
        by_fts5 = set(mail.under(KillSwitch.FTS5).ids(query))
        assert set(mail.under(KillSwitch.TANTIVY).ids(query)) == by_fts5, query.text
        found += bool(by_fts5)
    assert found > 60


@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_every_filter_holds_in_every_mode(
    mail: Whole, mode: SearchMode, switch: KillSwitch | None
) -> None:
    """The filtered answer is the part of the whole one that passes; fusion may order it anew."""
    served, rng = mail.under(switch), Random(2)
    everything = served.ids(question(TEXT, Filters(), mode))
    for _ in range(60):
        filters = some_filters(rng)
        kept = [at for at in everything if passes(MAIL.by_id[at], filters)]
        found = served.ids(question(TEXT, filters, mode))
        if mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK}:
            found, kept = sorted(found), sorted(kept)
        assert found == kept


def asked() -> list[SearchQuery]:
    rng = Random(3)
    return [
        replace(
            question(some_text(rng), some_filters(rng) if rng.random() < 0.5 else Filters()),
            mode=mode,
            ranking=rng.choice([*RankingMode]),
            limit=rng.choice((3, ALL)),
        )
        for mode in SearchMode
        for _ in range(20)
    ]


@pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])
def test_the_same_after_a_restart_and_in_a_copy(
    folder: Path, tmp_path: Path, switch: KillSwitch | None
) -> None:
    build(tmp_path, MAIL.messages[::-1])
    answers = []
    for at in (folder, folder, tmp_path):
        with whole(at) as made:
            answers.append([made.under(switch).ask(query).hits for query in asked()])
    first, again, copy = answers
    assert first == again == copy
    assert sum(map(bool, first)) > 30


@pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])
def test_the_same_in_another_process(folder: Path, switch: KillSwitch | None) -> None:
    """Sets of words have another order there."""
    code = "import sys; from tests.engines.agent_mail import test_contract_engines as here;"
    said = subprocess.run(
        [sys.executable, "-c", f"{code} print(here.told(*sys.argv[1:]))", folder, switch or ""],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == told(str(folder), switch or "")


def told(folder: str, switch: str) -> str:
    """Write ids and scores of the answers to all questions."""
    with whole(Path(folder)) as mail:
        served = mail.under(KillSwitch.read(switch))
        found = [served.ask(query).hits for query in asked()]
    return json.dumps([[(hit.message_id, hit.score) for hit in hits] for hits in found])


def test_threads_may_ask_one_service(mail: Whole) -> None:
    queries = asked()
    alone = [mail.ids(query) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(mail.ids, queries * 3))
    assert together == alone * 3


@pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])
def test_sender_recipient_and_agent_are_all_held_to(mail: Whole, switch: KillSwitch | None) -> None:
    served, rng, some = mail.under(switch), Random(4), 0
    for _ in range(60):
        one = some_filters(rng)
        filters = Filters(
            direction=one.direction,
            agent_name=rng.choice(("Zoë", "AmberFox")),
            sender_name=rng.choice(("Zoë", "AmberFox", "TealOtter")),
            recipient_name=rng.choice(("小林", "SlateHeron")),
        )
        by_hand = [m.message_id for m in MAIL.messages if passes(m, filters)]
        assert served.ids(question("", filters)) == by_hand
        some += bool(by_hand)
    assert some > 20


@pytest.mark.parametrize(
    "text", ['"', "(deployment", "AND OR", "*", "a:b", "br-2tnl AND (", "NEAR(", "+-", "!!!", "🎉"]
)
@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_no_text_is_an_error_in_any_mode(
    mail: Whole, text: str, mode: SearchMode, switch: KillSwitch | None
) -> None:
    found = mail.under(switch).ask(SearchQuery(text, mode=mode)).explain
    assert (found.mode_downgraded, found.used_like_fallback) == (False, False)


@pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])
@pytest.mark.parametrize(
    "broken", ["(deployment", "deployment AND", "deployment )) ^", '"deployment']
)
def test_what_is_no_syntax_is_read_as_words(
    mail: Whole, switch: KillSwitch | None, broken: str
) -> None:
    served = mail.under(switch)
    assert served.ids(SearchQuery(broken)) == served.ids(SearchQuery("deployment")) != []
