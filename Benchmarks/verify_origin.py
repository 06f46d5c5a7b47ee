# SPDX-License-Identifier: Apache-2.0
"""The origins of the verifying load: of HTTP/1.1, of HTTP/2, and one that breaks off. Each looks at every byte of a request.

What is not as planned goes as a line into a file, and to the client as 599.
"""
from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

from verify_h2 import Http2Peer
from verify_plan import Fields, Plan, plan_of

# What a proxy may add to a request, or say in its own way.
ADDED = {"host", "via", "content-length", "transfer-encoding", "te", "trailer", "connection", "range", "if-none-match",
         "if-modified-since", "accept-encoding", "user-agent", "accept", "forwarded", "x-forwarded-for", "expect"}
PIECE = 16_000


class Differences:
    def __init__(self, file: Path) -> None:
        self.file = file

    def note(self, text: str) -> None:
        with open(self.file, "a") as lines:
            lines.write(text[:2000].replace("\n", " ") + "\n")


def planned(fields: Fields) -> Fields:
    return [(name, value) for name, value in fields if name.startswith("x-ask") or name.startswith("x-say")]


def fault_of_request(plan: Plan, method: str, authority: str, fields: Fields, body: bytes, trailers: Fields) -> str | None:
    """What is not as planned."""
    if plan.kind != "cached" and method != plan.method or plan.kind == "cached" and method not in ("GET", "HEAD"):
        return f"method {method}"
    if authority != plan.host:
        return f"authority {authority}"
    if plan.kind != "cached" and planned(fields) != plan.fields:
        return f"fields {fields} for {plan.fields}"
    for name, _ in fields:
        # The rest of a stored part is asked for with its entity tag (RFC 9110, section 13.1.5).
        completes = name == "if-range" and plan.kind == "cached" and "range" in dict(fields)
        if name not in ADDED and not name.startswith("x-ask") and not completes:
            return f"field {name}"
    sent = plan.sent()
    if body != sent:
        return f"body of {len(body)} bytes for {len(sent)}, different at {difference(body, sent)}"
    if trailers != plan.sent_trailers:
        return f"trailers {trailers} for {plan.sent_trailers}"
    return None


def difference(one: bytes, other: bytes) -> int:
    for index, (left, right) in enumerate(zip(one, other)):
        if left != right:
            return index
    return min(len(one), len(other))


class Answer:
    """What a request is answered with, whatever the version."""

    def __init__(self, plan: Plan, fields: Fields) -> None:
        known = dict(fields)
        self.status, self.fields = plan.status, list(plan.answer_fields)
        self.body = plan.whole_answer()
        self.is_chunked, self.trailers = plan.answer_is_chunked, plan.answer_trailers
        if plan.is_packed:
            self.fields.append(("content-encoding", "gzip"))
        if plan.range is not None:
            self.body = self.body[plan.range[0]:plan.range[1] + 1]
        if plan.kind == "cached":
            if known.get("if-none-match") == plan.entity_tag():
                self.status, self.body, self.is_chunked = 304, b"", False
            elif "range" in known and self.body and known.get("if-range", plan.entity_tag()) == plan.entity_tag():
                first, last = (int(part) for part in known["range"].removeprefix("bytes=").split("-"))
                last = min(last, len(self.body) - 1)
                if first <= last:
                    self.status = 206
                    self.fields.append(("content-range", f"bytes {first}-{last}/{len(self.body)}"))
                    self.body, self.is_chunked = self.body[first:last + 1], False


def wrong(text: str) -> Answer:
    answer = Answer(plan_of("/plain/0"), [])
    answer.status, answer.fields, answer.body = 599, [("x-wrong", text.encode("ascii", "replace").decode()[:500])], b""
    answer.is_chunked, answer.trailers = False, []
    return answer


# HTTP/1.1

async def read_body(reader: asyncio.StreamReader, fields: Fields) -> tuple[bytes, Fields]:
    known = dict(fields)
    if known.get("transfer-encoding") == "chunked":
        body = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await reader.readexactly(size)
            if await reader.readexactly(2) != b"\r\n":
                raise ValueError("no line ends the chunk")
        return bytes(body), await read_fields(reader)
    return await reader.readexactly(int(known.get("content-length", "0"))), []


async def read_fields(reader: asyncio.StreamReader) -> Fields:
    fields = []
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, value = line[:-2].split(b":", 1)
        fields.append((name.decode().lower(), value.strip().decode("latin-1")))
    return fields


