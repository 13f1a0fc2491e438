"""Query sets from logs, and the first pool."""

import json
import random
from collections import Counter
from itertools import islice, permutations
from pathlib import Path

import pytest

from harness.core.errors import BadFile, HarnessError
from harness.core.folders import NotOurs
from harness.core.records import Document, Query
from harness.corpus import beir, judgements
from harness.corpus.judgements import Pool
from harness.logs import stage
from harness.logs.querylog import Cleaner, Fields, Left, LogEntry, lines, masked, plain
from harness.pipeline.layout import Layout
from harness.pipeline.params import ReplayParams
from harness.shadow.log import read_logs
from tests.make import shadow_log as live_log
from tests.make.toy import Toy

FORMS = ("{}", "how does {} work here", "{}_x1")


def requests(seed: int = 1, size: int = 2_000) -> list[str]:
    """Draw queries of which few are frequent and many come once."""
    rng = random.Random(seed)
    names = [f"{FORMS[at % 3].format(f'w{chr(97 + at % 26)}{at}z')}" for at in range(500)]
    return [names[min(499, int(rng.paretovariate(0.6)))] for _ in range(size)]


def write(path: Path, queries: list[str]) -> Path:
    rows = [json.dumps({"q": text, "hits": 0 if text.endswith("x1") else 5}) for text in queries]
    path.write_text("\n".join(rows) + "\n")
    return path


def make(log: Path, name: str = "out.jsonl", *, size: int = 80, seed: int = 1) -> stage.LogSample:
    return stage.from_log(log, log.parent / name, kind="", fields=Fields(), size=size, seed=seed)


def left_of(sample: Path, later: Path) -> stage.Drift:
    return stage.drift(sample, later, kind="", fields=Fields())


def test_a_sample_stands_for_the_requests_of_its_log(tmp_path: Path) -> None:
    log = requests()
    made = make(write(tmp_path / "log.jsonl", log))
    queries = [*beir.queries(tmp_path / "out.jsonl")]
    assert (*made.queries,) == (*queries,)
    assert len(queries) == 80
    true, classes = Counter(log), set()
    for query in queries:
        assert query.drawn
        assert query.drawn.requests == true[query.text]
        row = made.strata[query.drawn.stratum]
        assert query.drawn.inclusion == row.sampled / row.queries
        assert ("zero-result" in query.slices) == query.text.endswith("x1")
        classes.add(query.drawn.stratum.split("/")[0])
    assert classes == {"head", "torso", "tail"}
    rows = made.strata.values()
    assert sum(row.requests for row in rows) == made.counts.requests == 2_000
    most = max(row.requests / row.sampled for row in rows if row.sampled < row.queries)
    assert all(row.requests / (row.sampled - 1) >= most for row in rows if row.sampled > 2)


def test_over_many_samples_the_weights_are_unbiased(tmp_path: Path) -> None:
    """Each query is in the sample as often as its inclusion probability says."""
    path = write(tmp_path / "log.jsonl", requests(size=600))
    total, rate, seen = 0.0, dict[str, float](), Counter[str]()
    every = stage.classified(stage.count(path, "", Fields()).queries.values())
    parts = stage.strata(every, 40)
    for seed in range(100):
        for query in stage.drawn(every, parts, seed):
            assert query.drawn
            total += query.drawn.requests / query.drawn.inclusion
            seen[query.text] += 1
            rate[query.text] = query.drawn.inclusion
    assert total / 100 == pytest.approx(600, rel=0.02)
    for text, share in rate.items():
        assert seen[text] / 100 == pytest.approx(share, abs=0.2), text


def test_near_duplicates_are_as_frequent_as_all_of_them_together(tmp_path: Path) -> None:
    words = "install", "wheel", "packages", "offline", "linux"
    alike = [" ".join(words) for words in islice(permutations(words), 40)]
    many = [*alike, *["zebra"] * 12, *["yak"] * 9]
    counts = stage.count(write(tmp_path / "log.jsonl", many * 2), "", Fields())
    every = stage.classified(counts.queries.values())
    places = {one.key: name.split("/")[0] for name, of in every.items() for one in of}
    assert {places[text] for text in alike} == {"head"}
    assert places["yak"] == "tail"


