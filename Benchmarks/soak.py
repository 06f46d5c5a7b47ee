# SPDX-License-Identifier: Apache-2.0
"""Thousands of requests of every kind through one pinproxy, good ones and faults of both sides, and what is left then.

Holds: every request that wants an answer has one in time, and the right one; afterwards no descriptor is left, and no
more memory is held than after the first tenth.
"""
from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import faulty_origin
import kernel_log
from origin import Certificates
from pinned import HOST, PinnedProxy, server_context
from processes import BenchError, progress, raise_descriptor_limit

# An answer that comes later than that breaks a promise: the longest limit of the proxy below is 5 seconds.
PATIENCE = 20
TIMEOUTS = {"connect": "5s", "head": "2s", "firstByte": "4s", "stall": "4s", "idle": "2s"}
MEMORY_ALLOWANCE = 8 << 20
DESCRIPTOR_ALLOWANCE = 4


class Wrong(Exception):
    """What the proxy should not have done."""


# What the clients do, and how often in a thousand: faults of the origin, of the client, and neither.
GOOD_KINDS = {"good": 80, "upload": 16, "pipeline": 4}
BAD_KINDS = {"bad origin": 476, "slow origin": 6, "bad request": 200, "goes away": 318}


def kinds(faults: float) -> dict[str, float]:
    """With so many faulty exchanges in one."""
    def part(of: dict[str, int], share: float) -> dict[str, float]:
        return {kind: share * count / sum(of.values()) for kind, count in of.items()}
    return part(GOOD_KINDS, 1 - faults) | part(BAD_KINDS, faults)


