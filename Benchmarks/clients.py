# SPDX-License-Identifier: Apache-2.0
"""Clients of the harness's own: one request after the other over a kept connection, CONNECT, TLS inside."""
from __future__ import annotations

import re
import socket
import ssl
import subprocess

from origin import KEPT_HOST
from peers import INTERCEPT, Peer
from processes import BenchError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Connection:
    """An HTTP/1.1 connection to a peer, plain or with TLS."""

    def __init__(self, peer: Peer, host: str, timeout: float = 60) -> None:
        self.peer = peer
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", peer.ports[host]), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 18)
        self.body = b""
        """the last response's, if it is a short one"""

    def close(self) -> None:
        self.socket.close()

    def exchange(self, request: bytes) -> int:
        self.socket.sendall(request)
        return self.receive()

    def receive(self) -> int:
        """Reads a 200 with a length; returns the length."""
        head = self._head()
        end = head.find(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"{self.peer.name} answered {head[:300]!r}. The end of its log:\n"
                             f"{self.peer.running.log_tail(5)}")
        found = _LENGTH.search(head[:end + 2])
        length = int(found[1]) if found else 0
        self.body = head[end + 4:]
        left = length - len(self.body)
        while left > 0:
            count = self.socket.recv_into(self._buffer, min(left, len(self._buffer)))
            if not count:
                raise BenchError(f"{self.peer.name} closed a connection {left} bytes before a body's end")
            left -= count
            if length <= 4096:
                self.body += self._buffer[:count]
        if left < 0:
            raise BenchError(f"{self.peer.name} sent {-left} bytes too many")
        return length

    def _head(self) -> bytes:
        """A response's head, and as much of its body as came with it."""
        head = b""
        while b"\r\n\r\n" not in head:
            part = self.socket.recv(65536)
            if not part:
                raise BenchError(f"{self.peer.name} closed a connection after {head[:200]!r}")
            head += part
        return head

    def status(self, request: bytes) -> int:
        self.socket.sendall(request)
        return int(self._head()[9:12])

    def connect(self, host: str, context: ssl.SSLContext) -> None:
        """CONNECT to the host, then TLS with whoever is at the other end."""
        authority = self.peer.connect_authority(host)
        self.exchange(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        self.socket = context.wrap_socket(self.socket, server_hostname=host)


def _request(peer: Peer, host: str, path: str) -> bytes:
    # In an intercepted CONNECT a request is for the CONNECT's host and port.
    name = peer.connect_authority(host).removesuffix(":443") if peer.setup.kind == INTERCEPT else host
    return f"GET {peer.target(host, path)} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: bench\r\n\r\n".encode()


def status_of(peer: Peer, host: str, path: str) -> int:
    connection = Connection(peer, host)
    try:
        return connection.status(_request(peer, host, path))
    finally:
        connection.close()


class Keeper:
    """Asks for the same again and again."""

    def __init__(self, peer: Peer, host: str, path: str) -> None:
        self._connection = Connection(peer, host)
        if peer.setup.kind == INTERCEPT:
            self._connection.connect(host, context(peer))
        self._request = _request(peer, host, path)

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self) -> None:
        self._connection.socket.sendall(self._request)

    def receive(self) -> None:
        self._connection.receive()

    def ask(self) -> None:
        self._connection.exchange(self._request)

    def body(self) -> bytes:
        self.ask()
        return self._connection.body


def context(peer: Peer) -> ssl.SSLContext:
    trusted = ssl.create_default_context(cafile=str(peer.client_ca))
    trusted.set_alpn_protocols(["http/1.1"])
    return trusted


def tunnels(peer: Peer, requests: int) -> None:
    """A connection, a CONNECT, a TLS handshake with the origin and a request, each time."""
    trusted = context(peer)
    request = f"GET /1k HTTP/1.1\r\nHost: {KEPT_HOST}\r\n\r\n".encode()
    for _ in range(requests):
        connection = Connection(peer, KEPT_HOST)
        connection.connect(KEPT_HOST, trusted)
        connection.exchange(request)
        connection.close()


def intercepted_requests(peer: Peer, requests: int) -> None:
    """One CONNECT that the peer intercepts, and all requests in it."""
    with Keeper(peer, KEPT_HOST, "/1k") as client:
        for _ in range(requests):
            client.ask()


def h2c_requests(peer: Peer, requests: int) -> None:
    done = subprocess.run(["h2load", "-c", "1", "-m", "1", "-n", str(requests),
                           f"http://127.0.0.1:{peer.ports[KEPT_HOST]}/1k"], capture_output=True, text=True, timeout=300)
    if done.returncode or f"status codes: {requests} 2xx" not in done.stdout:
        raise BenchError(f"{peer.name}: h2load has had other answers:\n{done.stdout}{done.stderr}")


def h2c_body(peer: Peer, host: str, path: str) -> bytes:
    """One request over cleartext HTTP/2 with prior knowledge."""
    done = subprocess.run(["nghttp", f"http://127.0.0.1:{peer.ports[host]}{path}"], capture_output=True, timeout=30)
    if done.returncode or not done.stdout:
        raise BenchError(f"{peer.name}: nghttp has had no answer:\n{done.stderr.decode(errors='replace')}")
    return done.stdout
