"""The proxy's only answers of its own: to what no control can take."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from harness.shadow.proxy.http_link import Link

LINGER_S = 2.0
"""How long a client may go on sending after its last answer; a reset could take that from it."""


def _words(status: str, text: str) -> bytes:
    body = f"{text}\r\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


UNREACHABLE = _words("502 Bad Gateway", "the server cannot be reached")


def refusal(why: str) -> bytes:
    """Say why a request is not passed on."""
    return _words("400 Bad Request", why)


async def last_words(client: Link, words: bytes, head_s: float) -> None:
    """Send an answer, and end the connection when the client has it."""
    client.write(words)
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(head_s):
            await client.drain()
        client.end()
        async with asyncio.timeout(LINGER_S):
            while await client.read():
                pass
    client.close()
