# SPDX-License-Identifier: Apache-2.0
"""Certificates with elliptic curves of their own, whose points are compressed: what OpenSSL decodes before any verdict."""
from __future__ import annotations

import functools

import tls_bytes
from origin import OTHER_HOST
from stage import Peer, Stage

# Most that fit into the 100 KB that OpenSSL takes.
MANY = 130


@functools.cache
def certificates(count: int) -> bytes:
    key = tls_bytes.explicit_key()
    return tls_bytes.certificate_message(tls_bytes.chain(OTHER_HOST, count, key))


class _ByServer(Peer):
    count = MANY
    requests = 1

    def settings(self, stage: Stage) -> dict:
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        hello = tls_bytes.read_message(connection)
        connection.sendall(tls_bytes.records(tls_bytes.server_hello(hello) + certificates(self.count)))
        connection.recv(4096)

    def attack(self, stage: Stage) -> None:
        stage.at_once(self.requests, lambda: stage.ask(f"http://{OTHER_HOST}/"))


class LongChain(_ByServer):
    name = "curves"
    title = f"2: server with {MANY} certificates on curves of their own"
    is_short = False


class ShortChains(_ByServer):
    name = "curves-short"
    title = "2: six servers with twelve such certificates each"
    count = 12
    requests = 6


class ByClient(Peer):
    name = "curves-client"
    title = "2: clients with twelve such certificates, clientCA"

    def settings(self, stage: Stage) -> dict:
        folder = stage.certificates.folder
        tls = {"certificate": str(folder / "leaf.pem"), "key": str(folder / "leaf.key"),
               "clientCA": str(stage.certificates.ca)}
        return {"listeners": [{"address": "127.0.0.1:0", "tls": tls}]}

    def attack(self, stage: Stage) -> None:
        shown = tls_bytes.records(certificates(12))

        def show() -> None:
            connection = stage.connect(1)
            connection.sendall(tls_bytes.records(tls_bytes.client_hello("bench.test", versions=(0x0303,), groups=(0x17, 0x1D))))
            received = b""
            # ServerHelloDone ends the flight, without content.
            while not received.endswith(b"\x0e\0\0\0"):
                piece = connection.recv(65536)
                if not piece:
                    raise ConnectionError("the end")
                received += piece
            connection.sendall(shown)
            connection.recv(4096)

        stage.at_once(4, show)


class ByProxy(Peer):
    name = "curves-proxy"
    title = "2: https:// upstream proxy with twelve such certificates"

    def settings(self, stage: Stage) -> dict:
        port = stage.serve(self._serve)
        return {"hosts": {"far.bench.test": {"upstreamProxy": f"https://127.0.0.1:{port}"}}}

    def _serve(self, connection) -> None:
        hello = tls_bytes.read_message(connection)
        connection.sendall(tls_bytes.records(tls_bytes.server_hello(hello) + certificates(12)))
        connection.recv(4096)

    def attack(self, stage: Stage) -> None:
        stage.at_once(4, lambda: stage.ask("http://far.bench.test/"))


PEERS = [LongChain(), ShortChains(), ByClient(), ByProxy()]
