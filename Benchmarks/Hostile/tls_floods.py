# SPDX-License-Identifier: Apache-2.0
"""Records and messages of TLS 1.3 without end behind a handshake that was accepted, by origins and by clients of a TLS listener."""
from __future__ import annotations

import socket
import ssl
import time

import tls_records
from informational import read_all
from origin import OTHER_HOST
from stage import Peer, Stage

PIECE = 1 << 18


def flood(stage: Stage, connection: socket.socket, writer: tls_records.Writer, kind: str) -> None:
    """Sends what was made beforehand faster than anybody can read it, again and again."""
    make = {"tickets": lambda: writer.tickets(1 << 20), "keys": lambda: writer.key_update(wants_another=True),
            "pieces": lambda: writer.record(tls_records.APPLICATION_DATA, b"x"), "empty": writer.empty}[kind]
    while stage.goes_on:
        content, until = bytearray(), time.monotonic() + (0.5 if stage.is_short else 1.5)
        while len(content) < PIECE and time.monotonic() < until:
            content += make()
        connection.sendall(content)


class _ByOrigin(Peer):
    def __init__(self, kind: str, title: str, is_short: bool = True) -> None:
        self.name, self.title, self.kind, self.is_short = f"tls-{kind}", title, kind, is_short

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder = self.stage.certificates.folder
        context.load_cert_chain(folder / "leaf.pem", folder / "leaf.key")
        context.num_tickets = 0
        tls, writer = tls_records.handshake(context, connection, server_side=True)
        tls.recv(4096)
        raw = self.stage.keep(socket.socket(fileno=tls.detach()))
        raw.sendall(writer.record(tls_records.APPLICATION_DATA, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"))
        flood(self.stage, raw, writer, self.kind)

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            while stage.goes_on:
                connection = stage.connect()
                connection.sendall(f"GET http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\n\r\n".encode())
                read_all(stage, connection)
        stage.at_once(2, ask)


class _ByClient(Peer):
    def __init__(self, kind: str, title: str, is_short: bool = True) -> None:
        self.name, self.title, self.kind, self.is_short = f"tls-{kind}-client", title, kind, is_short

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        folder = stage.certificates.folder
        return {"listeners": [{"address": "127.0.0.1:0", "tls": {"certificate": str(folder / "leaf.pem"),
                                                                "key": str(folder / "leaf.key")}}],
                "hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._take)}"}}}

    def _take(self, connection: socket.socket) -> None:
        tls = self.stage.tls(connection)
        while tls.recv(65536):
            pass

    def attack(self, stage: Stage) -> None:
        def send() -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            while stage.goes_on:
                try:
                    tls, writer = tls_records.handshake(context, stage.connect(1), server_hostname=OTHER_HOST)
                    raw = stage.keep(socket.socket(fileno=tls.detach()))
                    raw.sendall(writer.record(tls_records.APPLICATION_DATA, (
                        f"POST http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\nContent-Length: 99999999\r\n\r\n").encode()))
                    flood(stage, raw, writer, self.kind)
                except OSError:
                    stage.is_over.wait(0.01)
        stage.at_once(2, send)


PEERS = [
    _ByOrigin("tickets", "10: accepted origin that sends session tickets without end"),
    _ByOrigin("keys", "10: accepted origin that changes its keys (KeyUpdate) without end"),
    _ByOrigin("pieces", "10: accepted origin whose body comes in records of one byte", False),
    _ByOrigin("empty", "10: accepted origin that sends empty records without end", False),
    _ByClient("keys", "10: TLS client that changes its keys without end, and wants the proxy's changed, too"),
    _ByClient("pieces", "10: TLS client whose body comes in records of one byte", False),
    _ByClient("empty", "10: TLS client that sends empty records without end", False),
]
