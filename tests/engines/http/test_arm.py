"""``stacks.http``: what is sent, what is read, who answered, and which failures are whose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines import contract
from engines import registry as arms
from engines.stacks.http.arm import HttpEngine, HttpSearcher
from harness.core.engine import Answer
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.replay.drive import TimedOutcome, observe
from tests.make.search_server import DOCUMENTS, Served, body, drip, half, serving, slow, status

Write = Callable[..., Path]


@contextmanager
def opened(path: Path, folder: Path) -> Iterator[HttpSearcher]:
    one = arms.load(str(path), folder)
    index = folder / "index"
    index.mkdir()
    one.build(DOCUMENTS, index)
    with one.open(index) as searcher:
        assert isinstance(searcher, HttpSearcher)
        yield searcher


def seen(path: Path, folder: Path, text: str = "red cone", k: int = 3) -> TimedOutcome:
    with opened(path, folder) as searcher:
        return observe(searcher, Query("q", text), k, int(60e9))


def failed(timed_outcome: TimedOutcome) -> str:
    assert timed_outcome.row.status is Status.FAILED
    assert timed_outcome.row.hits == ()
    return timed_outcome.row.error


def test_the_servers_order_ids_and_scores_are_read(arm: Write, served: Served, index: Path) -> None:
    timed_outcome = seen(arm(), index)
    assert [hit.doc_id for hit in timed_outcome.row.hits] == ["d0", "d1", "d2"]
    assert [hit.score for hit in timed_outcome.row.hits] == [1, 1 / 2, 1 / 3]
    assert [hit.raw_score for hit in timed_outcome.row.hits] == [2.0, 1.0, 1.0]
    assert served.sent == [{"text": "red cone", "size": 3}]


def test_without_scores_the_order_counts(arm: Write, index: Path) -> None:
    timed_outcome = seen(arm(score=None), index)
    assert [hit.raw_score for hit in timed_outcome.row.hits] == [1, 1 / 2, 1 / 3]


def test_an_empty_list_is_an_answer(arm: Write, index: Path) -> None:
    assert seen(arm(), index, "yellow").row == Row(
        "q", Status.ANSWERED, (), seen_fingerprint(index)
    )


def seen_fingerprint(folder: Path) -> str:
    return contract.read(folder / "index").fingerprint


@pytest.mark.parametrize("text", ['"}, "size": 1e9, "x": "', "\\", "\n\0", "${k}", "é😀", "\ud800"])
def test_no_text_leaves_its_place(arm: Write, served: Served, index: Path, text: str) -> None:
    seen(arm(), index, text)
    whole = text.replace("\ud800", "\ufffd")
    assert served.sent == [{"text": whole, "size": 3}]


def test_a_query_string_is_percent_encoded(arm: Write, served: Served, index: Path) -> None:
    path = arm(method='"GET"', body=None, query='{ text = "${text}", size = "${k}", on = true }')
    seen(path, index, "a&size=9 b#c")
    assert served.sent == [{"text": "a&size=9 b#c", "size": "3", "on": "true"}]


def test_params_have_places_and_go_with_their_list_item(
    arm: Write, served: Served, index: Path
) -> None:
    sent = """'{"text": "${text}", "size": "${k}", "filter": [{"year": "${params.year}"}, 1]}'"""
    with opened(arm(body=sent), index) as searcher:
        searcher.search_with("red", 2, {"year": 2024})
        searcher.search_with("red", 2, {"year": None})
        with pytest.raises(Exception, match=r"no place \$\{params.month\}. Add it"):
            searcher.search_with("red", 2, {"month": 1})
    assert [one["filter"] for one in served.sent] == [[{"year": 2024}, 1], [1]]


def _drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda answer: [hit.pop(key) for hit in answer["hits"]]


def _set(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda answer: [hit.update({key: value}) for hit in answer["hits"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answer: answer.pop("hits"), "hits: nothing matches 'hits' in the answer"),
        (lambda answer: answer.update(hits={"id": 1}), "is an object with id, not a list"),
        (_drop("id"), "hit 1 has no id: nothing matches 'id' in an object with score"),
        (_set("id", None), "hit 1 has no id"),
        (_set("id", 1.5), "the id 1.5 is neither a text nor a whole number"),
        (_set("id", "e7"), "hit 1: 'e7' is the id of no document of the data set. Correct id"),
        (_drop("score"), "hit 1 has no score: nothing matches 'score'"),
        (_set("score", "2.0"), "the score '2.0' is not a number. Write to_number"),
        (_set("score", float("nan")), "the answer is not JSON (NaN is not JSON"),
        (_set("score", float("inf")), "the answer is not JSON (Infinity is not JSON"),
        (lambda answer: answer.update(total="5"), "total: 'total' is '5', not a number of hits"),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_fit_is_a_failed_query(
    arm: Write, served: Served, index: Path, change: Callable[..., object], message: str
) -> None:
    served.change = change
    assert message in failed(seen(arm(), index))


def test_more_hits_than_requested_fail(arm: Write, served: Served, index: Path) -> None:
    served.change = lambda answer: answer.update(hits=[{"id": f"d{n}", "score": 1} for n in (0, 1)])
    assert "2 hits were shown, 1 were requested" in failed(seen(arm(), index, k=1))


def test_of_more_hits_than_requested_an_arm_reads_none(
    arm: Write, served: Served, index: Path
) -> None:
    """300,000 of them took half a minute before the query failed."""
    served.change = lambda answer: answer.update(hits=[{}, {}])
    assert failed(seen(arm(), index, k=1)) == "Malformed: 2 hits were shown, 1 were requested"


def test_a_hit_that_comes_twice_counts_once(arm: Write, served: Served, index: Path) -> None:
    """The run takes it out and counts it; ``harness arm check`` names it."""
    served.change = lambda answer: answer.update(hits=[answer["hits"][0]] * 2)
    run = Run.of("mine", [seen(arm(), index).row])
    assert (run.ranking("q"), run.duplicates.tolist()) == (("d0",), [1])


def test_a_partial_answer_is_a_failed_query(arm: Write, served: Served, index: Path) -> None:
    served.change = lambda answer: answer.update(timed_out=True)
    assert "a partial answer" in failed(seen(arm(incomplete='"timed_out"'), index))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(401, '{"why": "bad token"}'), "refuses the credentials: check headers"),
        (status(404, "no such index"), ": no such index. No such path or index: check url"),
        (status(301, location="http://elsewhere"), "redirects to http://elsewhere. Write that"),
        (status(400, "parse error"), ": parse error. The server does not take the request"),
        (status(429), "(attempts: 3)"),
        (status(429, Retry_After="Mon, 01 Jan 99999999999 00:00:00 GMT"), "(attempts: 3)"),
        (status(429, Retry_After="30"), "the next is due in 30 s, beyond timeout_s = 5"),
        (status(500, "oops"), "HTTP 500 from http://127.0.0.1"),
        (status(503), "See the server's log (attempts: 3)"),
        (half, "the connection ended before the answer did"),
        (body(b'{"hits": ['), "the answer is not JSON"),
        (body(b"\xff"), "the answer is not JSON"),
        (body(b"[" * 5000), "the answer is not JSON"),
        (status(200, Content_Encoding="gzip," * 5000), "the answer is packed 5,001 times over"),
    ],
)  # fmt: skip
def test_a_fault_is_a_failed_query_and_never_no_hits(
    arm: Write, served: Served, index: Path, fault: Callable[..., None], message: str
) -> None:
    served.faults, served.forever = [fault], True
    assert message in failed(seen(arm(), index))


@pytest.mark.parametrize("fault", [slow(1.0), drip(0.1, 20)], ids=["slow", "drip"])
def test_the_time_limit_is_of_the_whole_answer(
    arm: Write, served: Served, index: Path, fault: Callable[..., None]
) -> None:
    served.faults = [fault]
    assert "TimeoutError" in failed(seen(arm(timeout_s="0.5"), index))


@pytest.mark.parametrize("code", [429, 502, 503, 504])
def test_a_query_that_is_tried_again_counts_its_attempts(
    arm: Write, served: Served, index: Path, code: int
) -> None:
    """Their time is in the latency: the wait that the server asks for is a part of it."""
    served.faults = [status(code, Retry_After="0"), status(code)]
    timed_outcome = seen(arm(), index)
    assert (timed_outcome.row.status, timed_outcome.retries) == (Status.ANSWERED, 2)
    assert timed_outcome.elapsed_ns >= int(0.2e9)
    assert len(served.sent) == 3


def test_a_server_that_sheds_all_load_gives_one_failure_a_query(
    arm: Write, served: Served, index: Path
) -> None:
    served.faults, served.forever = [status(429, Retry_After="0")], True
    with opened(arm(retries="1"), index) as searcher:
        found = [observe(searcher, Query(f"q{n}", "red"), 3, int(60e9)) for n in range(4)]
    assert [one.row.status for one in found] == [Status.FAILED] * 4
    assert len(served.sent) == 8


def test_a_rate_is_kept_over_all_queries(
    arm: Write, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("engines.stacks.http.connection.sleep", waits.append)
    with opened(arm(rate_per_s="0.5"), index) as searcher:
        found = [observe(searcher, Query(f"q{n}", "red"), 1, int(60e9)) for n in range(4)]
    assert [one.row.status for one in found] == [Status.ANSWERED] * 3 + [Status.FAILED]
    assert "no turn within the time limit at rate_per_s = 0.5" in found[-1].row.error
    assert max(waits) > 1.5


def test_an_index_that_moves_makes_the_arm_invalid(arm: Write, served: Served, index: Path) -> None:
    served.after = 1
    with pytest.raises(InvalidArm, match=r"the index moved .* generation 1, .* generation 2"):
        seen(arm(), index)


def test_an_index_that_moves_and_moves_back_is_seen_between(
    arm: Write, served: Served, index: Path
) -> None:
    def back_and_forth(path: Path) -> None:
        with opened(path, index) as searcher:
            served.generation = 2
            asked = served.probed
            while served.probed < asked + 3:
                answer = searcher.search("red", 3)
            assert answer.served_by != searcher.manifest.fingerprint
            assert "the index moved" in answer.note
            served.generation = 1

    with pytest.raises(InvalidArm, match="the index moved"):
        back_and_forth(arm(probe_every_s="0.01"))


def test_an_answer_of_another_generation_says_so_itself(
    arm: Write, served: Served, index: Path
) -> None:
    with opened(arm(generation='"generation"'), index) as searcher:
        own = searcher.manifest.fingerprint
        assert searcher.search("red", 3).served_by == own
        served.generation = 2
        assert searcher.search("red", 3).served_by != own
        served.generation = 1
        assert searcher.search("red", 3) == Answer(searcher.search("red", 3).hits, own)


def test_another_index_than_was_built_is_refused(arm: Write, served: Served, index: Path) -> None:
    one = arms.load(str(arm()), index)
    one.build(DOCUMENTS, index)
    served.generation = 2
    with pytest.raises(IndexNotReady, match="generation 2"), one.open(index):
        pass


def test_other_documents_are_refused_unless_they_are_meant(arm: Write, index: Path) -> None:
    with pytest.raises(IndexNotReady, match="serves 5 documents, the data set has 4"):
        arms.load(str(arm()), index).build(DOCUMENTS[1:], index)
    kept = arms.load(str(arm(unknown_ids='"keep"')), index)
    kept.build(DOCUMENTS[1:], index)
    with kept.open(index) as searcher:
        assert searcher.search("red cone", 1).hits[0].doc_id == "d0"


def test_a_server_that_ends_meanwhile_leaves_no_run(index: Path) -> None:
    def ending(path: Path) -> None:
        with ExitStack() as until_closed:
            until_gone = ExitStack()
            other = until_gone.enter_context(serving())
            path.write_text(other.toml(retries="0"), encoding="utf-8")
            searcher = until_closed.enter_context(opened(path, index))
            searcher.search("red", 1)
            until_gone.close()

    with pytest.raises(InvalidArm, match="the probe does not say who answers"):
        ending(index / "mine.toml")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"probe_url": '"http://127.0.0.1:9/about"', "retries": "0"}, "cannot connect .*Start it"),
        ({"probe_url": '"{base}/nowhere"'}, "HTTP 404 .*check url"),
        ({"probe_generation": '"uuid"'}, "nothing matches generation = 'uuid' of the probe"),
        ({"probe_documents": '"generation.x"'}, "nothing matches documents"),
        ({"probe_documents": "'`[1]`'"}, "not a count"),
        ({"ca_file": '"nowhere.pem"'}, "ca_file nowhere.pem: cannot be read"),
    ],
)
def test_nobody_who_says_who_answers_is_no_arm(
    arm: Write, served: Served, index: Path, changed: dict[str, str], message: str
) -> None:
    given = {key: line.replace("{base}", served.base) for key, line in changed.items()}
    with pytest.raises(IndexNotReady, match=message):
        arms.load(str(arm(**given)), index).build(DOCUMENTS, index)


def test_the_engine_of_the_file_is_of_this_stack(arm: Write, tmp_path: Path) -> None:
    assert isinstance(arms.load(str(arm()), tmp_path).engine, HttpEngine)
