"""The workloads: each measures one freshly started peer once and returns its figures."""
from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict

import wrk
from origin import CLOSING_HOST, KEPT_HOST, SIZES
from peers import Peer
from processes import BenchError, raise_descriptor_limit

Figures = Dict[str, float]
SETTLE_SECONDS = 2.0
IDLE_CLIENTS = (2_000, 10_000)


@dataclass
class Settings:
    seconds: int
    warmup: int


@dataclass
class Workload:
    name: str
    title: str
    measure: Callable[[Peer, Path, Settings], Figures]
    host: str
    clients: int
    """connections the peer is configured for"""
    columns: tuple[tuple[str, str], ...]
    """figure and heading, in the order of the table"""
    ratios: tuple[str, ...]
    """figures compared with nginx"""
    needs_wrk: bool = True
    caches: bool = False
    """whether the peers keep answers"""


# Before the measurement: does the peer do what the workload is about?

def check_peer(peer: Peer, host: str) -> str:
    """Asks the origin, through the peer, what connections it sees. Returns the TLS parameters agreed."""
    client = http.client.HTTPConnection("127.0.0.1", peer.ports[host], timeout=15)
    answers = []
    try:
        for _ in range(3):
            answers.append(_get(client, peer, host, "/probe").decode().split())
        body = _get(client, peer, host, "/1k")
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{peer.name} does not answer as it should: {error!r}") from None
    finally:
        client.close()
    if len(body) != SIZES["1k"]:
        raise BenchError(f"{peer.name} delivered {len(body)} bytes for /1k")
    kept = [int(answer[0]) > 1 for answer in answers[1:]]
    if host == KEPT_HOST and not all(kept):
        raise BenchError(f"{peer.name} does not keep its connections to the origin")
    if host == CLOSING_HOST and any(int(answer[0]) != 1 or answer[1] != "." for answer in answers):
        raise BenchError(f"{peer.name} did not make a full handshake for each request: {answers}")
    return " ".join(answers[0][2:])


def check_cache(peer: Peer, host: str) -> None:
    """The origin tells how many requests its connection has carried: the same number twice is an answer that was kept."""
    client = http.client.HTTPConnection("127.0.0.1", peer.ports[host], timeout=15)
    try:
        answers = {_get(client, peer, host, "/probe") for _ in range(3)}
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{peer.name} does not answer as it should: {error!r}") from None
    finally:
        client.close()
    if len(answers) != 1:
        raise BenchError(f"{peer.name} does not keep answers")


def verifies_origin(peer: Peer) -> bool:
    """Whether a peer that was given another CA than the origin's refuses the origin."""
    client = http.client.HTTPConnection("127.0.0.1", peer.ports[KEPT_HOST], timeout=15)
    try:
        _put(client, peer, KEPT_HOST, "/1k")
        return client.getresponse().status >= 500
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{peer.name} does not answer as it should: {error!r}") from None
    finally:
        client.close()


def _put(client: http.client.HTTPConnection, peer: Peer, host: str, path: str) -> None:
    client.putrequest("GET", peer.target(host, path), skip_host=True, skip_accept_encoding=True)
    client.putheader("Host", host)
    client.endheaders()


def _get(client: http.client.HTTPConnection, peer: Peer, host: str, path: str) -> bytes:
    _put(client, peer, host, path)
    response = client.getresponse()
    body = response.read()
    if response.status != 200:
        hints = [response.getheader(name) for name in ("Proxy-Status", "X-Squid-Error")]
        text = " ".join([hint for hint in hints if hint]) or body[:300].decode(errors="replace")
        raise BenchError(f"{peer.name} answered {response.status} for {path}: {text}. "
                         f"The end of its log:\n{peer.running.log_tail(5)}")
    return body


# Requests by wrk.

def _load(peer: Peer, folder: Path, host: str, path: str, seconds: int) -> wrk.Load:
    load = wrk.drive(folder, peer.ports[host], host, peer.target(host, path), seconds)
    peer.running.check_alive()
    if load.requests == 0 or load.errors or load.statusErrors:
        raise BenchError(f"{peer.name}: {load.requests} answers, {load.errors} failed connections, "
                         f"{load.statusErrors} error statuses for {path}")
    if load.bytes < load.requests * SIZES[path[1:]]:
        raise BenchError(f"{peer.name} delivered {load.bytes} bytes for {load.requests} × {path}: some are short")
    return load


