# SPDX-License-Identifier: Apache-2.0
"""The workloads: each measures one freshly started peer once and returns its figures."""
from __future__ import annotations

import select
import shutil
import socket
import ssl
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Dict

import fixed_rate
import h2load
import threads
import wrk
from clients import Connection, Keeper, context, h2c_body, status_of
from origin import CLOSING_HOST, H2_HOST, KEPT_HOST, MISNAMED_HOST, SIZES
from peers import GATEWAY, H2_ORIGIN, H2C_CLIENTS, INTERCEPT, TUNNEL, Peer, Setup
from processes import BenchError

Figures = Dict[str, float]
SETTLE_SECONDS = 2.0
FEW_CLIENTS = 2_000
MANY_CLIENTS = 10_000


@dataclass
class Settings:
    seconds: int
    warmup: int
    rate: int
    """requests a second of the fixed rate"""
    many_clients: int
    """10,000, or fewer where the limit of open files does not allow that"""


@dataclass
class Workload:
    name: str
    title: str
    measure: Callable[[Peer, Path, Settings], Figures]
    host: str
    columns: tuple[tuple[str, str], ...]
    """figure and heading, in the order of the table"""
    ratios: tuple[str, ...]
    """figures compared with nginx and HAProxy"""
    setup: Setup = Setup()
    tools: tuple[str, ...] = ("wrk",)

    def setup_for(self, settings: Settings) -> Setup:
        return replace(self.setup, clients=settings.many_clients) if self.name == "clients" else self.setup

    def title_for(self, settings: Settings) -> str:
        text = self.title.format(rate=settings.rate, few=FEW_CLIENTS, many=settings.many_clients)
        if self.name == "clients" and settings.many_clients < MANY_CLIENTS:
            text += f" ({MANY_CLIENTS:,} need a higher limit of open files)"
        return text


# Before the measurement: does the peer do what the workload is about?

def check_peer(peer: Peer, host: str) -> str:
    """Asks the origin, through the peer, what connections it sees. Returns the TLS parameters agreed."""
    kind = peer.setup.kind
    try:
        if kind == H2C_CLIENTS:
            answers = [h2c_body(peer, host, "/probe").decode().split() for _ in range(3)]
            body = h2c_body(peer, host, "/1k")
        elif kind == TUNNEL:
            return _check_tunnel(peer, host)
        else:
            with Keeper(peer, host, "/probe") as client, Keeper(peer, host, "/1k") as other:
                answers = [client.body().decode().split() for _ in range(3)]
                body = other.body()
    except OSError as error:
        raise BenchError(f"{peer.name} does not answer as it should: {error!r}") from None
    if len(body) != SIZES["1k"]:
        raise BenchError(f"{peer.name} delivered {len(body)} bytes for /1k")
    kept = [int(answer[0]) > 1 for answer in answers[1:]]
    if host != CLOSING_HOST and not all(kept):
        raise BenchError(f"{peer.name} does not keep its connections to the origin")
    if host == CLOSING_HOST and any(int(answer[0]) != 1 or answer[1] != "." for answer in answers):
        raise BenchError(f"{peer.name} did not make a full handshake for each request: {answers}")
    protocol = "HTTP/2.0" if kind == H2_ORIGIN else "HTTP/1.1"
    if answers[0][-1] != protocol:
        raise BenchError(f"{peer.name} speaks {answers[0][-1]} to the origin, and not {protocol}")
    return " ".join(answers[0][2:])


def _check_tunnel(peer: Peer, host: str) -> str:
    """The end of the client's TLS is the origin itself: its certificate is not one that the peer made."""
    connection = Connection(peer, host)
    try:
        connection.connect(host, context(peer))
        shown = connection.socket.getpeercert(binary_form=True)
    finally:
        connection.close()
    leaf = ssl.PEM_cert_to_DER_cert((peer.origin.certificates.folder / "leaf.pem").read_text())
    if shown != leaf:
        raise BenchError(f"{peer.name} makes no tunnel: it shows a certificate of its own")
    return ""


def check_cache(peer: Peer, host: str) -> None:
    """The origin tells how many requests its connection has carried: the same number twice is a stored response."""
    with Keeper(peer, host, "/probe") as client:
        if len({client.body() for _ in range(3)}) != 1:
            raise BenchError(f"{peer.name} does not keep answers")