class Client:
    """One connection after another; a seed decides what it asks for and how it misbehaves."""

    def __init__(self, port: int, seed: int, tally: Counter, faults: float) -> None:
        self.kinds = kinds(faults)
        self.port = port
        self.random = random.Random(seed)
        self.tally = tally
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    def drop(self, reset: bool = False) -> None:
        if self.writer is None:
            return
        if reset:
            plain = self.writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        else:
            self.writer.close()
        self.writer = None

    async def step(self, number: int) -> None:
        kind = self.random.choices(list(self.kinds), list(self.kinds.values()))[0]
        self.tally[kind] += 1
        await self.connect()
        try:
            await getattr(self, kind.replace(" ", "_"))(number)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            # A connection may end between two requests; only that.
            self.drop()
            if kind in ("good", "pipeline") and not isinstance(error, ConnectionError):
                raise Wrong(f"{kind}: the connection ended amid an answer") from error

    def request(self, method: str, path: str, *fields: str) -> bytes:
        lines = [f"{method} http://{HOST}{path} HTTP/1.1", f"Host: {HOST}", *fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def answer(self, method: str = "GET") -> tuple[int, bytes, bool]:
        """Status, body, and whether it is whole."""
        while True:
            head = await self.reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            if status >= 200:
                break
        lower = head.lower()
        ends = b"connection: close" in lower
        body, whole = b"", True
        try:
            if method == "HEAD" or status in (204, 304):
                pass
            elif b"transfer-encoding: chunked" in lower:
                while size := int(await self.reader.readline() or b"x", 16):
                    body += await self.reader.readexactly(size)
                    await self.reader.readexactly(2)
                while (line := await self.reader.readline()) != b"\r\n":
                    if not line:
                        raise ValueError
            else:
                length = next(int(line[15:]) for line in lower.split(b"\r\n") if line.startswith(b"content-length:"))
                body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ValueError, ConnectionError):
            whole = False
        if ends or not whole:
            self.drop()
        return status, body, whole

    async def good(self, number: int) -> None:
        path = f"/{self.random.choice(faulty_origin.GOOD)}/{number}"
        method = self.random.choice(("GET", "GET", "GET", "HEAD"))
        self.writer.write(self.request(method, path))
        status, body, whole = await self.answer(method)
        expected = b"" if method == "HEAD" else faulty_origin.good_body(path, 0)
        if status != 200 or not whole or body != expected:
            raise Wrong(f"{method} {path}: {status}, {len(body)} bytes, whole: {whole}: {body[:300]!r}")

    async def upload(self, number: int) -> None:
        path, size = f"/ok/{number}", self.random.choice((1, 1000, 100_000))
        if self.random.random() < 0.5:
            self.writer.write(self.request("PUT", path, f"Content-Length: {size}") + b"b" * size)
        else:
            self.writer.write(self.request("PUT", path, "Transfer-Encoding: chunked")
                              + b"%x\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (size, b"b" * size))
        status, body, whole = await self.answer("PUT")
        # Its kept connection may have turned out dead: a PUT whose body has gone is not sent again.
        if status == 502 and b"response_truncated" in body:
            return
        if status != 200 or not whole or body != faulty_origin.good_body(path, size):
            raise Wrong(f"PUT {path}: {status}, whole: {whole}: {body[:300]!r}")

    async def bad_origin(self, number: int) -> None:
        kind = self.random.choice([kind for kind in faulty_origin.BAD if not kind.startswith("stall")])
        await self._fault(f"/{kind}/{number}", (502,))

    async def slow_origin(self, number: int) -> None:
        await self._fault(f"/{self.random.choice(('stall', 'stall-body'))}/{number}", (504,))

    async def _fault(self, path: str, statuses: tuple[int, ...]) -> None:
        self.writer.write(self.request("GET", path))
        status, body, whole = await self.answer()
        # Bytes behind the announced length end the connection, not the answer that was whole before them.
        if path.startswith("/long/") and status == 200 and whole and body == faulty_origin.good_body(path, 0):
            return
        # An answer that is not whole tells so by the end of its connection; a whole one has to say what was wrong.
        if whole and (status not in statuses or b'"error":"' not in body):
            raise Wrong(f"GET {path}: {status}: {body[:300]!r}")

    async def bad_request(self, number: int) -> None:
        text = self.random.choice((
            b"GET  http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http://%s/ HTTP/1.1\r\nHost: %s\r\nHost: other\r\n\r\n",
            b"POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"GET http://%s/ HTTP/1.1\r\nHost: %s\r\nX : 1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PUT http://%s/ok/bad HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        )).replace(b"%s", HOST.encode())
        self.writer.write(text)
        if text.startswith(b"\x16"):
            # No line has ended: the limit for heads ends it, or a client that gives up.
            return self.drop()
        status, body, _ = await self.answer("PUT")
        if status != 400:
            raise Wrong(f"{text[:60]!r}: {status}: {body[:300]!r}")
        self.drop()

    async def goes_away(self, number: int) -> None:
        request = self.request("GET", f"/{self.random.choice(('large', 'ok', 'chunked'))}/{number}")
        if self.random.random() < 0.3:
            request = self.request("PUT", f"/ok/{number}", "Content-Length: 100000") + b"b" * 1000
        self.writer.write(request[:self.random.randint(0, len(request))] if self.random.random() < 0.5 else request)
        if self.random.random() < 0.5:
            await asyncio.sleep(self.random.random() * 0.02)
        if self.random.random() < 0.3 and request.startswith(b"GET"):
            try:
                await asyncio.wait_for(self.reader.read(1000), 0.05)
            except asyncio.TimeoutError:
                pass
        self.drop(reset=self.random.random() < 0.7)

    async def pipeline(self, number: int) -> None:
        paths = [f"/ok/{number}.{place}" for place in range(5)]
        self.writer.write(b"".join(self.request("GET", path) for path in paths))
        for path in paths:
            status, body, whole = await self.answer()
            if status != 200 or not whole or body != faulty_origin.good_body(path, 0):
                raise Wrong(f"pipelined {path}: {status}: {body[:300]!r}")
            if self.writer is None:
                raise Wrong(f"the connection closed after {path}")


async def load(port: int, first: int, last: int, wanted, tally: Counter, started: float) -> None:
    numbers = iter(range(first, last))

    async def work(seed: int) -> None:
        client = Client(port, seed, tally, wanted.faults)
        for number in numbers:
            try:
                await asyncio.wait_for(client.step(number), PATIENCE)
            except asyncio.TimeoutError:
                raise Wrong(f"request {number} has had no answer for {PATIENCE} s") from None
            if number % 10_000 == 9_999:
                progress(f"{number + 1:>8} requests, {(number + 1) / (time.monotonic() - started):,.0f} a second")
        client.drop()

    workers = [asyncio.ensure_future(work(first * 1000 + seed)) for seed in range(wanted.width)]
    done, pending = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    for task in pending:
        task.cancel()
    for task in done:
        task.result()


def settle(proxy: PinnedProxy, reloads: int) -> tuple[int, int]:
    """Idle connections to origins go with a reload, those of clients with timeouts.idle; then what is left."""
    proxy.configuration["comment"] = f"reload {reloads}"
    proxy.write()
    proxy.server.process.send_signal(signal.SIGHUP)
    proxy.wait_for_event("reloaded", reloads)
    time.sleep(5)
    return proxy.descriptors(), proxy.server.rss_anon()


def round_of_load(wanted, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificates = Certificates(folder / "certificates")
        origin, origin_port = faulty_origin.start(server_context, certificates)
        proxy = PinnedProxy(wanted.binary, folder, certificates, origin_port, timeouts=TIMEOUTS)
        kernel = kernel_log.Watch(proxy.pid)
        tally: Counter = Counter()
        try:
            start = proxy.descriptors()
            began = time.monotonic()
            first, last = seed, seed + wanted.requests
            tenth = first + max(1, wanted.requests // 10)
            asyncio.run(load(proxy.ports[0], first, tenth, wanted, tally, began))
            descriptors, memory = settle(proxy, 1)
            progress(f"after {tenth - first} requests: {descriptors} descriptors ({start} at the start), {memory >> 10} KB")
            asyncio.run(load(proxy.ports[0], tenth, last, wanted, tally, began))
            last_descriptors, last_memory = settle(proxy, 2)
            seconds = time.monotonic() - began
        except Wrong as wrong:
            code = proxy.server.process.poll()
            end = "" if code is None else f"\npinproxy ended with {code}:\n{proxy.server.log_tail(10)}"
            raise BenchError(f"{wrong}{end}") from None
        finally:
            proxy.server.stop()
            origin.terminate()
        faulty = sum(count for kind, count in tally.items() if kind in BAD_KINDS)
        print(f"{wanted.requests} requests in {seconds:.0f} s, {faulty} of them faulty: {dict(tally)}")
        print(f"descriptors: {start} at the start, {last_descriptors} at the end")
        print(f"memory: {memory >> 10} KB after the first tenth, {last_memory >> 10} KB at the end")
        kernel.check()
        if proxy.server.process.returncode != 0:
            raise BenchError(f"pinproxy ended with {proxy.server.process.returncode}:\n{proxy.server.log_tail(10)}")
        if last_descriptors > start + DESCRIPTOR_ALLOWANCE:
            raise BenchError(f"{last_descriptors - start} descriptors are left")
        if last_memory > memory + MEMORY_ALLOWANCE:
            raise BenchError(f"memory grew by {(last_memory - memory) >> 10} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1, help="times, each with a proxy of its own and other seeds")
    parser.add_argument("--faults", type=float, default=0.25, help="so many of the exchanges are faulty on either side")
    parser.add_argument("--width", type=int, default=64, help="clients at a time")
    wanted = parser.parse_args()
    raise_descriptor_limit()
    # Of writes to connections that are gone.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    for place in range(wanted.rounds):
        round_of_load(wanted, place * wanted.requests)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"soak: {error}")