def test_what_was_left_out_and_masked_is_on_the_card_and_secrets_nowhere(tmp_path: Path) -> None:
    queries = [*requests(size=300), "of jane@example.org", "of jane@example.org", "  "]
    path, out = write(tmp_path / "log.jsonl", queries), tmp_path / "out.jsonl"
    path.write_bytes(path.read_bytes() + b'{"q": "na\xefve"}\n{"q": "cut o')
    counts, card = make(path, size=200).counts, stage.beside(out).read_text()
    left = {str(why): number for why, number in counts.left.items()}
    assert left == {"it has no query": 1, "the line is cut off or malformed": 1}
    assert left == json.loads(card)["left_out"]
    assert (counts.masked, counts.foreign, counts.requests) == ({"email": 2}, 1, 303)
    assert "jane" not in out.read_text() + card
    (query,) = [q for q in beir.queries(out) if "<email>" in q.text]
    assert "masked" in query.slices


def test_the_same_log_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", requests())
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make(path, name, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_each_stratum_needs_two_and_a_small_log_is_taken_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", requests())
    with pytest.raises(HarnessError, match=r"strata need \d+ queries at least, 3 were wanted"):
        make(path, size=3)
    made = make(path, size=10_000)
    with pytest.raises(NotOurs, match=r"out\.jsonl: already exists"):
        make(path)
    assert len(made.queries) == len(set(requests()))
    assert all(row.sampled == row.queries for row in made.strata.values())


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("", r"log\.jsonl: none of its 0 lines has a query \(it is empty\)\. .*--text"),
        ('{"a": 1}\n', r"log\.jsonl: none of its 1 line .*1 line: it has no query"),
        ("GET /\nGET /b\n", r"log\.jsonl:1: 2 of 2 lines are not of the format jsonl\. .*--format"),
    ],
)
def test_a_log_without_queries_is_named(tmp_path: Path, raw: str, says: str) -> None:
    (tmp_path / "log.jsonl").write_text(raw)
    with pytest.raises(BadFile, match=says):
        make(tmp_path / "log.jsonl")
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith(".")] == ["log.jsonl"]


def test_a_shadow_log_tells_the_texts_of_divergences(measured: Toy, tmp_path: Path) -> None:
    live_log.write(measured, tmp_path / "log")
    counts = make(tmp_path / "log", size=100).counts
    assert counts.format == "shadow"
    observed = len(read_logs(tmp_path / "log").observations)
    assert counts.requests + counts.untold == observed
    assert counts.untold > 0


WORDS = ("red", "blue", "green")
DOCUMENTS = [Document(f"d{at}", "", f"{WORDS[at % 3]} cone number{at}") for at in range(12)]
QUERIES = [Query("q1", "red cone"), Query("q2", "number5"), Query("q3", "nothing")]


def make_first_pool(tmp_path: Path, depth: int, seed: int = 1) -> tuple[Pool, Pool]:
    """Make the pool; return it, and what is read of it."""
    path = tmp_path / f"{seed}"
    layout = Layout(tmp_path / f"build{seed}" / "sample", tmp_path / "perf", tmp_path / "cache")
    made = stage.first_pool(
        layout, DOCUMENTS, QUERIES, arms=["fts5", "fts5-porter"], cache=tmp_path / "models",
        params=ReplayParams(k=50, time_limit_s=30, seed=seed), depth=depth, largest=2, path=path,
    )  # fmt: skip
    return made, judgements.read_pool(path)


def test_what_each_engine_shows_first_is_to_be_judged(tmp_path: Path) -> None:
    made, found = make_first_pool(tmp_path, 3)
    assert found.pairs == made.pairs
    assert found.grades == (None,) * 4
    wanted = {("q1", "d0"), ("q1", "d3"), ("q1", "d6"), ("q2", "d5")}
    assert {(pair.query_id, pair.doc_id) for pair in found.pairs} == wanted
    assert found.pairs[0].scale == (0, 1, 2)
    assert "red cone" in found.pairs[0].snippet