def check_refusals(make: Callable[[Path], Peer], folder: Path, other_ca: Path, ca: Path) -> None:
    """A peer that takes an origin under another CA, or of another name, does less work than the others."""
    for authority, host, what in ((other_ca, KEPT_HOST, "under a CA that it was not given"),
                                  (ca, MISNAMED_HOST, "whose certificate does not have its name"),
                                  (ca, KEPT_HOST, None)):
        peer = make(authority)
        own = folder / f"{peer.name}-{authority.parent.name}-{host}"
        try:
            peer.start(own, Setup())
            status = status_of(peer, host, "/1k")
        finally:
            peer.stop()
            shutil.rmtree(own, ignore_errors=True)
        if what and status < 500:
            hint = " (Debian's squid-openssl checks)" if peer.name == "squid" else ""
            raise BenchError(f"{peer.name} took an origin {what}: it verifies less than the others{hint}. "
                             "Leave it out with --peers")
        if not what and status != 200:
            raise BenchError(f"{peer.name} refuses the origin that it should accept: {status}")


# Requests by wrk.

def _load(peer: Peer, folder: Path, host: str, path: str, seconds: int) -> wrk.Load:
    load = wrk.drive(folder, peer.ports[host], host, peer.target(host, path), seconds)
    return _checked(peer, load, path)


def _checked(peer: Peer, load: wrk.Load, path: str) -> wrk.Load:
    peer.running.check_alive()
    if load.requests == 0 or load.errors or load.statusErrors:
        raise BenchError(f"{peer.name}: {load.requests} answers, {load.errors} failed connections, "
                         f"{load.statusErrors} error statuses for {path}")
    if load.bytes < load.requests * SIZES[path[1:]]:
        raise BenchError(f"{peer.name} delivered {load.bytes} bytes for {load.requests} × {path}: some are short")
    return load


def _requests(host: str, path: str, drive: Callable[..., wrk.Load] | None = None) -> Callable[..., Figures]:
    def by_wrk(peer: Peer, folder: Path, settings: Settings, seconds: int) -> wrk.Load:
        return wrk.drive(folder, peer.ports[host], host, peer.target(host, path), seconds)

    def measure(peer: Peer, folder: Path, settings: Settings) -> Figures:
        run = drive or by_wrk
        done = peer.logged_lines()
        expected = 0
        if settings.warmup:
            expected += _checked(peer, run(peer, folder, settings, settings.warmup), path).requests
        before = peer.running.cpu_seconds()
        load = _checked(peer, run(peer, folder, settings, settings.seconds), path)
        used = peer.running.cpu_seconds() - before
        figures = {
            "cpuMicrosecondsPerRequest": used / load.requests * 1e6,
            "requestsPerSecond": load.requests / load.seconds,
            "megabytesPerSecond": load.bytes / load.seconds / 1e6,
            "p50Milliseconds": load.p50,
            "p99Milliseconds": load.p99,
            "cpuShare": used / load.seconds,
            "rssAnonBytes": peer.running.rss_anon(),
        }
        _check_log(peer, done + expected + load.requests)
        return figures
    return measure


def _check_log(peer: Peer, requests: int) -> None:
    """Each peer has a line for each request: a log that loses lines is less work."""
    deadline = time.monotonic() + 5
    while (lines := peer.logged_lines()) < requests:
        if time.monotonic() > deadline:
            raise BenchError(f"{peer.name} has logged {lines} of {requests} requests")
        time.sleep(0.1)


# One large body to one fast reader.

class _Peak:
    """The highest `RssAnon` seen while it samples, 50 times a second."""

    def __init__(self, peer: Peer) -> None:
        self.highest = 0
        self._peer = peer
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.highest = max(self.highest, self._peer.running.rss_anon())
            if self._end.wait(0.02):
                return


def _request_bytes(peer: Peer, host: str, path: str, connection: str) -> bytes:
    return (f"GET {peer.target(host, path)} HTTP/1.1\r\nHost: {host}\r\n"
            f"Connection: {connection}\r\n\r\n").encode()


def _large_body(peer: Peer, folder: Path, settings: Settings) -> Figures:
    size = SIZES["1g"]
    idle = peer.running.rss_anon()
    before = peer.running.cpu_seconds()
    buffer = bytearray(1 << 20)
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", peer.ports[KEPT_HOST]), timeout=30) as client, _Peak(peer) as peak:
        client.sendall(_request_bytes(peer, KEPT_HOST, "/1g", "close"))
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(4096)
            if not part:
                raise BenchError(f"{peer.name} closed before the head of /1g was there")
            head += part
        received = len(head) - head.index(b"\r\n\r\n") - 4
        while received < size and time.monotonic() - start < 300:
            count = client.recv_into(buffer)
            if count == 0:
                break
            received += count
        seconds = time.monotonic() - start
    if received < size:
        raise BenchError(f"{peer.name} delivered {received} of {size} bytes of /1g in {seconds:.0f} s")
    used = peer.running.cpu_seconds() - before
    return {
        "seconds": seconds,
        "megabytesPerSecond": size / seconds / 1e6,
        "cpuSeconds": used,
        "rssAnonIdleBytes": idle,
        "rssAnonPeakBytes": peak.highest,
        "rssAnonGrowthBytes": peak.highest - idle,
    }


