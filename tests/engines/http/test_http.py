"""The stack http: what a file may say, what is sent and read, TLS, and servers of others."""

import json
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from harness.core.engine import Answer
from harness.core.errors import BadPolicy, IndexNotReady, InvalidArm
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import TimedOutcome, observe
from harness_engines import contract
from harness_engines import registry as arms
from harness_engines.stacks.http import settings
from harness_engines.stacks.http.arm import HttpEngine, HttpSearcher
from harness_engines.stacks.http.settings import MalformedAnswer
from tests.docs.pages import ROOT
from tests.engines.http.exchanges import EXCHANGES, RECORDED, TEXT
from tests.make.search_server import DOCUMENTS, Served, body, half, listening, send, serving, status

Write = Callable[..., Path]
PEM = Encoding.PEM


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
    assert (timed_outcome.row.status, timed_outcome.row.hits) == (Status.FAILED, ())
    return timed_outcome.row.error


def test_the_servers_order_ids_and_scores_are_read(
    arm: Write, served: Served, index: Path, tmp_path: Path
) -> None:
    hits = seen(arm(), index).row.hits
    assert [tuple(hit) for hit in hits] == [("d0", 1, 2.0), ("d1", 1 / 2, 1.0), ("d2", 1 / 3, 1.0)]
    assert served.sent == [{"text": "red cone", "size": 3}]
    assert isinstance(arms.load(str(arm()), tmp_path).engine, HttpEngine)


def test_params_go_with_their_list_item(arm: Write, served: Served, index: Path) -> None:
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
        (lambda answer: answer.pop("hits"), "hits: 'hits' of the answer"),
        (_drop("id"), "hit 1: the id is None, by 'id' in an object with score"),
        (_set("id", "e7"), "hit 1: 'e7' is the id of no document of the data set. Correct id"),
        (_set("score", "2.0"), "the score is '2.0', by 'score' in"),
        (_set("score", float("nan")), "the answer is not JSON (NaN is not JSON"),
        (lambda answer: answer.update(hits=[{}] * 4), "4 hits were shown, 3 were requested"),
    ],
)
def test_an_answer_that_does_not_fit_is_a_failed_query(
    arm: Write, served: Served, index: Path, change: Callable[..., object], message: str
) -> None:
    served.change = change
    assert message in failed(seen(arm(), index))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(401, '{"why": "bad token"}'), "refuses the credentials: check headers"),
        (status(404, "no such index"), ": no such index. No such path or index: check url"),
        (status(301, location="http://elsewhere"), "redirects to http://elsewhere. Write that"),
        (status(429, Retry_After="Mon, 01 Jan 99999999999 00:00:00 GMT"), "(attempts: 3)"),
        (status(429, Retry_After="30"), "the next is due in 30 s, beyond timeout_s = 5"),
        (status(503), "See the server's log (attempts: 3)"),
        (half, "the connection ended before the answer did"),
        (body(b'{"hits": ['), "the answer is not JSON"),
    ],
)
def test_a_fault_is_a_failed_query_and_never_no_hits(
    arm: Write, served: Served, index: Path, fault: Callable[..., None], message: str
) -> None:
    served.faults, served.forever = [fault], True
    assert message in failed(seen(arm(), index))


@pytest.mark.parametrize("code", [429, 504])
def test_attempts_are_counted(arm: Write, served: Served, index: Path, code: int) -> None:
    """Their time is in the latency: the wait that the server asks for is a part of it."""
    served.faults = [status(code, Retry_After="0"), half]
    timed_outcome = seen(arm(), index)
    assert (timed_outcome.row.status, timed_outcome.retries) == (Status.ANSWERED, 2)
    assert timed_outcome.elapsed_ns >= int(0.2e9)
    assert len(served.sent) == 3