def _requests(host: str, path: str) -> Callable[[Peer, Path, Settings], Figures]:
    def measure(peer: Peer, folder: Path, settings: Settings) -> Figures:
        if settings.warmup:
            _load(peer, folder, host, path, settings.warmup)
        before = peer.running.cpu_seconds()
        load = _load(peer, folder, host, path, settings.seconds)
        used = peer.running.cpu_seconds() - before
        return {
            "cpuMicrosecondsPerRequest": used / load.requests * 1e6,
            "requestsPerSecond": load.requests / load.seconds,
            "megabytesPerSecond": load.bytes / load.seconds / 1e6,
            "p50Milliseconds": load.p50,
            "p99Milliseconds": load.p99,
            "cpuShare": used / load.seconds,
            "rssAnonBytes": peer.running.rss_anon(),
        }
    return measure


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


def _idle_clients(peer: Peer, folder: Path, settings: Settings) -> Figures:
    needed = IDLE_CLIENTS[-1] + 1024
    if raise_descriptor_limit() < needed:
        raise BenchError(f"{IDLE_CLIENTS[-1]} clients need a limit of open files of {needed}: raise it "
                         f"(ulimit -Hn {2 * needed}) or leave this workload out with --skip clients")
    _load(peer, folder, KEPT_HOST, "/1k", 1)
    time.sleep(SETTLE_SECONDS)
    empty = peer.running.rss_anon()
    figures: Figures = {"rssAnonWithoutClientsBytes": empty}
    request = _request_bytes(peer, KEPT_HOST, "/1k", "keep-alive")
    clients: list[socket.socket] = []
    deadline = time.monotonic() + 120
    try:
        for count in IDLE_CLIENTS:
            while len(clients) < count:
                if time.monotonic() > deadline:
                    raise BenchError(f"{peer.name} took {len(clients)} of {count} clients in 120 s")
                clients.append(_client_after_one_answer(peer, request))
            time.sleep(0.5)
            figures[f"rssAnon{count}ClientsBytes"] = peer.running.rss_anon() - empty
        figures["bytesPerClient"] = figures[f"rssAnon{IDLE_CLIENTS[-1]}ClientsBytes"] / IDLE_CLIENTS[-1]
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


_REQUEST_COLUMNS = (("cpuMicrosecondsPerRequest", "CPU µs/req"), ("requestsPerSecond", "req/s"),
                    ("p50Milliseconds", "p50 ms"), ("p99Milliseconds", "p99 ms"), ("cpuShare", "CPU %"),
                    ("rssAnonBytes", "RssAnon MB"))
_REQUEST_RATIOS = ("cpuMicrosecondsPerRequest", "requestsPerSecond")

WORKLOADS = {workload.name: workload for workload in (
    Workload("1k", "1 KB, miss", _requests(KEPT_HOST, "/1k"), KEPT_HOST, 512, _REQUEST_COLUMNS, _REQUEST_RATIOS),
    Workload("100k", "100 KB, miss", _requests(KEPT_HOST, "/100k"), KEPT_HOST, 512, _REQUEST_COLUMNS,
             _REQUEST_RATIOS),
    Workload("1k-hit", "1 KB, cache hit", _requests(KEPT_HOST, "/1k"), KEPT_HOST, 512, _REQUEST_COLUMNS,
             _REQUEST_RATIOS, caches=True),
    Workload("100k-hit", "100 KB, cache hit", _requests(KEPT_HOST, "/100k"), KEPT_HOST, 512, _REQUEST_COLUMNS,
             _REQUEST_RATIOS, caches=True),
    Workload("tls", "1 KB, new TLS connection a request (P-256, full handshake)", _requests(CLOSING_HOST, "/1k"),
             CLOSING_HOST, 512, _REQUEST_COLUMNS, _REQUEST_RATIOS),
    Workload("1g", "1 GB body, one client", _large_body, KEPT_HOST, 512,
             (("seconds", "seconds"), ("megabytesPerSecond", "MB/s"), ("cpuSeconds", "CPU s"),
              ("rssAnonIdleBytes", "idle MB"), ("rssAnonPeakBytes", "peak MB"), ("rssAnonGrowthBytes", "growth MB")),
             ("seconds", "cpuSeconds"), needs_wrk=False),
    Workload("memory", "private resident memory (RssAnon), idle after 1 KB and 100 KB load", _memory, KEPT_HOST, 512,
             (("rssAnonFreshBytes", "fresh MB"), ("rssAnonLoadedBytes", "loaded MB"), ("rssAnonIdleBytes", "idle MB")),
             ("rssAnonIdleBytes",)),
    Workload("clients", "RssAnon more than idle, with idle clients that have had one answer", _idle_clients, KEPT_HOST,
             IDLE_CLIENTS[-1], (("rssAnonWithoutClientsBytes", "none MB"),
                                *((f"rssAnon{count}ClientsBytes", f"+{count:,} MB") for count in IDLE_CLIENTS),
                                ("bytesPerClient", "B/client"), ("rssAnonAfterCloseBytes", "+closed MB"),
                                ("clientsLost", "lost")),
             (f"rssAnon{IDLE_CLIENTS[-1]}ClientsBytes",)),
)}
