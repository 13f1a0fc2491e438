"""Two services and a log: shapes are learned, and failures are counted and never compared."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness.cli import main
from harness.corpus import beir
from harness.services.asking import AnswerShape, document_of, hits_of, learn, settings_of
from tests.cli.conftest import Said
from tests.services.made import SHAPES, Service, ranked, send, serving, write_log

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("none_drawn")]


Command = Callable[..., Said]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def sound(service: Service) -> None:
    """Take the fault of the test before away."""
    service.fault = lambda *_: False


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.csv", 400)


@pytest.fixture
def harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Call ``harness`` in a folder of the test; no attempt waits for the one before."""
    monkeypatch.setattr("harness_engines.stacks.http.connection.sleep", lambda _: None)

    def call(*words: str | Path) -> Said:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return call


def compared(harness: Command, log: Path, *words: str | Path) -> Said:
    return harness("compare", *words, "--log", log, "--size", "30", "--out", "cmp")


WANTED = {
    "plain": AnswerShape("@", "id"),
    "elastic": AnswerShape("hits.hits", "_id", "_score"),
    "solr": AnswerShape("response.docs", "id", "score"),
    "typesense": AnswerShape("hits", "document.id", "text_match"),
}
EMPTY = AnswerShape()


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_learned_by_looking(name: str) -> None:
    answers = [SHAPES[name](ranked(text, 10)) for text in ("nothing", "red lamp", "oak")]
    found = learn([answers, answers], [EMPTY, EMPTY])
    assert found == (WANTED[name], WANTED[name])
    (hit,) = hits_of(WANTED[name].list, SHAPES[name](ranked("red oak lamp", 1)))
    read = document_of(hit, "p000", WANTED[name])
    assert (read.title, "p000" in read.text) == ("red oak lamp", name in {"elastic", "typesense"})