def test_a_rate_is_kept(arm: Write, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("harness_engines.stacks.http.connection.sleep", waits.append)
    with opened(arm(rate_per_s="0.5"), index) as searcher:
        found = [observe(searcher, Query(f"q{n}", "red"), 1, int(60e9)) for n in range(4)]
    assert [one.row.status for one in found] == [Status.ANSWERED] * 3 + [Status.FAILED]
    assert "no turn within the time limit at rate_per_s = 0.5" in found[-1].row.error
    assert max(waits) > 1.5


def test_an_index_that_moves_makes_the_arm_invalid(arm: Write, served: Served, index: Path) -> None:
    served.after = 1
    with pytest.raises(InvalidArm, match=r"the index moved .* generation 1, .* generation 2"):
        seen(arm(), index)


def test_an_answer_says_another_generation(arm: Write, served: Served, index: Path) -> None:
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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"probe_url": '"http://127.0.0.1:9/about"', "retries": "0"}, "cannot connect .*Start it"),
        ({"probe_url": '"{base}/nowhere"'}, "HTTP 404 .*check url"),
        ({"probe_generation": '"uuid"'}, "nothing matches generation = 'uuid' of the probe"),
        ({"probe_documents": "'`[1]`'"}, "not a count"),
    ],
)
def test_nobody_who_says_who_answers_is_no_arm(
    arm: Write, served: Served, index: Path, changed: dict[str, str], message: str
) -> None:
    given = {key: line.replace("{base}", served.base) for key, line in changed.items()}
    with pytest.raises(IndexNotReady, match=message):
        arms.load(str(arm(**given)), index).build(DOCUMENTS, index)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"url": '"127.0.0.1:9200"'}, "settings.url: .*is not an address. Write http://HOST:PORT"),
        ({"url": '"http://me:pw@host/"'}, "keeps a secret. Use a header"),
        ({"url": '"http://host/?api_key=12"'}, "api_key looks like a secret in an address"),
        ({"headers": '{ Authorization = "Bearer abc" }'}, "Authorization is a secret written"),
        ({"headers": '{ X-Own = "Basic dXNlcg==" }'}, "X-Own is a secret written into the file"),
        ({"body": "'{\"text\": ${text}}'"}, "settings.body: .*not JSON.*Places stand in quotes"),
        ({"body": """'{"q": "${query}", "k": "${k}"}'"""}, "is unknown. Known places"),
        ({"body": """'{"q": "a ${text}", "k": "${k}"}'"""}, "write .*:json.* for a quoted string"),
        ({"body": """'{"k": "${k}"}'"""}, r"has \$\{text\}, so it is never sent"),
        ({"method": '"GET"'}, 'write method = "POST"'),
        ({"id": '""'}, "settings.id"),
        ({"generation": '"x"', "probe_generation": None}, "needs a probe that reads generation"),
        ({"timeout_s": "0.0"}, "settings.timeout_s"),
        ({"probe_version": None, "probe_documents": None, "probe_generation": None}, "Name one"),
    ],
)
def test_a_wrong_file_is_named_with_its_key_and_the_hint(
    arm: Write, tmp_path: Path, changed: dict[str, str | None], message: str
) -> None:
    with pytest.raises(BadPolicy, match=message):
        arms.load(str(arm(**changed)), tmp_path)


