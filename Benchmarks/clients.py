"""Clients of the harness's own: one request after the other over a kept connection, CONNECT, TLS inside."""
from __future__ import annotations

import re
import socket
import ssl
import subprocess

from origin import KEPT_HOST
from peers import Peer
from processes import BenchError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Connection:
    """An HTTP/1.1 connection to a peer, plain or with TLS."""

    def __init__(self, peer: Peer, host: str, timeout: float = 60) -> None:
        self.peer = peer
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", peer.ports[host]), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 18)

    def close(self) -> None:
        self.socket.close()

    def exchange(self, request: bytes) -> int:
        self.socket.sendall(request)
        return self.receive()

    def receive(self) -> int:
        """Reads a 200 with a length; returns the length."""
        head = b""
        while True:
            end = head.find(b"\r\n\r\n")
            if end >= 0:
                break
            part = self.socket.recv(65536)
            if not part:
                raise BenchError(f"{self.peer.name} closed a connection after {head[:200]!r}")
            head += part
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"{self.peer.name} answered {head[:300]!r}. The end of its log:\n"
                             f"{self.peer.running.log_tail(5)}")
        found = _LENGTH.search(head[:end + 2])
        length = int(found[1]) if found else 0
        left = length - (len(head) - end - 4)
        while left > 0:
            count = self.socket.recv_into(self._buffer, min(left, len(self._buffer)))
            if not count:
                raise BenchError(f"{self.peer.name} closed a connection {left} bytes before a body's end")
            left -= count
        if left < 0:
            raise BenchError(f"{self.peer.name} sent {-left} bytes too many")
        return length

    def connect(self, host: str, context: ssl.SSLContext) -> None:
        """CONNECT to the host, then TLS with whoever is at the other end."""
        authority = self.peer.connect_authority(host)
        self.exchange(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        self.socket = context.wrap_socket(self.socket, server_hostname=host)


class Keeper:
    """Asks for the same again and again."""

    def __init__(self, peer: Peer, host: str, path: str) -> None:
        self._connection = Connection(peer, host)
        self._request = f"GET {peer.target(host, path)} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench\r\n\r\n".encode()

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self) -> None:
        self._connection.socket.sendall(self._request)

    def receive(self) -> None:
        self._connection.receive()


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
    request = f"GET /1k HTTP/1.1\r\nHost: {KEPT_HOST}\r\n\r\n".encode()
    connection = Connection(peer, KEPT_HOST)
    connection.connect(KEPT_HOST, context(peer))
    for _ in range(requests):
        connection.exchange(request)
    connection.close()


def h2c_requests(peer: Peer, requests: int) -> None:
    done = subprocess.run(["h2load", "-c", "1", "-m", "1", "-n", str(requests),
                           f"http://127.0.0.1:{peer.ports[KEPT_HOST]}/1k"], capture_output=True, text=True, timeout=300)
    if done.returncode or f"status codes: {requests} 2xx" not in done.stdout:
        raise BenchError(f"{peer.name}: h2load has had other answers:\n{done.stdout}{done.stderr}")
