#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The other clients: they ask for a small file again and again, and measure how long each response takes. One more asks nginx itself,
without the proxy: what it waits, too, is the machine's.

A process of its own, so that the work of the hostile peers does not count. Ends when its standard input does, when the
requests under way are over; then it prints what it has seen as JSON.
"""
from __future__ import annotations

import json
import socket
import sys
import threading
import time

PAUSE = 0.02
NEW_PAUSE = 0.2
# A request that waits longer counts as one without response.
PATIENCE = 75.0


class Client:
    def __init__(self, port: int, host: str, keeps: bool) -> None:
        self.port, self.host, self.keeps = port, host, keeps
        self.waits: list[float] = []
        self.failures: list[str] = []
        self.connection: socket.socket | None = None

    def work(self, is_over: threading.Event) -> None:
        while not is_over.wait(PAUSE if self.keeps else NEW_PAUSE):
            begun = time.monotonic()
            try:
                self._ask()
            except (OSError, ValueError) as error:
                self.failures.append(f"{type(error).__name__}: {error}"[:200])
                self.connection = None
                # At once would only add load.
                is_over.wait(PAUSE)
            self.waits.append(time.monotonic() - begun)

    def _ask(self) -> None:
        if self.connection is None or not self.keeps:
            self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep = "" if self.keeps else "Connection: close\r\n"
        self.connection.sendall(f"GET http://{self.host}/1k HTTP/1.1\r\nHost: {self.host}\r\n{keep}\r\n".encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        head, body = received.split(b"\r\n\r\n", 1)
        while len(body) < 1024 and head.startswith(b"HTTP/1.1 200"):
            body += self._receive()
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(f"{head[:60]!r} {body[:120]!r}")

    def _receive(self) -> bytes:
        piece = self.connection.recv(65536)
        if not piece:
            raise ConnectionError("the connection ended")
        return piece


def main() -> None:
    port, kept_host, new_host, direct_port = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    clients = [Client(port, kept_host, True) for _ in range(6)] + [Client(port, new_host, False) for _ in range(2)]
    direct = Client(direct_port, kept_host, True)
    is_over = threading.Event()
    threads = [threading.Thread(target=client.work, args=(is_over,)) for client in [*clients, direct]]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    waits = sorted(wait for client in clients for wait in client.waits)
    failures = [failure for client in clients for failure in client.failures]
    print(json.dumps({"requests": len(waits), "worst": waits[-1] if waits else 0.0,
                      "direct": max(direct.waits, default=0.0), "p99": waits[len(waits) * 99 // 100] if waits else 0.0,
                      "failures": len(failures), "failure": failures[0] if failures else ""}))


if __name__ == "__main__":
    main()
