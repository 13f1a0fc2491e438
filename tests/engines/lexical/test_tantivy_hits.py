"""The order of Tantivy's hits, which must not depend on segments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_engines.lexical import tantivy as lexical_tantivy
from harness_engines.lexical.tantivy import Columns, Keyed, best, first

pytestmark = pytest.mark.slow


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("number", "time"):
        builder.add_integer_field(name, indexed=True, fast=True)
    builder.add_text_field("text", tokenizer_name="raw")
    return builder.build()


SCHEMA = _schema()


def searcher(folder: Path, parts: Sequence[Sequence[tuple[int, int]]]) -> tantivy.Searcher:
    """Index pairs of number and time, each of ``parts`` in a segment of its own."""
    index = tantivy.Index(SCHEMA, path=str(folder))
    for part in parts:
        with index.writer(15_000_000, 1) as writer:
            for number, time in part:
                row = {"number": number, "time": time, "text": "same"}
                writer.add_document(tantivy.Document.from_dict(row, index.schema))
    index.reload()
    return index.searcher()


ALL = tantivy.Query.all_query()
WRITTEN = [[(9, 1), (4, 2), (7, 2)], [(1, 2), (-3, 1), (8, 3)]]


def test_equal_scores_go_by_number_over_all_segments(tmp_path: Path) -> None:
    found = searcher(tmp_path, WRITTEN)
    assert found.num_segments == 2
    for k in range(1, 8):
        assert [hit.document for hit in best(found, ALL, k, schema=SCHEMA, ids="number")] == (
            [-3, 1, 4, 7, 8, 9][:k]
        )


def test_a_field_orders_as_a_score_does(tmp_path: Path) -> None:
    found = searcher(tmp_path, WRITTEN)
    whole = [Keyed(8, 3), Keyed(1, 2), Keyed(4, 2), Keyed(7, 2), Keyed(-3, 1), Keyed(9, 1)]
    for k in range(1, 8):
        assert best(found, ALL, k, schema=SCHEMA, ids="number", by="time") == whole[:k]


def test_a_time_too_long_for_a_float_keeps_its_last_digit(tmp_path: Path) -> None:
    found = searcher(tmp_path, [[(1, 2**62), (2, 2**62 + 1), (3, -(2**63))]])
    hits = best(found, ALL, 3, schema=SCHEMA, ids="number", by="time")
    assert hits == [Keyed(2, 2**62 + 1), Keyed(1, 2**62), Keyed(3, -(2**63))]


@pytest.mark.parametrize("k", [0, -1])
def test_none_are_wanted_and_tantivy_does_not_panic(tmp_path: Path, k: int) -> None:
    assert best(searcher(tmp_path, WRITTEN), ALL, k, schema=SCHEMA, ids="number") == []


def test_an_empty_index_has_none(tmp_path: Path) -> None:
    assert best(searcher(tmp_path, []), ALL, 5, schema=SCHEMA, ids="number") == []


@given(
    times=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    cut=st.integers(0, 40),
    k=st.integers(1, 45),
)
@settings(max_examples=20, deadline=None)
def test_where_segments_end_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], cut: int, k: int
) -> None:
    numbered = list(enumerate(times))[::-1]
    found = searcher(tmp_path_factory.mktemp("cut"), [numbered[:cut], numbered[cut:]])
    by_hand = sorted(enumerate(times), key=lambda pair: (-pair[1], pair[0]))[:k]
    assert best(found, ALL, k, schema=SCHEMA, ids="number", by="time") == [
        Keyed(*pair) for pair in by_hand
    ]


class Counting:
    """Remembers how many hits Tantivy was asked for, time after time."""

    def __init__(self, searcher: tantivy.Searcher) -> None:
        self.searcher, self.limits = searcher, list[int]()
        self.num_docs, self.fast_field_values = searcher.num_docs, searcher.fast_field_values

    def search(
        self, query: tantivy.Query, limit: int, *, count: bool, order_by_field: str | None
    ) -> tantivy.SearchResult:
        self.limits.append(limit)
        return self.searcher.search(query, limit, count=count, order_by_field=order_by_field)


@given(
    times=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    cut=st.integers(0, 40),
    k=st.integers(1, 45),
    by=st.sampled_from(["time", None]),
)
@settings(max_examples=20, deadline=None)
def test_documents_in_order_are_fetched_once_and_no_more_than_wanted(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], cut: int, k: int, by: str | None
) -> None:
    numbered = list(enumerate(times))
    cut = max(cut, len(times) // 2 + 1)  # the larger segment comes first
    made = searcher(tmp_path_factory.mktemp("order"), [numbered[:cut], numbered[cut:]])
    counting = Counting(made)
    columns = first(counting, ALL, k, ids="number", by=by)  # type: ignore[arg-type]
    assert counting.limits == [min(k, len(times))]
    assert list(map(Keyed, *columns)) == best(made, ALL, k, schema=SCHEMA, ids="number", by=by)


def test_no_hit_is_no_column(tmp_path: Path) -> None:
    made = searcher(tmp_path, [])
    assert first(made, ALL, 3, ids="number", by=None) == Columns((), ())
    assert best(made, ALL, 3, schema=SCHEMA, ids="number") == []


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_tie_that_goes_on_and_on_is_cut_at_the_lowest_numbers(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Segments overlap, and few hits are fetched beyond those wanted, so most are asked again."""
    count = data.draw(st.integers(30, 120))
    numbers = data.draw(st.permutations(range(-40, count - 40)))
    times = [data.draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in numbers]
    pairs = list(zip(numbers, times, strict=True))
    ends = sorted(data.draw(st.lists(st.integers(0, count), max_size=3)))
    parts = [pairs[a:b] for a, b in zip([0, *ends], [*ends, count], strict=True)]
    found = searcher(tmp_path_factory.mktemp("ties"), parts)
    by, k = data.draw(st.sampled_from(["time", None])), data.draw(st.integers(1, count))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lexical_tantivy, "SLACK", data.draw(st.integers(1, 4)))
        hits = best(found, ALL, k, schema=SCHEMA, ids="number", by=by)
    keyed = [(-time if by else -1.0, number) for number, time in pairs]
    assert hits == [Keyed(number, -key) for key, number in sorted(keyed)[:k]]
