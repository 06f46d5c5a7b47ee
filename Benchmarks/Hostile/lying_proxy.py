# SPDX-License-Identifier: Apache-2.0
"""An upstream proxy without TLS that responds to CONNECT with what never ends."""
from __future__ import annotations

from stage import Peer, Stage

HEADS = {
    "body": (b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n"
             b"Content-Length: 99999999999\r\n\r\n", b"x" * 65536),
    "chunks": (b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: NTLM\r\n"
               b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 8192),
    "head": (b"HTTP/1.1 200 OK\r\n", b"X-Field: value\r\n" * 4096),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2048),
}


class LyingProxy(Peer):
    def __init__(self, kind: str, title: str, is_short: bool) -> None:
        self.name, self.title, self.is_short = f"connect-{kind}", title, is_short
        self.head, self.rest = HEADS[kind]

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        port = stage.serve(self._serve)
        return {"hosts": {f"far{number}.bench.test": {"upstreamProxy": f"http://127.0.0.1:{port}"} for number in range(4)}}

    def _serve(self, connection) -> None:
        connection.recv(4096)
        connection.sendall(self.head)
        while self.stage.goes_on:
            connection.sendall(self.rest)

    def attack(self, stage: Stage) -> None:
        numbers = iter(range(4))
        stage.at_once(4, lambda: stage.ask(f"http://far{next(numbers)}.bench.test/"))


PEERS = [
    LyingProxy("body", "4: http:// upstream proxy, 407 with an endless body", True),
    LyingProxy("chunks", "4: the same in chunks of one byte", False),
    LyingProxy("head", "4: the same with an endless head", False),
    LyingProxy("interim", "4: the same with 100 without end", True),
]