def test_ids_are_those_that_both_services_show() -> None:
    old = [{"items": [{"id": 10 + at, "sku": f"s{at}"} for at in range(5)]}]
    new = [[{"id": f"x{at}", "sku": f"s{at}"} for at in range(5)]]
    wanted = AnswerShape("items", "sku"), AnswerShape("@", "sku")
    assert learn([old, new], [EMPTY, EMPTY]) == wanted


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://h/search", r"no parameter is \{query\}"),
        ("http://h/?q=title:{query}", r"q holds more than \{query\}"),
        ("ftp://h/?q={query}", "is not an address"),
        ("http://h/?q={query}&api_key=1", "api_key looks like a secret"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        settings_of(address)


def test_two_services_are_compared_and_a_verdict_follows(
    harness: Command, service: Service, log: Path, tmp_path: Path
) -> None:
    said = compared(harness, log, service.at("elastic"), service.at("typesense", "v2", ""))
    assert said.code == 0, said.err
    assert "148 because a robot sent it" in said.out
    assert "9 because the server reported an error" in said.out
    assert "identity self-reported" in said.out
    assert re.search(r"the control repeated its own list for (\d+) of \1 queries", said.out)
    assert "different queries; take a longer one." in said.out
    assert "again with --size" not in said.out
    page = (tmp_path / "cmp" / "index.html").read_text("utf-8")
    first = page[: page.index("Without a judgement")]
    assert "NO VERDICT YET" in first
    assert "p50 " in first
    assert "takes about" in first
    assert "explore.html#d=traffic&amp;a=control&amp;b=candidate&amp;q=log-" in page
    assert (tmp_path / "cmp" / "explore.html").is_file()
    pool = tmp_path / "cmp" / "traffic" / "qrels" / "test.qrels"
    pairs = pool.read_text("utf-8").splitlines()
    assert f"{len(pairs):,} pairs" in said.out
    arms = "cmp/control.toml,cmp/candidate.toml"
    words = ("run", "--dataset", "cmp/traffic", "--arms", arms, "--control", "control")
    assert harness("arm", "check", "cmp/control.toml", "--dataset", "cmp/traffic").code == 0
    unjudged = harness(*words, "--out", "unjudged")
    assert (unjudged.code, "Nothing is judged" in unjudged.err) == (0, True), unjudged.err
    pool.write_text("".join(f"{line[:-1]}{at % 2}\n" for at, line in enumerate(pairs)), "utf-8")
    assert f"{len(pairs)} of {len(pairs)} pairs are judged" in harness("judge", pool).out
    verdict = harness(*words, "--out", "verdict")
    assert verdict.code == 0, verdict.err
    assert "HOLD" in verdict.out
    again = compared(harness, log, "cmp/control.toml", service.at("solr", "v2"))
    assert f"{len(pairs):,} are judged" in again.out, again.out + again.err


def test_the_same_answers_are_a_pass_without_a_judgement(
    harness: Command, service: Service, tmp_path: Path
) -> None:
    texts = [
        f"{a} {b} {n}" for a in ("red", "oak", "lamp") for b in ("rug", "desk") for n in range(35)
    ]
    log = tmp_path / "log.csv"
    log.write_text("query\n" + "\n".join(texts) + "\n", "utf-8")
    with serving() as other:
        words = ("compare", service.at("plain"), other.at("solr"), "--log", log, "--out", "cmp")
        few, many = harness(*words, "--size", "40"), harness(*words, "--size", "190")
    assert few.out.splitlines()[1].startswith("INCONCLUSIVE: the same answers, hit for hit, to 40")
    assert "takes 188 of them" in few.out, few.out[:400]
    assert many.out.splitlines()[1].startswith("PASS: the same answers, hit for hit, to 190")
    assert "Nothing is left to be judged" in many.out
    pool = tmp_path / "cmp" / "traffic" / "qrels" / "test.qrels"
    assert len(pool.read_text("utf-8").splitlines()) == 190, "the first hit of lists that agree"


def failing(share: int, code: int = 500, body: bytes = b"{") -> Callable[..., bool]:
    """Spoil the answers of one version to one of ``share`` texts; all of them take longer."""

    def fault(text: str, handler: BaseHTTPRequestHandler) -> bool:
        slow = "/v2" in handler.path
        time.sleep(0.02 * slow)
        spoilt = slow and len(text) % share == 0
        return spoilt and send(handler, code, body)

    return fault


@pytest.mark.parametrize("answer", [(400, b"no"), (200, b"{"), (200, b'{"error": "x"}')])
def test_a_failed_query_is_counted_and_never_compared(
    harness: Command, service: Service, log: Path, tmp_path: Path, answer: tuple[int, bytes]
) -> None:
    service.fault = failing(5, *answer)
    said = compared(harness, log, service.at("solr"), service.at("solr", "v2"), "--json")
    assert said.code == 0, said.err
    queries = tuple(beir.queries(tmp_path / "cmp" / "traffic" / "queries.jsonl"))
    lost = sum(len(query.text) % 5 == 0 for query in queries)
    blocks = json.loads(said.out)["blocks"]
    assert f"{lost} queries failed and are not compared" in blocks[0]["text"]
    rows = {row[0]: row[2] for row in blocks[3]["rows"]}
    (p50,) = (row for row in blocks[4]["rows"] if row[0] == "p50")
    assert p50[1]["value"] < p50[2]["value"] > 20e6
    assert p50[3]["value"] == pytest.approx(p50[2]["value"] / p50[1]["value"], rel=0.01), p50
    assert rows["candidate: failed"]["value"] == pytest.approx(lost / len(queries))
    assert rows["control: failed"]["value"] == 0
    assert rows["same list"]["n"] == len(queries) - lost


def test_a_service_that_fails_always_is_no_result(
    harness: Command, service: Service, log: Path, tmp_path: Path
) -> None:
    nowhere = "http://127.0.0.1:9/?q={query}"
    said = compared(harness, log, service.at("solr"), nowhere)
    assert (said.code, "candidate: no answer" in said.err) == (2, True)
    assert "cannot connect" in said.err
    service.fault = failing(1, 200, b"<html>")
    said = compared(harness, log, service.at("solr"), service.at("solr", "v2"))
    assert (said.code, "not JSON" in said.err) == (2, True)
    service.fault = lambda _, handler: service.asked > began + 30 and send(handler, 400, b"gone")
    began = service.asked
    said = compared(harness, log, service.at("solr"), service.at("solr", "v2"))
    assert (said.code, "20 queries in a row failed" in said.err) == (2, True)
    assert not (tmp_path / "cmp" / "index.html").exists()


def test_a_map_corrects_what_was_taken(harness: Command, service: Service, log: Path) -> None:
    words = service.at("elastic"), service.at("typesense")
    said = compared(
        harness, log, *words, "--map", "control.id=_source.sku,candidate.id=document.sku"
    )
    assert "control: hits hits.hits, id _source.sku" in said.out, said.err
    assert "candidate: hits hits, id document.sku" in said.out
    over = compared(harness, log, "cmp/control.toml", words[1], "--map", "control.id=_id")
    assert "control: hits hits.hits, id _id" in over.out, over.err
    for wrong in ("ids=a", "id", "other.id=a", "id=a["):
        assert compared(harness, log, *words, "--map", wrong).code == 2
    spaced = compared(harness, log, *words, "--map", "candidate.id=document.title")
    assert (spaced.code, "holds white space" in spaced.err) == (2, True)
    apart = compared(harness, log, *words, "--map", "candidate.id=join('-', ['x', document.sku])")
    assert "no document is shown by both" in apart.out, apart.err