def test_pairs_of_a_query_stand_in_a_drawn_order(tmp_path: Path) -> None:
    orders = set()
    for seed in range(4):
        pairs = make_first_pool(tmp_path, 4, seed)[1].pairs
        assert [pair.query_id for pair in pairs] == ["q1"] * 4 + ["q2"]
        orders.add(tuple(pair.doc_id for pair in pairs[:4]))
    assert len(orders) > 1


# Personal data are found by their form or check digit; what looks like them is left alone


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("mail of jane.doe+x@mail.example.org please", "mail of <email> please"),
        ("call +49 30 123456-78 now", "call <phone> now"),
        ("call 030 1234567", "call <phone>"),
        ("555-123-4567", "<phone>"),
        ("pay 4111 1111 1111 1111", "pay <card>"),
        ("to DE89 3704 0044 0532 0130 00", "to <account>"),
        ("ping 192.168.0.12", "ping <address>"),
        ("ping 2001:db8:0:0:0:ff00:42:8329", "ping <address>"),
        ("api_key=abc123 in vim", "<secret> in vim"),
        ("password: hunter2", "<secret>"),
        ("Bearer eyJhbGciOi.abc", "<secret>"),
        ("https://me:pw@host/a?access_token=1&b=2", "https://<secret>@host/a?<secret>&b=2"),
        ("AKIAIOSFODNN7EXAMPLE", "<secret>"),
        ("error 9f86d081884c7d659a2feaa0c55ad015", "error <token>"),
    ],
)
def test_it_is_masked_by_kind(text: str, becomes: str) -> None:
    found, kinds = masked(text)
    assert found == becomes
    assert kinds


@pytest.mark.parametrize(
    "text",
    [
        "read_csv memory_map", "python 3.11.4", "1.2.3", "999.1.1.1", "iso 8601 2024-01-31",
        "4111 1111 1111 1112", "GB82 WEST 1234 5698 7654 33", "internationalization_of_numbers",
        "how do i reset my password", "token bucket", "a+b@", "12:30:45", "0000 0000 0000 0000",
        "numpy.linalg.lstsq", "RFC 7231", "std::vector::push_back",
    ],
)  # fmt: skip
def test_what_looks_like_it_is_left_alone(text: str) -> None:
    assert masked(text) == (text, ())


# Each format, whole and damaged: a bad line costs itself alone


AGENT = "Mozilla/5.0 (X11)"
REQUEST = '10.1.1.1 - bob [24/Nov/2026:08:00:00 +0000] "GET {} HTTP/1.1" {} 512'
BROKEN, NONE = Left.BROKEN, Left.NO_QUERY


def read_querylog(path: Path, raw: str, kind: str, **fields: str) -> list[LogEntry | Left]:
    """List the entry of each line, or why it has none."""
    path.write_text(raw)
    return [line.entry for line in lines(path, kind, Fields(**fields))]


def test_rows_that_end_by_a_carriage_return_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"a\.csv:1: .* end lines by LF"):
        read_querylog(tmp_path / "a.csv", "query,session\rboots,s\r", "csv")


def test_csv_by_its_usual_names_or_by_those_given(tmp_path: Path) -> None:
    table = 'when,q,hits,session\n1,"a, b",0,s1\n2,c,7,\n3,"half\n4,x\n5,,1,s\n'
    assert read_querylog(tmp_path / "a.csv", table, "csv") == [
        LogEntry("a, b", 0, "s1"), LogEntry("c", 7), BROKEN, BROKEN, NONE,
    ]  # fmt: skip
    other = "words;found\nalpha beta;3\n"
    fields = {"text": "words", "results": "found"}
    assert read_querylog(tmp_path / "a.log", other, "csv", **fields) == [LogEntry("alpha beta", 3)]
    assert read_querylog(tmp_path / "a.tsv", "q\tx\na,b\t1\n", "csv") == [LogEntry("a,b")]


