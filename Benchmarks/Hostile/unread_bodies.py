# SPDX-License-Identifier: Apache-2.0
"""Clients of HTTP/2 that open streams of bodies on the disk, and do not read."""
from __future__ import annotations

import http2_bytes as h2
from informational import wait_unread
from origin import OTHER_HOST
from stage import Peer, Stage

SIZE = 2_000_000


class UnreadFiles(Peer):
    name = "disk"
    title = "9: twenty clients, 100 streams each on a body on the disk, unread"
    descriptors = 1500

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        port = stage.serve(self._serve)
        (stage.folder / "cache").mkdir()
        return {"listeners": [{"address": "127.0.0.1:0", "http2": True}], "limits": {"heldBytes": "40MB"},
                "cache": {"memory": "4MB", "disk": {"path": str(stage.folder / "cache"), "size": "100MB"}},
                "hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{port}"}}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        body = b"b" * SIZE
        while tls.recv(4096):
            tls.sendall(f"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {SIZE}\r\n\r\n".encode() + body)

    def attack(self, stage: Stage) -> None:
        stage.ask(f"http://{OTHER_HOST}/body")
        # Until the body stands on the disk.
        stage.is_over.wait(0.5)
        requests = b"".join(h2.head(stream, h2.request_fields(OTHER_HOST, "/body"), ends_stream=True)
                            for stream in range(1, 200, 2))

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings() + requests)
            wait_unread(stage, connection)
        stage.at_once(20, ask)


PEERS = [UnreadFiles()]
