# SPDX-License-Identifier: Apache-2.0
"""The clients of the verifying load, over HTTP/1.1 and HTTP/2, and what they hold an answer to."""
from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import h2.exceptions

from verify_h2 import Http2Peer
from verify_origin import chunked, difference, planned, read_fields
from verify_plan import Fields, Plan

CONNECT_PATIENCE = 20
# What a proxy may add to an answer.
ADDED = {"via", "age", "date", "connection", "transfer-encoding", "content-length", "trailer", "cache-status",
         "accept-ranges"}


@dataclass
class Asked:
    """A request of an exchange: what the client may choose of it."""
    plan: Plan
    method: str
    range: tuple[int, int] | None = None
    takes_trailers: bool = False

    @classmethod
    def of(cls, plan: Plan, number: int) -> Asked:
        generator = random.Random(f"asked {number}")
        takes_trailers = bool(plan.answer_trailers or plan.sent_trailers)
        asked = cls(plan, plan.method, plan.range, takes_trailers)
        if plan.kind == "cached":
            asked.method = "HEAD" if generator.random() < 0.1 else "GET"
            count = len(plan.whole_answer())
            if asked.method == "GET" and count > 1 and generator.random() < 0.15:
                first = generator.randrange(count)
                asked.range = (first, generator.randrange(first, count))
        return asked

    def fields(self) -> Fields:
        fields = list(self.plan.fields)
        if self.range is not None:
            fields.append(("range", f"bytes={self.range[0]}-{self.range[1]}"))
        return fields


@dataclass
class Received:
    status: int = 0
    fields: Fields = field(default_factory=list)
    body: bytes = b""
    trailers: Fields = field(default_factory=list)
    # Nil when all of it has come as the protocol wants it.
    fault: str | None = None


def check(asked: Asked, received: Received) -> str | None:
    """What is wrong with an answer."""
    plan, body = asked.plan, asked.plan.whole_answer()
    known = dict(received.fields)
    if plan.fault is not None:
        if received.fault is None and received.status not in (502, 504):
            return f"a complete {received.status} with {len(received.body)} bytes for a fault of the origin's"
        if received.status == 200 and not body.startswith(received.body):
            return f"other bytes than the origin's, at {difference(received.body, body)}"
        return None
    if received.fault is not None:
        return f"{received.status}, {len(received.body)} of {len(body)} bytes: {received.fault}"
    status = plan.status
    if asked.range is not None and received.status == 206:
        first, last = asked.range
        status, body = 206, body[first:last + 1]
        if known.get("content-range") != f"bytes {first}-{last}/{len(plan.whole_answer())}":
            return f"Content-Range {known.get('content-range')} for {asked.range}"
    if received.status != status:
        return f"{received.status} for {status}: {received.fields} {received.body[:400]!r}"
    if planned(received.fields) != planned(plan.answer_fields):
        return f"fields {received.fields} for {plan.answer_fields}"
    expected = dict(plan.answer_fields) | ({"content-encoding": "gzip"} if plan.is_packed else {})
    for name, value in received.fields:
        if plan.kind != "file" and name not in ADDED and name not in expected and not (name == "content-range" and asked.range):
            return f"field {name}: {value}"
    for name, value in expected.items():
        if known.get(name) != value:
            return f"{name}: {known.get(name)} for {value}"
    if "content-length" in known and int(known["content-length"]) != len(body):
        return f"Content-Length {known['content-length']} for {len(body)}"
    if asked.method == "HEAD":
        body = b""
    if received.body != body:
        return f"{len(received.body)} bytes for {len(body)}, different at {difference(received.body, body)}"
    if received.trailers != (plan.answer_trailers if asked.method != "HEAD" else []):
        return f"trailers {received.trailers} for {plan.answer_trailers}"
    return None


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As long as a successor has not yet taken its predecessor's port, connections are refused."""
    deadline = asyncio.get_running_loop().time() + CONNECT_PATIENCE
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        except ConnectionError:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.02)


