"""A small OpenAI-compatible server that answers by a script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

MODEL = "toy-1"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


class Reply(NamedTuple):
    """What the server sends."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}


def completion(content: str | None, **changed: Any) -> Reply:  # noqa: ANN401  any JSON
    """Wrap the words of a model as the protocol has them."""
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    body = {"model": MODEL, "choices": [choice], "usage": USAGE} | changed
    return Reply(json.dumps(body).encode())


def graded(*probabilities: float, model: str = MODEL) -> Reply:
    """Answer well, with these probabilities of the grades 0, 1, ..."""
    said = {str(grade): one for grade, one in enumerate(probabilities)}
    return completion(json.dumps({"reason": "because", "probabilities": said}), model=model)


class Server:
    """Answers with the replies of the script in turn, and the last one for ever."""

    def __init__(self, script: Sequence[Reply]) -> None:
        self.script, self.seen = list(script), list[dict[str, Any]]()
        self.keys: list[str] = []
        self.url = ""

    def next(self) -> Reply:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def serving(*script: Reply) -> Iterator[Server]:
    """Serve a script on a free port of this machine."""
    told = Server(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            told.keys.append(self.headers.get("authorization", ""))
            reply = told.next()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