def chunked(body: bytes, trailers: Fields, pieces: int = 3) -> bytes:
    text = bytearray()
    step = max(1, len(body) // pieces)
    for start in range(0, len(body), step):
        piece = body[start:start + step]
        text += b"%x\r\n" % len(piece) + piece + b"\r\n"
    text += b"0\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in trailers) + b"\r\n"
    return bytes(text)


def _head(status: int, fields: Fields) -> bytes:
    return ("\r\n".join([f"HTTP/1.1 {status} Planned", *(f"{name}: {value}" for name, value in fields)]) + "\r\n\r\n").encode()


async def _fail(plan: Plan, writer: asyncio.StreamWriter) -> None:
    body, half = plan.whole_answer(), plan.size // 2
    length = [("content-length", str(len(body)))]
    fault = plan.fault
    if fault == "cut":
        writer.write(_head(200, plan.answer_fields + length) + body[:half])
    elif fault == "cut-chunks":
        writer.write(_head(200, plan.answer_fields + [("transfer-encoding", "chunked")]) + chunked(body, [])[:half])
    elif fault == "bad-chunks":
        writer.write(_head(200, plan.answer_fields + [("transfer-encoding", "chunked")]) + b"5\r\n" + body[:5] + b"\r\nzz\r\n" + body)
    elif fault == "half-head":
        writer.write(_head(200, plan.answer_fields)[:-6])
    elif fault == "two-lengths":
        writer.write(_head(200, length + [("content-length", str(half))]) + body)
    elif fault == "garbage":
        writer.write(body)
    elif fault in ("reset", "reset-early"):
        if fault == "reset":
            writer.write(_head(200, plan.answer_fields + length) + body[:half])
            await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, differences: Differences) -> None:
    try:
        while line := await reader.readline():
            method, path, _ = line.decode().split(" ")
            fields = await read_fields(reader)
            if ("expect", "100-continue") in fields:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body, trailers = await read_body(reader, fields)
            plan = plan_of(path)
            fault = fault_of_request(plan, method, dict(fields).get("host", ""), fields, body, trailers)
            if fault is not None:
                differences.note(f"the origin, {method} {path}: {fault}")
            if plan.fault is not None and fault is None:
                await _fail(plan, writer)
                await writer.drain()
                break
            answer = Answer(plan, fields) if fault is None else wrong(fault)
            said = list(answer.fields)
            if answer.status != 304:
                said.append(("transfer-encoding", "chunked") if answer.is_chunked
                            else ("content-length", str(len(answer.body))))
            writer.write(_head(answer.status, said))
            if method != "HEAD" and answer.status != 304:
                writer.write(chunked(answer.body, answer.trailers) if answer.is_chunked else answer.body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, OSError):
        pass
    except ValueError as error:
        differences.note(f"the origin was sent what is no HTTP/1.1: {error}")
    finally:
        writer.close()


# HTTP/2

async def _serve2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, differences: Differences) -> None:
    async def answer(peer: Http2Peer, stream) -> None:
        head = dict(stream.fields)
        fields = [(name, value) for name, value in stream.fields if not name.startswith(":")]
        method, path = head[":method"], head[":path"]
        plan = plan_of(path)
        fault = fault_of_request(plan, method, head[":authority"], fields, bytes(stream.body), stream.trailers)
        if fault is not None:
            differences.note(f"the origin of HTTP/2, {method} {path}: {fault}")
        if plan.fault is not None and fault is None:
            return await fail(peer, stream, plan)
        answer = Answer(plan, fields) if fault is None else wrong(fault)
        said = [(":status", str(answer.status)), *answer.fields]
        if not answer.is_chunked and answer.status != 304:
            said.append(("content-length", str(len(answer.body))))
        if method == "HEAD" or answer.status == 304:
            return peer.send_head(stream, said, ends=True)
        has_rest = bool(answer.body or answer.trailers)
        peer.send_head(stream, said, ends=not has_rest)
        if has_rest:
            await peer.send_body(stream, answer.body, answer.trailers)

    async def fail(peer: Http2Peer, stream, plan: Plan) -> None:
        body = plan.whole_answer()
        kind = plan.fault.removeprefix("h2-")
        if kind == "reset-early":
            return peer.reset(stream, 2)
        said = [(":status", "200"), *plan.answer_fields]
        if kind == "longer":
            said.append(("content-length", str(len(body) * 2)))
        elif kind == "shorter":
            said.append(("content-length", str(len(body) // 2)))
        peer.send_head(stream, said, ends=False)
        if kind in ("longer", "shorter"):
            return await peer.send_body(stream, body, [])
        await peer.send_body(stream, body[:len(body) // 2], [], ends=False)
        peer.reset(stream, 2 if kind == "reset-stream" else 0)

    await Http2Peer(reader, writer, is_client=False, on_request=answer, differences=differences.note).run()


def _run(listener: socket.socket, context: ssl.SSLContext, serve: Callable, file: Path) -> None:
    differences = Differences(file)

    async def main() -> None:
        server = await asyncio.start_server(lambda reader, writer: serve(reader, writer, differences), sock=listener,
                                            ssl=context, backlog=4096, limit=1 << 20)
        async with server:
            await server.serve_forever()
    loop = asyncio.new_event_loop()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(main())


def start(context: ssl.SSLContext, is_http2: bool, file: Path) -> tuple[multiprocessing.Process, int]:
    if is_http2:
        context.set_alpn_protocols(["h2"])
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    process = multiprocessing.get_context("fork").Process(
        target=_run, args=(listener, context, _serve2 if is_http2 else _serve, file), daemon=True)
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    return process, port
