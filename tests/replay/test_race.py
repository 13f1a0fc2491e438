"""Arms against the clock, what a race draws, and what the machine did beside."""

import gc
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.engine import Answer, Searcher
from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from harness.core.records import Document, Query
from harness.replay import machine, race
from harness.replay.drive import observe
from tests.make.arms import Table, queries, raising

EIGHT = queries(8)
TEXTS = race.RaceTexts(tuple(EIGHT[6:]), tuple(EIGHT[:6]), tuple(EIGHT[:3]), unseen=())
MINUTE_NS = 60_000_000_000
NAMES = ("candidate", "control", "third")
Field = dict[str, Table]


def shown(arm: Table) -> dict[str, race.Expected]:
    return {q.query_id: race.shown(observe(arm, q, 5, MINUTE_NS).row, 5) for q in EIGHT}


def raced(arms: Mapping[str, Searcher], process: int = 0) -> race.Lap:
    known = {name: shown(Table(name)) for name in arms}
    return race.race(
        arms, known, TEXTS, k=5, seed=7, process=process, time_limit_s=60.0,
        advance=lambda _: None,
    )  # fmt: skip


@pytest.fixture
def diary() -> list[tuple[str, str, int]]:
    return []


@pytest.fixture
def field(diary: list[tuple[str, str, int]]) -> Field:
    """Make three arms that write into one diary."""
    return {name: Table(name, diary=diary) for name in NAMES}


def test_every_text_is_timed_once_and_some_again_and_none_of_the_warm_up(field: Field) -> None:
    lap = raced(field)
    seen = Counter((call.arm, call.query_id, call.repetition) for call in lap.calls)
    assert set(seen.values()) == {1}
    assert set(seen) == {
        (name, query.query_id, repetition)
        for name in NAMES
        for repetition, asked in enumerate((TEXTS.timed, TEXTS.repeated))
        for query in asked
    }
    assert all(call.elapsed_ns > 0 for call in lap.calls)
    assert len(lap.reference_ns) == 6
    assert min(lap.reference_ns) > 0
    assert lap.strays == dict.fromkeys(NAMES, ())


def test_each_arm_is_first_with_each_text_in_one_process_of_three(field: Field) -> None:
    places = Counter(
        (call.arm, call.query_id, call.turn)
        for process in range(3)
        for call in raced(field, process=process).calls
        if not call.repetition
    )
    assert len(places) == 3 * 6 * 3
    assert set(places.values()) == {1}


class Counted:
    """A meter whose counters move by hand: each reading is one later."""

    counts = race.RUN_QUEUE

    def __init__(self) -> None:
        self.readings = 0

    def read(self) -> race.ProcessCounters:
        self.readings += 1
        return race.ProcessCounters({}, self.readings, 0)

    def taken(
        self, before: race.ProcessCounters, after: race.ProcessCounters, elapsed_ns: int
    ) -> tuple[int, int, int]:
        return before.cpu_ns, after.cpu_ns, elapsed_ns

    def close(self) -> None:
        self.readings = -1


def test_what_the_system_took_is_read_around_each_answer_and_off_its_clock(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Counted()
    monkeypatch.setattr(race, "Meter", lambda: meter)
    lap = raced(field)
    warm = 2 * 2 * 3
    assert [call.taken for call in lap.calls] == [
        (warm + 2 * at + 1, warm + 2 * at + 2, call.elapsed_ns) for at, call in enumerate(lap.calls)
    ]
    assert lap.counts == race.RUN_QUEUE
    assert meter.readings == -1


class Others(Counted):
    """A meter of other threads that work for 7 ns after each answer of one arm."""

    def __init__(self, diary: list[tuple[str, str, int]]) -> None:
        super().__init__()
        self.diary, self.others_ns = diary, 0

    def read(self) -> race.ProcessCounters:
        own = super().read()
        if own.cpu_ns % 2 and self.diary and self.diary[-1][0] == "candidate":
            self.others_ns += 7
        return own._replace(others_ns=self.others_ns)


def test_work_of_other_threads_after_an_answer_is_counted_by_arm(
    field: Field, diary: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "Meter", lambda: Others(diary))
    lap = raced(field)
    answers = sum(call.arm == "candidate" for call in lap.calls)
    assert answers
    assert lap.beside_ns == dict.fromkeys(NAMES, 0) | {"candidate": 7 * answers}


def test_an_answer_that_is_not_that_of_the_run_is_a_stray(field: Field) -> None:
    table = field["candidate"]
    table.answers = {
        "question 01": lambda: table.shows("another"),
        "question 02": raising(ValueError()),
        "question 03": table.shows,
        "question 04": lambda: Answer(table.shows("about question 04").hits, "somebody else"),
        "question 07": lambda: table.shows("in the warm-up"),
    }
    strays = raced(field).strays
    assert strays["candidate"] == ("q01", "q02", "q03", "q04", "q07")
    assert strays["control"] == strays["third"] == ()


@pytest.fixture(params=[True, False])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    was_on = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_on else gc.disable)()


