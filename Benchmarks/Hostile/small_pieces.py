# SPDX-License-Identifier: Apache-2.0
"""Floods of the smallest things that a protocol has, by clients and by accepted origins."""
from __future__ import annotations

import http2_bytes as h2
import tls_bytes
from informational import read_all, wait_unread
from origin import OTHER_HOST
from stage import Peer, Stage


class _ByClient(Peer):
    def settings(self, stage: Stage) -> dict:
        return {"listeners": [{"address": "127.0.0.1:0", "http2": True}]}


class RapidReset(_ByClient):
    name = "reset"
    title = "10: clients that open and reset streams without end"

    def attack(self, stage: Stage) -> None:
        def flood() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings())
            stream = 1
            fields = h2.request_fields("bench.test", "/1k")
            while stage.goes_on:
                frames = b""
                for _ in range(200):
                    frames += h2.head(stream, fields, ends_stream=True) + h2.frame(h2.RST_STREAM, 0, stream, b"\0\0\0\x08")
                    stream += 2
                connection.sendall(frames)

        def again() -> None:
            while stage.goes_on:
                try:
                    flood()
                except OSError:
                    stage.is_over.wait(0.01)
        stage.at_once(4, again)


class Pings(_ByClient):
    name = "pings"
    title = "10: clients that send PING, SETTINGS and WINDOW_UPDATE without end"
    is_short = False

    def attack(self, stage: Stage) -> None:
        frames = (h2.frame(h2.PING, 0, 0, b"12345678") + h2.settings({h2.TABLE_SIZE: 4096})
                  + h2.frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1")) * 500

        def again() -> None:
            while stage.goes_on:
                try:
                    connection = stage.connect(1)
                    connection.sendall(h2.PREFACE + h2.settings())
                    while stage.goes_on:
                        connection.sendall(frames)
                except OSError:
                    stage.is_over.wait(0.01)
        stage.at_once(3, again)


class Pipeline(Peer):
    name = "pipeline"
    title = "10: clients that pipeline refused requests without end, and do not read"

    def attack(self, stage: Stage) -> None:
        requests = b"GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n" * 1000

        def flood() -> None:
            while stage.goes_on:
                try:
                    connection = stage.connect()
                    connection.settimeout(1)
                    while stage.goes_on:
                        connection.sendall(requests)
                except OSError:
                    stage.is_over.wait(0.01)
        stage.at_once(4, flood)


class Chunks(Peer):
    name = "chunks"
    title = "10: origin that sends chunks of one byte with extensions"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        tls.recv(4096)
        tls.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunks = b"1;a=b\r\nx\r\n" * 3000
        while self.stage.goes_on:
            tls.sendall(chunks)

    def attack(self, stage: Stage) -> None:
        def ask(reads: bool) -> None:
            connection = stage.connect()
            connection.sendall(f"GET http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\n\r\n".encode())
            (read_all if reads else wait_unread)(stage, connection)
        stage.start(lambda: ask(False))
        stage.at_once(2, lambda: ask(True))


class ClientChunks(Peer):
    name = "chunks-client"
    title = "10: clients that send chunks of one byte with extensions, to an origin that takes them"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        while self.stage.goes_on and tls.recv(65536):
            pass

    def attack(self, stage: Stage) -> None:
        chunks = b"1;a=b\r\nx\r\n" * 6000

        def send() -> None:
            connection = stage.connect()
            connection.sendall(f"POST http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n".encode())
            while stage.goes_on:
                connection.sendall(chunks)
        stage.at_once(3, send)


class HelloPieces(Peer):
    name = "hello-pieces"
    title = "10: TLS clients that send their hello in records of one byte, and stop"
    is_short = False

    def settings(self, stage: Stage) -> dict:
        folder = stage.certificates.folder
        return {"listeners": [{"address": "127.0.0.1:0", "tls": {"certificate": str(folder / "leaf.pem"),
                                                                "key": str(folder / "leaf.key")}}]}

    def attack(self, stage: Stage) -> None:
        hello = tls_bytes.records(tls_bytes.client_hello("bench.test"), size=1)[:-20]

        def again() -> None:
            for _ in range(200):
                if stage.goes_on:
                    stage.connect(1).sendall(hello)
        stage.at_once(3, again)


class RedirectedHellos(Peer):
    name = "redirected-hellos"
    title = "20: clients of a transparent listener that say nothing, or stop before the end of a hello of 16 KB, in one record or in many"

    def settings(self, stage: Stage) -> dict:
        return {"listeners": [{"address": "127.0.0.1:0", "mode": "transparent"}]}

    def attack(self, stage: Stage) -> None:
        message = b"\1\0\x3f\xe0" + bytes(0x3fe0)
        beginnings = [b"", tls_bytes.records(message)[:-1], tls_bytes.records(message[:2700], size=1)]

        def again() -> None:
            for number in range(200):
                if stage.goes_on:
                    stage.connect(1).sendall(beginnings[number % 3])
        stage.at_once(3, again)


PEERS = [RapidReset(), Pings(), Pipeline(), Chunks(), ClientChunks(), HelloPieces(), RedirectedHellos()]
