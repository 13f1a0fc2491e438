"""The process of a candidate: open it, say so, and answer until the pipe closes."""

from __future__ import annotations

import json
import os
import signal
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from threading import Thread

from harness.shadow.live.generation import Generation
from harness.shadow.live.messages import Answered, Opened, said
from harness.shadow.live.side import asked, told
from harness.shadow.live.worker import Open


def serve(opens: Open, pipe: Connection) -> None:
    """Run in the process; queries come from our own parent.

    A signal that ends all is for the process that serves, which then closes the pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        opened = opens()
        searcher = opened.__enter__()
    except Exception as exc:  # noqa: BLE001  told to who waits for it
        pipe.send_bytes(said(Opened(told(exc))))
        return
    generation = Generation(searcher)
    pipe.send_bytes(said(Opened("")))
    try:
        while True:
            number, text, k, params, late_ns = json.loads(pipe.recv_bytes())
            side = asked(searcher, generation, (text, k, params), late_ns)
            pipe.send_bytes(said(Answered(number, side)))
    except (EOFError, OSError):
        opened.__exit__(None, None, None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