def test_no_garbage_is_collected_in_anybodys_time(
    field: Field,
    collecting: bool,  # noqa: FBT001
) -> None:
    seen: set[bool] = set()

    def answer() -> Answer:
        seen.add(gc.isenabled())
        return field["control"].shows("about question 00")

    field["control"].answers = {"question 00": answer}
    raced(field)
    assert seen == {False}
    assert gc.isenabled() is collecting


def drawn(count: int, **changed: int) -> race.RaceTexts:
    usual = {"timed": 20, "warm": 5, "repeated": 4, "seed": 3}
    return race.draw(queries(count), {}, **usual | changed)


def test_there_are_enough() -> None:
    texts = drawn(40)
    assert [*map(len, texts)] == [5, 20, 4, 0]
    assert len(race.varied(texts, queries(40), WORDS, "").unseen) == 20
    assert len(set(texts.warm)) == 5
    assert not set(texts.warm) & set(texts.timed)
    assert texts.repeated == texts.timed[:4]


def test_the_draw_is_seeded_whatever_the_order_of_the_set() -> None:
    usual = {"timed": 20, "warm": 5, "repeated": 4}
    assert drawn(40) == race.draw(queries(40)[::-1], {}, **usual, seed=3)
    assert drawn(40) != drawn(40, seed=4)


