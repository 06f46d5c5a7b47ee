# SPDX-License-Identifier: Apache-2.0
"""Fields of 4 KB that cost a byte each (HPACK), from an accepted origin and from clients; bodies that nobody takes."""
from __future__ import annotations

import http2_bytes as h2
from informational import wait_unread
from origin import H2_HOST, OTHER_HOST
from stage import Peer, Stage

VALUE = b"v" * 3900


class Origin(Peer):
    name = "hpack-origin"
    title = "6: field block of 1.15 MB of HPACK references from an origin"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        return {"hosts": {H2_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}", "httpVersion": "2"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection, ("h2",))
        reader = h2.Reader(tls)
        reader.skip_preface()
        tls.sendall(h2.settings() + h2.frame(h2.SETTINGS, h2.ACK, 0))
        is_first = True
        while self.stage.goes_on:
            kind, _, stream, _ = reader.frame()
            if kind != h2.HEADERS:
                continue
            # Once in the table, the field stays for all streams of the connection.
            first = h2.literal(b"x-large", VALUE, is_kept=True) if is_first else b""
            is_first = False
            tls.sendall(h2.head(stream, h2.status(200) + first + h2.LATEST * 1_150_000, ends_stream=True))

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            for _ in range(1 if stage.is_short else 3):
                stage.ask(f"http://{H2_HOST}/")
        stage.at_once(2, ask)


class Clients(Peer):
    name = "hpack-clients"
    title = "6: clients, 100 streams each, requests of HPACK references that wait"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        port = stage.serve(self._serve)
        # The default suits the machine, and would let a large one hold more than this bench allows.
        return {"listeners": [{"address": "127.0.0.1:0", "http2": True}], "limits": {"heldBytes": "40MB"},
                "hosts": {"silent.bench.test": {"resolve": f"127.0.0.1:{port}"}}}

    def _serve(self, connection) -> None:
        wait_unread(self.stage, connection)

    def attack(self, stage: Stage) -> None:
        fields = h2.request_fields("silent.bench.test")
        requests = h2.head(1, fields + h2.literal(b"x-large", VALUE, is_kept=True), ends_stream=True)
        for stream in range(3, 200, 2):
            requests += h2.head(stream, fields + h2.LATEST * 14, ends_stream=True)

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings() + requests)
            wait_unread(stage, connection)
        stage.at_once(40 if stage.is_short else 100, ask)


class RefusedHeads(Peer):
    name = "hpack-refused"
    title = "6: clients, request heads of 60,000 HPACK references, again and again"
    is_short = False

    def settings(self, stage: Stage) -> dict:
        return {"listeners": [{"address": "127.0.0.1:0", "http2": True}]}

    def attack(self, stage: Stage) -> None:
        fields = h2.request_fields("bench.test", "/1k")

        def again() -> None:
            while stage.goes_on:
                try:
                    connection = stage.connect(1)
                    connection.sendall(h2.PREFACE + h2.settings())
                    kept = h2.literal(b"x-large", VALUE, is_kept=True)
                    stream = 1
                    while stage.goes_on:
                        connection.sendall(h2.head(stream, fields + kept + h2.LATEST * 60_000, ends_stream=True))
                        stream, kept = stream + 2, b""
                except OSError:
                    stage.is_over.wait(0.01)
        stage.at_once(2, again)


class UnreadBodies(Peer):
    name = "window-0"
    title = "6: clients, 100 streams each with window 0, on a body in the cache"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        port = stage.serve(self._serve)
        return {"listeners": [{"address": "127.0.0.1:0", "http2": True}], "limits": {"heldBytes": "40MB"},
                "cache": {"memory": "16MB"},
                "hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{port}"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        body = b"b" * 500_000
        while tls.recv(4096):
            tls.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 500000\r\n\r\n" + body)

    def attack(self, stage: Stage) -> None:
        stage.ask(f"http://{OTHER_HOST}/body")
        requests = b"".join(h2.head(stream, h2.request_fields(OTHER_HOST, "/body"), ends_stream=True)
                            for stream in range(1, 200, 2))

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings({h2.INITIAL_WINDOW: 0}) + requests)
            wait_unread(stage, connection)
        stage.at_once(10 if stage.is_short else 40, ask)


PEERS = [Origin(), Clients(), RefusedHeads(), UnreadBodies()]
