# SPDX-License-Identifier: Apache-2.0
"""The server of a pinned host shows a certificate whose dates are none; then the admin listener is asked what was seen."""
from __future__ import annotations

import json

import tls_bytes
from origin import OTHER_HOST
from stage import Peer, Stage

DATES = [
    tls_bytes.der(0x17, b"XXXXXXXXXXXXX"), tls_bytes.der(0x17, b""), tls_bytes.der(0x18, b"-9999999999999Z"),
    tls_bytes.der(0x18, b"99999999999999Z"), tls_bytes.der(0x18, b"00000101000000Z"), tls_bytes.der(0x18, b"99991231235959Z"),
    tls_bytes.der(0x17, b"9" * 4000)]


class CertificateDates(Peer):
    name = "dates"
    title = "1: certificate whose notAfter is no time, then /policy"

    def settings(self, stage: Stage) -> dict:
        self.number = 0
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        date = DATES[self.number % len(DATES)]
        hello = tls_bytes.read_message(connection)
        shown = tls_bytes.certificate(OTHER_HOST, OTHER_HOST, not_after=date)
        connection.sendall(tls_bytes.records(tls_bytes.server_hello(hello) + tls_bytes.certificate_message([shown])))
        connection.recv(4096)

    def attack(self, stage: Stage) -> None:
        for self.number in range(len(DATES)):
            response = stage.ask(f"http://{OTHER_HOST}/")
            if not response.startswith(b"HTTP/1.1 502") and stage.is_alive:
                raise AssertionError(f"the certificate was not looked at: {response[:300]!r}")
            # The pins' thread tells of a handshake at most a second later.
            stage.is_over.wait(0.2 if stage.is_short and self.number else 1.1)
            for path in ("/policy", "/tasks", "/tasks.har", "/metrics"):
                body = stage.admin(path)
                if path in ("/policy", "/tasks"):
                    json.loads(body)


PEERS = [CertificateDates()]