@pytest.mark.parametrize("count", [2, 5, 12, 24])
def test_of_a_small_set_a_fifth_at_most_warms_up_again_and_again(count: int) -> None:
    texts = drawn(count)
    held_back = min(5, max(1, count // 5))
    assert len(texts.warm) == 5
    assert len(set(texts.warm)) == held_back
    assert len(texts.timed) == min(20, count - held_back)
    assert not set(texts.warm) & set(texts.timed)


def test_a_text_in_other_case_or_space_is_the_same_text() -> None:
    """Else a memo would have seen it in the warm-up."""
    twice = [*queries(12), *(Query(f"z{q.query_id}", f" {q.text.upper()}  ") for q in queries(12))]
    texts = race.draw(twice, {}, timed=12, warm=12, repeated=1, seed=3)
    assert len(texts.timed) == 10
    assert not {q.query_id[-2:] for q in texts.warm} & {q.query_id[-2:] for q in texts.timed}
    asked = [Query(f"q{at}", "same", params={"level": at}) for at in range(10)]
    assert len(race.draw(asked, {}, timed=5, warm=5, repeated=1, seed=3).timed) == 5


def test_of_a_cluster_one_text_is_drawn_and_each_may_be_it() -> None:
    asked = queries(40)
    together = {query.query_id: str(at // 4) for at, query in enumerate(asked[:32])}
    chosen = set()
    for seed in range(8):
        texts = race.draw(asked, together, timed=14, warm=2, repeated=1, seed=seed)
        seen = {*texts.timed, *texts.warm}
        assert len(seen) == 16, "eight clusters, and eight queries that stand alone"
        named = [together[query.query_id] for query in seen if query.query_id in together]
        assert sorted(named) == sorted(set(named))
        chosen |= seen
    assert len(chosen) > 24


CORPUS = [
    Document(f"d{at}", f"one rare{at}", f"two three, six alone four five seven{at % 4}")
    for at in range(40)
]
WORDS = race.Words(CORPUS, len(CORPUS))
ASKED = [
    Query("a", "one two"), Query("b", "Two one"), Query("c", "three four five"),
    Query("d", "alone"), Query("e", "six  rare7", params={"from": "Ada"}), Query("f", "x x"),
    Query("g", "from:rare3 seven1"), Query("h", "qwertz"),
]  # fmt: skip


def bag(query: Query) -> set[str]:
    return set(query.text.casefold().split())


def test_every_text_has_variants_of_words_that_are_as_frequent() -> None:
    drawn_texts = race.draw(ASKED, {}, timed=7, warm=1, repeated=7, seed=1)
    timed = {query.query_id: query for query in drawn_texts.timed}
    for order in range(20):
        texts = race.varied(drawn_texts, ASKED, WORDS, str(order))
        assert [query.query_id for query in texts.unseen] == [
            query.query_id for query in texts.timed
        ]
        for variant in texts.unseen:
            of = timed[variant.query_id]
            assert variant.params == of.params
            assert bag(variant) not in [bag(query) for query in ASKED]
            assert len(variant.text.split()) >= len(of.text.split())
            if of.query_id in "abcd":
                assert bag(variant) <= {"one", "two", "three", "six", "alone", "four", "five"}
                assert not bag(variant) & bag(of)
            if of.query_id == "e":
                assert re.fullmatch(r"\w+  rare\d+", variant.text)
            if of.query_id == "g":
                assert re.fullmatch(r"from:rare\d+ seven\d", variant.text)
            if of.query_id == "h":
                assert sorted(variant.text) == sorted("qwertz")


def test_each_order_has_variants_of_its_own_and_of_the_same_texts() -> None:
    """Else the next process, and the next race, ask what an engine has kept by now."""
    asked = [Query(f"q{at}", f"rare{at} seven1") for at in range(8)]
    texts = race.draw(asked, {}, timed=7, warm=1, repeated=3, seed=1)
    ways = [race.varied(texts, asked, WORDS, str(at)).unseen for at in range(20)]
    assert ways[0] == race.varied(texts, asked, WORDS, "0").unseen
    orders = [{query.text for query in same} for same in zip(*ways, strict=True)]
    assert min(map(len, orders)) > 10


def say(tasks: Path, **waits_ns: int) -> None:
    """Write what Linux says of each thread: ran, waited, how often."""
    for thread, waited_ns in waits_ns.items():
        (tasks / thread).mkdir(exist_ok=True)
        (tasks / thread / "schedstat").write_text(f"999 {waited_ns} 7\n")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    say(tmp_path, t1=1_000, t2=50_000)
    return tmp_path


def test_the_waits_of_all_threads_are_summed(tasks: Path) -> None:
    meter = race.Meter(tasks)
    before = meter.read()
    say(tasks, t1=4_000, t2=50_500)
    assert meter.counts == race.RUN_QUEUE
    assert meter.taken(before, meter.read(), 10_000).waited_ns == 3_500
    meter.close()


@pytest.mark.parametrize("damage", ["", "one\n", "1 x 3\n"])
def test_where_nothing_counts_waits_all_idle_time_stands_for_them(
    tmp_path: Path, damage: str
) -> None:
    (tmp_path / "t1").mkdir()
    (tmp_path / "t1" / "schedstat").write_text(damage)
    meter = race.Meter(tmp_path)
    assert meter.counts == race.IDLE
    assert race.Meter(tmp_path / "absent").counts == race.IDLE
    begun, ended = race.ProcessCounters({}, 100, 1), race.ProcessCounters({}, 400, 3)
    assert meter.taken(begun, ended, 1_000) == (700, 300, 2)
    assert meter.taken(begun, ended._replace(cpu_ns=2_100), 1_000).waited_ns == 0
    meter.close()


BEFORE = machine.MachineCounters(wall=10, own=1, busy=100, total=200, steal=5, throttled=2)


def after(**moved: float) -> machine.MachineCounters:
    """Two processors, ten seconds later; this process worked for all of them."""
    usual = {"wall": 10, "own": 10, "busy": 10, "total": 20, "steal": 0, "throttled": 0}
    change = (usual | moved).items()
    return BEFORE._replace(**{name: getattr(BEFORE, name) + by for name, by in change})


def test_what_others_took_are_shares() -> None:
    assert machine.between(BEFORE, after()) == (0, 0, 0)
    assert machine.between(BEFORE, after(busy=15)).others == 5 / 20
    assert machine.between(BEFORE, after(busy=9.9)).others == 0
    assert machine.between(BEFORE, after(steal=10)).steal == 10 / 20
    assert machine.between(BEFORE, after(throttled=1)).throttled == 0.1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("nr_throttled 3\nthrottled_usec 2500000\n", 2.5),
        ("nr_periods 9\nthrottled_time 2500000000\n", 2.5),
        ("usage_usec 17\n", 0.0),
    ],
)
def test_a_quota_is_told_in_both_versions(tmp_path: Path, text: str, seconds: float) -> None:
    (tmp_path / "cpu.stat").write_text(text)
    assert machine.throttled_s((tmp_path / "absent", tmp_path / "cpu.stat")) == seconds


@dataclass(frozen=True)
class Noting:
    """Leaves the number of its process, and does what it is told to."""

    to: Path
    ends: str = "well"

    def __call__(self, advance: machine.Advance) -> None:
        advance(2)
        self.to.write_text(f"{os.getpid()} {os.getppid()}")
        advance(3)
        if self.ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.ends == "ours":
            raise EvidenceError("nothing was measured; measure it")
        if self.ends == "theirs":
            raise ZeroDivisionError("of an engine")


@pytest.mark.usefixtures("anew")
def test_it_is_another_process_and_tells_how_far_it_is(tmp_path: Path) -> None:
    done: list[int] = []
    machine.in_fresh_process(Noting(tmp_path / "note"), done.append)
    own, parent = map(int, (tmp_path / "note").read_text().split())
    assert own != os.getpid() == parent
    assert done == [2, 3]


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize(
    ("ends", "error", "said"),
    [
        ("killed", InvalidArm, "its process died with exit code -9 before it was done"),
        ("ours", HarnessError, "nothing was measured; measure it"),
        ("theirs", InvalidArm, "ZeroDivisionError: of an engine"),
    ],
)
def test_what_goes_wrong_there_is_told_here(
    tmp_path: Path, ends: str, error: type[HarnessError], said: str
) -> None:
    with pytest.raises(error, match=said):
        machine.in_fresh_process(Noting(tmp_path / "note", ends), lambda _: None)