class Http1Client:
    name = "HTTP/1.1"

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def exchange(self, asked: Asked) -> Received:
        if self.writer is None:
            self.reader, self.writer = await connect(self.port)
        received = Received()
        try:
            plan = asked.plan
            fields = [("Host", plan.host), *asked.fields()]
            body = plan.sent()
            if plan.has_sent_body:
                fields.append(("Transfer-Encoding", "chunked") if plan.is_chunked else ("Content-Length", str(len(body))))
                if plan.is_chunked:
                    body = chunked(body, plan.sent_trailers)
            if asked.takes_trailers:
                fields += [("TE", "trailers"), ("Connection", "TE")]
            head = f"{asked.method} http://{plan.host}{plan.path} HTTP/1.1\r\n"
            self.writer.write((head + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n").encode() + body)
            await self._receive(asked, received)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            received.fault = f"{type(error).__name__}: {error}"
        if received.fault is not None or dict(received.fields).get("connection", "").lower() == "close":
            self.close()
        return received

    async def _receive(self, asked: Asked, received: Received) -> None:
        while True:
            line = await self.reader.readuntil(b"\r\n")
            received.status = int(line.split(b" ", 2)[1])
            received.fields = await read_fields(self.reader)
            if received.status >= 200:
                break
        known = dict(received.fields)
        if asked.method == "HEAD" or received.status in (204, 304):
            return
        if known.get("transfer-encoding") == "chunked":
            body = bytearray()
            try:
                while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                    body += await self.reader.readexactly(size)
                    if await self.reader.readexactly(2) != b"\r\n":
                        raise ValueError("no line ends the chunk")
                received.trailers = await read_fields(self.reader)
            finally:
                received.body = bytes(body)
        elif "content-length" in known:
            try:
                received.body = await self.reader.readexactly(int(known["content-length"]))
            except asyncio.IncompleteReadError as error:
                received.body = error.partial
                raise
        else:
            received.body = await self.reader.read(-1)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


class Http2Client:
    """One connection that several ask on at a time."""
    name = "HTTP/2"

    def __init__(self, port: int) -> None:
        self.port = port
        self.peer: Http2Peer | None = None
        self.opening = asyncio.Lock()
        self.tasks: set[asyncio.Task] = set()
        self.refused = 0

    async def _open(self) -> Http2Peer:
        async with self.opening:
            if self.peer is None or self.peer.is_leaving:
                self.peer = Http2Peer(*await connect(self.port), is_client=True)
                task = asyncio.ensure_future(self.peer.run())
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            return self.peer

    async def exchange(self, asked: Asked) -> Received:
        for _ in range(10):
            received = await self._once(await self._open(), asked)
            # Nobody has looked at it: it may be sent again (RFC 9113, section 8.7).
            if received.fault != "refused":
                break
            self.refused += 1
        return received

    async def _once(self, peer: Http2Peer, asked: Asked) -> Received:
        plan, body = asked.plan, asked.plan.sent()
        fields = [(":method", asked.method), (":scheme", "http"), (":authority", plan.host), (":path", plan.path),
                  *asked.fields()]
        if plan.has_sent_body and not plan.is_chunked:
            fields.append(("content-length", str(len(body))))
        if asked.takes_trailers:
            fields.append(("te", "trailers"))
        has_rest = bool(body or plan.sent_trailers)
        try:
            stream = peer.begin(fields, ends=not has_rest)
        except h2.exceptions.ProtocolError:
            return Received(fault="refused")
        try:
            if has_rest:
                await peer.send_body(stream, body, plan.sent_trailers)
            await stream.is_over.wait()
        except (h2.exceptions.ProtocolError, ConnectionError) as error:
            stream.end(f"{type(error).__name__}: {error}")
        peer.forget(stream)
        head = dict(stream.fields)
        # An answer that was whole before the reset is whole.
        fault = None if stream.has_ended else stream.fault
        return Received(int(head.get(":status", "0")), [item for item in stream.fields if not item[0].startswith(":")],
                        bytes(stream.body), stream.trailers, fault)

    def close(self) -> None:
        if self.peer is not None:
            self.peer.close()
        self.peer = None
