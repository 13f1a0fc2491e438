"""``harness serve`` as a person starts it, and ends it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import httpx
import pytest

from harness.cli import main
from harness.cli.command import err
from harness.serve import commands as server
from tests.programs import PYTHON, Program
from tests.serve.conftest import make_pool

pytestmark = pytest.mark.slow
ADDRESS = re.compile(r"^serving (http://(\S+):(\d+)/\?token=\S+)$")


@contextmanager
def started(*words: str | Path) -> Iterator[tuple[Program, str]]:
    """Start the command; give the process and the address that it prints."""
    process = Program([*PYTHON, "serve", *words], stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        line = process.stderr.readline().strip()
        found = ADDRESS.match(line)
        assert found, line
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def asked_raw(port: int, target: str) -> bytes:
    """Ask for a target as it is, which no client would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        opened.sendall(head.encode())
        parts = iter(lambda: opened.recv(65536), b"")
        return b"".join(parts)


def test_it_serves_and_ends_at_a_ctrl_c(site: Path) -> None:
    with started(site / "reports", site / "out", "--port", "0") as (process, address):
        url = httpx.URL(address)
        assert url.host == "127.0.0.1"
        with httpx.Client(base_url=url.copy_with(query=None), timeout=60) as client:
            assert client.get("/").status_code == 403
            assert client.get(address).status_code == 200
            assert "Search reports" in client.get("/").text
            page = client.get("/files/reports/index.html")
            assert page.content == (site / "reports" / "index.html").read_bytes()
            for target in ("/files/../../etc/passwd", "/files/reports/../../x", "*", "//evil/"):
                assert asked_raw(url.port or 0, target).split()[1] in {b"403", b"400"}
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
        assert process.returncode == 0
        assert rest == "stopped\n"


def test_a_job_of_a_shell_says_too_that_it_ended(site: Path) -> None:
    """A shell starts what ends in ``&`` with Ctrl-C ignored; the server listens to it again."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with started(site / "reports", "--port", "0") as (process, address):
            assert httpx.get(address, timeout=60).status_code in {200, 303}
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (process.returncode, rest) == (0, "stopped\n")


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Give the one line of an error with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["harness", "serve", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_port_that_is_taken_is_told(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = said(monkeypatch, capsys, str(site / "reports"), "--port", port)
    assert f"cannot serve on 127.0.0.1 port {port}" in line
    assert "name another" in line


@pytest.mark.parametrize("host", ["0.0.0" + ".0", "192.168.0.1", "example.org"])
def test_no_other_machine_is_served(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    monkeypatch.setattr("harness.core.server.server", lambda _: Server(None))
    line = said(monkeypatch, capsys, str(site / "reports"), "--host", host, "--port", "0")
    assert "to this machine alone" in line


def test_a_folder_without_a_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = said(monkeypatch, capsys, str(tmp_path))
    assert "holds no page and no pool. Name a folder with reports" in line


def test_a_project_without_a_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text("")
    (tmp_path / "reports").mkdir()
    monkeypatch.chdir(tmp_path)
    line = said(monkeypatch, capsys)
    assert "no page lies in reports, perf, out. Make some (harness demo" in line


class Server:
    """Stands for the server: waits for a browser to be opened, and is stopped by a Ctrl-C."""

    def __init__(self, opened: Event | None) -> None:
        self.opened = opened

    def run(self, sockets: list[socket.socket]) -> None:
        assert len(sockets) == 1
        if self.opened:
            assert self.opened.wait(20)
        raise KeyboardInterrupt


@pytest.mark.parametrize("works", [True, False])
def test_a_browser_is_opened_where_it_is_asked_for(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, works: bool
) -> None:
    opened, addresses = Event(), list[str]()

    def browse(address: str) -> bool:
        addresses.append(address)
        if works:
            opened.set()
        return works

    def tell(text: str, *, markup: bool) -> None:
        assert not markup
        sys.stderr.write(f"{text}\n")
        if "open the address yourself" in text:
            opened.set()

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr(err, "print", tell)
    monkeypatch.setattr("harness.core.server.server", lambda _: Server(None))
    server.serve([site / "reports"], port=0)
    assert addresses == []
    monkeypatch.setattr("harness.core.server.server", lambda _: Server(opened))
    capsys.readouterr()
    server.serve([site / "reports"], port=0, opened=True)
    first, *said, last = capsys.readouterr().err.splitlines()
    assert addresses == [first.removeprefix("serving ")]
    assert bool(said) is not works
    assert last == "stopped"


def test_the_usual_folders_are_those_that_hold_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text("")
    (tmp_path / "reports").mkdir()
    (tmp_path / "out").mkdir()
    make_pool(tmp_path / "out" / "pool.qrels")
    monkeypatch.chdir(tmp_path)
    served: list[str] = []

    def application(found: tuple[object, ...], *_: str) -> None:
        served.extend(str(one) for one in found)
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.serve.application.application", application)
    with pytest.raises(KeyboardInterrupt):
        server.serve(port=0)
    assert len(served) == 1
    assert "label='out'" in served[0]
    assert not capsys.readouterr().err