# Memory.

def _memory(peer: Peer, folder: Path, settings: Settings) -> Figures:
    fresh = peer.running.rss_anon()
    for path in ("/1k", "/100k"):
        _load(peer, folder, KEPT_HOST, path, min(settings.seconds, 3))
    loaded = peer.running.rss_anon()
    time.sleep(SETTLE_SECONDS)
    return {
        "rssAnonFreshBytes": fresh,
        "rssAnonLoadedBytes": loaded,
        "rssAnonIdleBytes": peer.running.rss_anon(),
    }


def many_clients(descriptors: int) -> int:
    """As many clients, up to 10,000, as the limit of open files allows: a proxy may need two descriptors for each, and
    keeps some for itself."""
    return min(MANY_CLIENTS, max(0, (descriptors - 2048) // 2) // 500 * 500)


def _idle_clients(peer: Peer, folder: Path, settings: Settings) -> Figures:
    if settings.many_clients <= FEW_CLIENTS:
        raise BenchError(f"the limit of open files (ulimit -Hn) is too low for {FEW_CLIENTS} clients: raise it, or leave "
                         "this workload out with --skip clients")
    _load(peer, folder, KEPT_HOST, "/1k", 1)
    time.sleep(SETTLE_SECONDS)
    empty = peer.running.rss_anon()
    figures: Figures = {"rssAnonWithoutClientsBytes": empty, "clients": settings.many_clients}
    request = _request_bytes(peer, KEPT_HOST, "/1k", "keep-alive")
    clients: list[socket.socket] = []
    deadline = time.monotonic() + 120
    try:
        for count, name in ((FEW_CLIENTS, "rssAnonFewClientsBytes"), (settings.many_clients, "rssAnonManyClientsBytes")):
            while len(clients) < count:
                if time.monotonic() > deadline:
                    raise BenchError(f"{peer.name} took {len(clients)} of {count} clients in 120 s")
                clients.append(_client_after_one_answer(peer, request))
            time.sleep(0.5)
            figures[name] = peer.running.rss_anon() - empty
        figures["bytesPerClient"] = figures["rssAnonManyClientsBytes"] / settings.many_clients
        poll = select.poll()
        for client in clients:
            poll.register(client, select.POLLIN)
        figures["clientsLost"] = len(poll.poll(0))
    finally:
        for client in clients:
            client.close()
    time.sleep(SETTLE_SECONDS)
    figures["rssAnonAfterCloseBytes"] = peer.running.rss_anon() - empty
    return figures


def _client_after_one_answer(peer: Peer, request: bytes) -> socket.socket:
    """A kept connection that has had one answer: what a pool in a program looks like to its proxy."""
    client = socket.create_connection(("127.0.0.1", peer.ports[KEPT_HOST]), timeout=15)
    try:
        client.sendall(request)
        answer = b""
        while True:
            end = answer.find(b"\r\n\r\n")
            if end >= 0 and len(answer) >= end + 4 + SIZES["1k"]:
                return client
            part = client.recv(8192)
            if not part:
                raise BenchError(f"{peer.name} closed a client's connection after {len(answer)} bytes: "
                                 f"{answer[:200]!r}")
            answer += part
    except BaseException as error:
        client.close()
        if isinstance(error, OSError):
            raise BenchError(f"{peer.name} did not answer one of many clients: {error}") from None
        raise


# Loads of other tools.

def _h2c(peer: Peer, folder: Path, settings: Settings, seconds: int) -> wrk.Load:
    return h2load.drive(peer.ports[KEPT_HOST], "/1k", seconds)


def _tunnels(peer: Peer, folder: Path, settings: Settings, seconds: int) -> wrk.Load:
    """CONNECT, a TLS handshake with the origin, one request, and the end, again and again."""
    request = f"GET /1k HTTP/1.1\r\nHost: {KEPT_HOST}\r\n\r\n".encode()
    trusted = context(peer)

    def one() -> None:
        connection = Connection(peer, KEPT_HOST)
        try:
            connection.connect(KEPT_HOST, trusted)
            connection.exchange(request)
        finally:
            connection.close()
    return threads.drive(lambda _: one, 4, seconds, SIZES["1k"])


def _intercepted(peer: Peer, folder: Path, settings: Settings, seconds: int) -> wrk.Load:
    """Requests in kept connections with the peer's own TLS."""
    def begin(stack: ExitStack) -> Callable[[], object]:
        return stack.enter_context(Keeper(peer, KEPT_HOST, "/1k")).ask
    return threads.drive(begin, 4, seconds, SIZES["1k"])


def _fixed_rate(peer: Peer, folder: Path, settings: Settings, seconds: int) -> wrk.Load:
    return fixed_rate.drive(peer, KEPT_HOST, "/1k", settings.rate, seconds)


_REQUEST_COLUMNS = (("cpuMicrosecondsPerRequest", "CPU µs/req"), ("requestsPerSecond", "req/s"),
                    ("p50Milliseconds", "p50 ms"), ("p99Milliseconds", "p99 ms"), ("cpuShare", "CPU %"),
                    ("rssAnonBytes", "RssAnon MB"))
_REQUEST_RATIOS = ("cpuMicrosecondsPerRequest", "requestsPerSecond")
_RATE_COLUMNS = (("p50Milliseconds", "p50 ms"), ("p99Milliseconds", "p99 ms"),
                 ("cpuMicrosecondsPerRequest", "CPU µs/req"), ("requestsPerSecond", "req/s"), ("cpuShare", "CPU %"))
_CPU_COLUMNS = (("cpuMicrosecondsPerRequest", "CPU µs/req"), ("requestsPerSecond", "req/s"), ("cpuShare", "CPU %"),
                ("rssAnonBytes", "RssAnon MB"))


def _row(name: str, title: str, host: str, path: str, setup: Setup = Setup(), **more: object) -> Workload:
    measure = _requests(host, path, more.pop("drive", None))
    return Workload(name, title, measure, host, more.pop("columns", _REQUEST_COLUMNS),
                    more.pop("ratios", _REQUEST_RATIOS), setup, **more)


WORKLOADS = {workload.name: workload for workload in (
    _row("1k", "1 KB, miss", KEPT_HOST, "/1k"),
    _row("100k", "100 KB, miss", KEPT_HOST, "/100k"),
    _row("1k-hit", "1 KB, cache hit (nginx on disk, the others in memory)", KEPT_HOST, "/1k", Setup(caches=True)),
    _row("100k-hit", "100 KB, cache hit (nginx on disk, the others in memory)", KEPT_HOST, "/100k",
         Setup(caches=True)),
    _row("2m-disk-hit", "2 MB, cache hit from the disk", KEPT_HOST, "/2m", Setup(caches=True, on_disk=True)),
    _row("tls", "1 KB, new TLS connection a request (P-256, full handshake)", CLOSING_HOST, "/1k"),
    Workload("1g", "1 GB body, one client", _large_body, KEPT_HOST,
             (("seconds", "seconds"), ("megabytesPerSecond", "MB/s"), ("cpuSeconds", "CPU s"),
              ("rssAnonIdleBytes", "idle MB"), ("rssAnonPeakBytes", "peak MB"), ("rssAnonGrowthBytes", "growth MB")),
             ("seconds", "cpuSeconds"), tools=()),
    Workload("memory", "private resident memory (RssAnon), idle after 1 KB and 100 KB load", _memory, KEPT_HOST,
             (("rssAnonFreshBytes", "fresh MB"), ("rssAnonLoadedBytes", "loaded MB"), ("rssAnonIdleBytes", "idle MB")),
             ("rssAnonIdleBytes",)),
    Workload("clients", "RssAnon more than idle, with {few:,} and {many:,} idle clients that have had one answer",
             _idle_clients, KEPT_HOST,
             (("rssAnonWithoutClientsBytes", "none MB"), ("rssAnonFewClientsBytes", "few +MB"),
              ("rssAnonManyClientsBytes", "many +MB"), ("bytesPerClient", "B/client"),
              ("rssAnonAfterCloseBytes", "closed +MB"), ("clientsLost", "lost")),
             ("rssAnonManyClientsBytes",)),
    _row("gateway", "1 KB, miss, gateway (origin form)", KEPT_HOST, "/1k", Setup(GATEWAY)),
    _row("h2-origin", "1 KB, miss, HTTP/2 to the origin", H2_HOST, "/1k", Setup(H2_ORIGIN)),
    _row("h2c", "1 KB, miss, HTTP/2 from clients (h2load, 8 connections of 4 streams)", KEPT_HOST, "/1k",
         Setup(H2C_CLIENTS), drive=_h2c, tools=("h2load",)),
    _row("connect", "CONNECT, TLS to the origin inside, one 1 KB request, close", KEPT_HOST, "/1k", Setup(TUNNEL),
         drive=_tunnels, columns=_CPU_COLUMNS, tools=()),
    _row("intercept", "1 KB, miss, in an intercepted CONNECT", KEPT_HOST, "/1k", Setup(INTERCEPT),
         drive=_intercepted, columns=_CPU_COLUMNS, tools=()),
    _row("rate", "1 KB, miss, {rate:,} requests a second, times from the intended start", KEPT_HOST, "/1k",
         drive=_fixed_rate, columns=_RATE_COLUMNS,
         ratios=("p50Milliseconds", "p99Milliseconds", "cpuMicrosecondsPerRequest"), tools=()),
)}