def test_a_secret_comes_from_the_environment_and_is_told_to_nobody(
    arm: Write, served: Served, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = arm(headers='{ Authorization = "Bearer ${SEARCH_TOKEN}" }', retries="0")
    engine = arms.load(str(path), index).engine
    monkeypatch.delenv("SEARCH_TOKEN", raising=False)
    with pytest.raises(IndexNotReady, match=r"SEARCH_TOKEN is not set.*Run: export SEARCH_TOKEN"):
        engine.build(DOCUMENTS, index)
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret\n")
    with pytest.raises(IndexNotReady, match="no header can carry") as told:
        engine.build(DOCUMENTS, index)
    assert "s3cret" not in str(told.value)
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret")
    made = engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        searcher.search("red", 1)
        served.faults = [status(401, "bad token s3cret")]
        with pytest.raises(Exception, match=r"bad token \*\*\*"):
            searcher.search("red", 1)
    assert served.headers[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in made.fingerprint + (index / "manifest.json").read_text()


def test_a_variable_is_hidden_whole_and_without_code_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONE", "s3cret")
    monkeypatch.setenv("TWO", "s3cret-and-more")
    filled = settings.filled({"x": "${ONE}", "y": "${TWO}"})
    assert filled.hide("s3cret-and-more s3cret") == "*** ***"
    with contract.forbidden():
        assert settings.filled({"X-Own": "1"}).values == {"X-Own": "1"}
        with pytest.raises(IndexNotReady, match="without --no-code"):
            settings.filled({"Authorization": "${ONE}"})


@given(st.text(), st.text())
def test_a_body_has_one_shape_for_every_text(text: str, year: str) -> None:
    """The tree that is sent differs in the values alone, however hostile they are."""
    tree = {"q": {"all": ["${text}"]}, "k": "${k}", "filter": "year = ${params.y:json}"}
    settings.places(tree)
    found = settings.fill(tree, {"text": text, "k": 3, "params.y": year})
    assert found["q"] == {"all": [text]}
    assert found["k"] == 3
    assert json.loads(found["filter"].removeprefix("year = ")) == year


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Sign a certificate of this machine by itself, valid for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    days = now - timedelta(hours=1), now + timedelta(days=1)
    number = x509.random_serial_number()
    made = (
        x509
        .CertificateBuilder(name, name, key.public_key(), number, *days)
        .add_extension(host, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(PEM)
    )
    path = tmp_path / "server.pem"
    path.write_bytes(key.private_bytes(PEM, PrivateFormat.PKCS8, NoEncryption()) + made)
    (tmp_path / "ca.pem").write_bytes(made)
    return path


def test_a_certificate_is_verified_by_default(certificate: Path, index: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    path = index / "mine.toml"
    with serving(tls) as served:
        path.write_text(served.toml(), encoding="utf-8")
        with pytest.raises(IndexNotReady, match=r"certificate is not trusted.* as ca_file"):
            arms.load(str(path), index).build(DOCUMENTS, index)
        known = f'"{certificate.with_name("ca.pem")}"'
        for changed in ({"ca_file": known}, {"verify": "false"}):
            path.write_text(served.toml(**changed), encoding="utf-8")
            folder = index / "".join(changed)
            folder.mkdir()
            assert seen(path, folder).row.hits[0].doc_id == "d0", changed


SERVERS = ROOT / "examples" / "http_engine" / "servers"
SERVERS_DOCUMENTS = (Document("a", "", "red cone"), Document("b", "", "blue cone"))


@contextmanager
def answering(answers: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve fixed answers by path; give the address, and what searches sent."""
    sent: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked, length = urlsplit(self.path), int(self.headers.get("Content-Length", 0))
            given = {key: values[0] for key, values in parse_qs(asked.query).items()}
            sent.append(json.loads(self.rfile.read(length)) if length else given)
            send(self, 200, json.dumps(answers[asked.path]).encode())

        do_POST = do_GET  # noqa: N815  the name that http.server looks for

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with listening(Handler) as address:
        yield address.removeprefix("http://"), sent


def test_each_file_has_an_exchange_and_says_whether_it_met_a_live_server() -> None:
    files = {path.stem: path.read_text("utf-8") for path in SERVERS.glob("*.toml")}
    assert files.keys() == EXCHANGES.keys()
    for name, text in files.items():
        says = "Tested against a live server" if name in RECORDED else "Not tested against a live"
        assert says in text, name


@pytest.mark.slow
@pytest.mark.parametrize("name", EXCHANGES)
def test_a_ready_file_reads_the_documented_format(
    name: str, tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = EXCHANGES[name]
    for variable in (
        "TYPESENSE_API_KEY",
        "MEILI_API_KEY",
        "ALGOLIA_APPLICATION",
        "ALGOLIA_API_KEY",
    ):
        monkeypatch.setenv(variable, "key")
    answers = dict(found.answers)
    with answering(answers) as (host, sent):
        text = (SERVERS / f"{name}.toml").read_text("utf-8")
        path = tmp_path / f"{name}.toml"
        path.write_text(re.sub(r"127\.0\.0\.1:\d+", host, text), encoding="utf-8")
        one = arms.load(str(path), tmp_path)
        made = one.build(SERVERS_DOCUMENTS, index)
        assert made.version.startswith(found.identity)
        with one.open(index) as searcher:
            sent.clear()
            hits = searcher.search(TEXT, 2).hits
            assert [hit.doc_id for hit in hits] == ["a", "b"]
            assert hits[0].raw_score >= hits[1].raw_score
            assert sent[0].items() >= found.sent.items()
            assert TEXT in json.dumps(sent[0]).replace('\\"', '"')
            if found.partial:
                answers[found.search] = found.answers[found.search] | found.partial
                with pytest.raises(MalformedAnswer, match="a partial answer"):
                    searcher.search(TEXT, 2)
