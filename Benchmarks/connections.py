# SPDX-License-Identifier: Apache-2.0
"""A thousand connections at a time: no error, and none of them starves.

h2load (HTTP/1.1, and HTTP/2 where the listener takes it) and wrk ask through a gateway; then a client of our own, which
knows how many answers each single connection has had and how long the slowest took.
"""
from __future__ import annotations

import argparse
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import time

from origin import KEPT_HOST
from pinned import pinned_proxy
from processes import BenchError, progress, raise_descriptor_limit


def run(command: list[str], seconds: float = 300) -> str:
    progress("$ " + " ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed:\n{done.stderr}{done.stdout}")
    return done.stdout


def h2load(url: str, connections: int, requests: int, streams: int) -> str:
    # Over HTTP/1.1 one request at a time on a connection, over HTTP/2 several.
    version = ["--h1"] if streams == 1 else ["-m", str(streams)]
    output = run(["h2load", *version, "-t", "2", "-c", str(connections), "-n", str(requests), url])
    found = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", output)
    if not found or int(found[1]) != requests:
        raise BenchError(f"h2load has lost requests:\n{output}")
    codes = re.search(r"status codes: (\d+) 2xx", output)
    if not codes or int(codes[1]) != requests:
        raise BenchError(f"h2load has had other answers than 2xx:\n{output}")
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", output)
    slowest = re.search(r"time for request:\s+\S+\s+(\S+)", output)
    return f"{float(rate[1]):,.0f} requests/s, the slowest answer after {slowest[1]}"


def wrk(url: str, connections: int, seconds: int) -> str:
    output = run(["wrk", "-t", "2", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s", "--latency", url])
    if "Socket errors" in output or "Non-2xx" in output:
        raise BenchError(f"wrk has seen errors:\n{output}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    slowest = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)", output)
    return f"{float(rate[1]):,.0f} requests/s, the slowest answer after {slowest[1]}"


class Fair:
    """One connection of many; each asks again as soon as it is answered."""

    request = b"GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.answers = 0
        self.slowest = 0.0
        self.rest = 0
        self.buffer = b""

    def ask(self) -> None:
        self.asked = time.monotonic()
        self.socket.send(self.request)

    def receive(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise BenchError("a connection was closed")
        if self.rest == 0:
            self.buffer += data
            head, found, body = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                raise BenchError(f"an answer was {head[:100]!r}")
            self.rest = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(body)
            self.buffer = b""
        else:
            self.rest -= len(data)
        if self.rest == 0:
            self.answers += 1
            self.slowest = max(self.slowest, time.monotonic() - self.asked)
            self.ask()


def fairness(port: int, connections: int, seconds: int) -> str:
    selector = selectors.EpollSelector()
    clients = [Fair(port) for _ in range(connections)]
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.ask()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(0.1):
            key.data.receive()
    now = time.monotonic()
    counts = [client.answers for client in clients]
    slowest = max(max(client.slowest, now - client.asked) for client in clients)
    for client in clients:
        client.socket.close()
    mean = statistics.mean(counts)
    if min(counts) < mean / 4:
        raise BenchError(f"a connection has had {min(counts)} answers, where the mean is {mean:.0f}")
    if slowest > 5:
        raise BenchError(f"an answer took {slowest:.1f} s")
    return f"{min(counts)} to {max(counts)} answers a connection, the slowest after {slowest * 1000:.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seconds", type=int, default=10)
    wanted = parser.parse_args()
    for program in ("nginx", "h2load", "wrk"):
        if not shutil.which(program):
            raise BenchError(f"{program} is missing: apt-get install {'nghttp2-client' if program == 'h2load' else program}")
    raise_descriptor_limit()
    listener = {"address": "127.0.0.1:0", "mode": "gateway", "upstream": f"https://{KEPT_HOST}", "http2": True}
    with pinned_proxy(wanted.binary, {"listeners": [listener]}) as proxy:
        port = proxy.ports[0]
        url = f"http://127.0.0.1:{port}/1k"
        count = wanted.connections
        print(f"h2load, HTTP/1.1, {count} connections: {h2load(url, count, wanted.requests, 1)}")
        print(f"h2load, HTTP/2, 100 connections of 10 streams: {h2load(url, 100, wanted.requests, 10)}")
        print(f"wrk, {count} connections: {wrk(url, count, wanted.seconds)}")
        print(f"fairness, {count} connections: {fairness(port, count, wanted.seconds)}")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"connections: {error}")
