"""The collector looks again at what was set aside, but at what others had set aside before."""

import gc
from collections.abc import Iterator

import pytest

from harness.replay.machine import quiet, setting_aside


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin with nothing set aside; looking at all that the tests hold takes a second."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
    frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


def test_what_was_set_aside_is_looked_at_again() -> None:
    with setting_aside() as set_aside:
        assert gc.get_freeze_count() == 0
        set_aside()
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_what_others_set_aside_stays_so() -> None:
    gc.freeze()
    with quiet():
        pass
    assert gc.get_freeze_count() > 0


def test_it_is_back_after_an_exception() -> None:
    def broken_off() -> None:
        with quiet():
            assert not gc.isenabled()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
