# SPDX-License-Identifier: Apache-2.0
"""A load of a fixed rate, whatever the proxy can do. A request that has to wait for a connection because earlier ones are
late counts from its intended start: waiting in the client would hide what the proxy's pauses do (coordinated omission).
"""
from __future__ import annotations

import gc
import selectors
import socket
import time
from collections import deque

import wrk
from origin import SIZES
from peers import Peer
from processes import BenchError

CONNECTIONS = 32


class _Client:
    def __init__(self, peer: Peer, host: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", peer.ports[host]), timeout=15)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.intended = 0.0
        self.received = b""


def drive(peer: Peer, host: str, path: str, rate: int, seconds: float, connections: int = CONNECTIONS) -> wrk.Load:
    request = (f"GET {peer.target(host, path)} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench\r\n\r\n").encode()
    size = SIZES[path[1:]]
    selector = selectors.EpollSelector()
    # In turn: a connection without a request is closed after a while.
    idle = deque(_Client(peer, host) for _ in range(connections))
    everyone = list(idle)
    for client in everyone:
        selector.register(client.socket, selectors.EVENT_READ, client)
    total, begun, times = int(rate * seconds), 0, []
    gc.disable()
    start = time.monotonic()
    try:
        while len(times) < total:
            now = time.monotonic()
            while idle and begun < total and start + begun / rate <= now:
                client = idle.popleft()
                client.intended = start + begun / rate
                client.socket.send(request)
                begun += 1
            # The selector waits whole milliseconds: the last of them is spent asking.
            left = start + begun / rate - time.monotonic()
            wait = 0.0 if idle and begun < total and left < 0.001 else max(left - 0.001, 0.001) if idle else 1.0
            for key, _ in selector.select(min(wait, 1.0)):
                client = key.data
                data = client.socket.recv(65536)
                if not data:
                    raise BenchError(f"{peer.name} closed a connection after {client.received[:200]!r}")
                client.received += data
                end = client.received.find(b"\r\n\r\n")
                if end < 0 or len(client.received) < end + 4 + size:
                    continue
                if not client.received.startswith(b"HTTP/1.1 200"):
                    raise BenchError(f"{peer.name} answered {client.received[:200]!r}")
                times.append(time.monotonic() - client.intended)
                client.received = b""
                idle.append(client)
            if time.monotonic() > start + seconds + 30:
                raise BenchError(f"{peer.name} has answered {len(times)} of {total} requests after {seconds + 30:g} s")
    finally:
        gc.enable()
        selector.close()
        for client in everyone:
            client.socket.close()
    used = time.monotonic() - start
    ordered = sorted(times)
    return wrk.Load(total, used, total * size, 0, 0, ordered[total // 2] * 1000, ordered[total * 99 // 100] * 1000,
                    ordered[-1] * 1000)