def test_json_lines_at_any_depth(tmp_path: Path) -> None:
    rows = [
        '{"query": "a", "results": 0, "user": 7}', '{"q": "b", "hits": [1, 2]}', '{"other": 1}',
        '{"query": "cut o', '{"query": 5}', "[1]", '{"request": {"text": "deep"}}',
    ]  # fmt: skip
    raw = "\n".join(rows)
    assert read_querylog(tmp_path / "a.jsonl", raw, "jsonl") == [
        LogEntry("a", 0, "7"), LogEntry("b", 2), NONE, BROKEN, BROKEN, BROKEN, NONE,
    ]  # fmt: skip
    assert read_querylog(tmp_path / "a.jsonl", rows[-1], "jsonl", text="request.text") == [
        LogEntry("deep")
    ]


def test_calls_of_mcp_and_no_other_message(tmp_path: Path) -> None:
    call = {"method": "tools/call", "params": {"name": "search", "arguments": {"query": "a b"}}}
    rows = [{"jsonrpc": "2.0", **call}, {"method": "initialize"}, {"result": {"query": "no"}}]
    raw = "\n".join(map(json.dumps, rows))
    assert read_querylog(tmp_path / "m", raw, "mcp") == [LogEntry("a b"), NONE, NONE]


def test_access_logs_by_the_name_of_their_pattern(tmp_path: Path) -> None:
    found = REQUEST.format("/search?q=caf%C3%A9+au+lait&token=SECRET", 200)
    raw = f'{found}\n{found} "-" "{AGENT}"\n{REQUEST.format("/style.css", 200)}\n{found[:40]}'
    common = [LogEntry("café au lait", None, "10.1.1.1 ")] * 2
    assert read_querylog(tmp_path / "l", raw, "common") == [*common, NONE, BROKEN]
    entry = LogEntry("café au lait", None, f"10.1.1.1 {AGENT}", 200, AGENT)
    assert read_querylog(tmp_path / "l", raw.splitlines()[1], "combined") == [entry]
    assert read_querylog(tmp_path / "l", f"www.a.org {raw.splitlines()[1]}", "vhost") == [entry]


def test_each_rule_of_cleaning_has_its_reason() -> None:
    rules, kept = Cleaner(), LogEntry("two words", session="a")
    for entry, why in (
        (LogEntry(""), Left.NO_QUERY), (LogEntry("x", status=404), Left.ERROR),
        (LogEntry("x", agent="Googlebot/2.1"), Left.ROBOT), (LogEntry("x" * 513), Left.LONG),
        (LogEntry("?!"), Left.WORDLESS), (kept, None), (kept, Left.REPEATED),
        (LogEntry("two words", session="b"), None), (LogEntry("more", session="a"), None),
        (kept, None), (LogEntry("two words"), None), (LogEntry("two words"), None),
    ):  # fmt: skip
        assert rules.left(entry) is why, entry
    assert rules.sessions == 2
    assert plain(" e\u0301a\x1b[31m\t b\n") == "éa [31m b"


def test_drift_is_none_of_the_same_log_and_all_of_another(tmp_path: Path) -> None:
    log, sample = write(tmp_path / "log.jsonl", requests()), tmp_path / "out.jsonl"
    make(log, size=10_000)

    def moved(queries: list[str]) -> tuple[float, float]:
        found = left_of(sample, write(tmp_path / "later.jsonl", queries))
        return found.distance, found.carried

    assert moved(requests()) == pytest.approx((0, 1))
    assert moved(["utterly new words here"] * 50)[1] == 0
    assert moved([text for text in requests() if text.endswith("x1")])[0] > 0.3
    half = ["utterly new words here"] * 1_000 + requests(size=1_000)
    assert moved(half)[1] == pytest.approx(0.5, abs=0.02)
    make(log, "few.jsonl", size=60)
    carried = left_of(tmp_path / "few.jsonl", log).carried
    assert carried == pytest.approx(1, abs=0.1), "each query stands for those not drawn"
