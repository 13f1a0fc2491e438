"""``cli.base.ending``: what was told to end is on its way, whatever comes then."""

from __future__ import annotations

import signal
from unittest import mock

import pytest

from harness.cli import exit_codes
from harness.cli.exit_codes import ENDING


def test_an_interrupt_while_words_are_looked_for_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told as memory that ran out, with exit code 2."""
    monkeypatch.setattr(exit_codes, "_said", mock.Mock(side_effect=KeyboardInterrupt))
    assert exit_codes.failed(ValueError("large"), debug=False) == 130
    assert capsys.readouterr().err == f"{exit_codes.AGAIN}\n"
    assert {signal.getsignal(one) for one in ENDING} == {signal.SIG_IGN}
