# SPDX-License-Identifier: Apache-2.0
"""Servers that accept nothing of what is offered, and take their time to say so where the wider TLS profiles are tried."""
from __future__ import annotations

import itertools
import threading

import tls_bytes
from origin import MANY_HOSTS
from stage import Peer, Stage

REFUSAL = bytes((tls_bytes.ALERT, 3, 3, 0, 2, 2, 40))


class SlowTrials(Peer):
    name = "slow-trials"
    title = "3: servers that refuse the first hello, and answer each trial of another TLS profile byte by byte"

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        self.asked: set[bytes] = set()
        self.lock = threading.Lock()
        return {"hosts": {MANY_HOSTS: {"includeSubdomains": True, "resolve": f"127.0.0.1:{stage.serve(self._serve)}", "upgrade": True}}}

    def _serve(self, connection) -> None:
        hello = tls_bytes.read_message(connection)
        place = hello.find(f".{MANY_HOSTS}".encode())
        name = hello[place - 8:place]
        with self.lock:
            is_first = name not in self.asked
            self.asked.add(name)
        if not is_first:
            # The hello of a server, as far as it comes.
            for byte in tls_bytes.records(tls_bytes.server_hello(hello)):
                if self.stage.is_over.wait(0.3):
                    return
                connection.sendall(bytes((byte,)))
        connection.sendall(REFUSAL)
        connection.recv(4096)

    def attack(self, stage: Stage) -> None:
        # One host is tried once: it takes many.
        numbers = itertools.count()

        def ask() -> None:
            while stage.goes_on:
                stage.ask(f"http://host{next(numbers):04}.{MANY_HOSTS}/")
        stage.at_once(60 if stage.is_short else 200, ask)


PEERS = [SlowTrials()]
