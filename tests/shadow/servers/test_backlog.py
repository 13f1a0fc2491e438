"""``proxy.backlog``: bounded by count and by bytes, in order, and never waiting to take."""

from __future__ import annotations

from threading import Thread

import pytest

from harness.shadow.receiver import Backlog, Mirrored


def one_of(size: int, at: int = 0) -> Mirrored:
    return Mirrored(str(at), "", {}, b"x" * size)


def test_items_come_in_order_and_then_the_end() -> None:
    made = Backlog()
    assert all(made.put(one_of(1, at)) for at in range(100))
    made.end()
    assert [one and int(one.method) for one in (made.get() for _ in range(101))] == [
        *range(100),
        None,
    ]


@pytest.mark.parametrize(
    ("items", "size", "sizes", "taken"),
    [
        (2, 100, [1, 1, 1], [True, True, False]),
        (9, 10, [4, 6, 1], [True, True, False]),
        (9, 10, [4, 7, 6], [True, False, True]),
        (9, 10, [99, 1], [True, False]),
        (0, 10, [1], [False]),
    ],
)
def test_beyond_either_bound_nothing_is_taken(
    items: int, size: int, sizes: list[int], taken: list[bool]
) -> None:
    made = Backlog(items=items, size=size)
    assert [made.put(one_of(one)) for one in sizes] == taken


def test_what_was_given_makes_room() -> None:
    made = Backlog(items=1, size=10)
    for _ in range(50):
        assert made.put(one_of(10, 1))
        assert not made.put(one_of(10, 2))
        assert made.get() == one_of(10, 1)


def test_threads_lose_nothing_that_was_taken() -> None:
    made = Backlog(items=50, size=400)
    taken: list[int] = []

    def give(start: int) -> None:
        taken.extend(at for at in range(start, start + 2_000) if made.put(one_of(at % 13, at)))

    threads = [Thread(target=give, args=(start,)) for start in (0, 10_000, 20_000)]
    got: list[int] = []

    def drain() -> None:
        while (one := made.get()) is not None:
            got.append(int(one.method))

    reader = Thread(target=drain)
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    made.end()
    reader.join()
    assert sorted(got) == sorted(taken)
    assert made.put(one_of(400))
