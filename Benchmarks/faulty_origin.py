# SPDX-License-Identifier: Apache-2.0
"""An origin over TLS that does what the path says: answers well, or breaks off, stalls, lies, and sends garbage."""
from __future__ import annotations

import asyncio
import logging
import multiprocessing
import socket
import struct

LARGE = bytes(range(256)) * 800
# What a path of that name is answered with: 200 and a body that can be known, or a fault of the origin's.
GOOD = ("ok", "chunked", "large", "until-close", "last")
BAD = ("reset", "silent-close", "cut", "long", "short", "garbage", "lengths", "chunks", "fields", "folded", "stall", "stall-body")


def good_body(path: str, received: int) -> bytes:
    return LARGE if path.startswith("/large") else f"{path} {received}".encode()


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> int:
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        count = 0
        while size := int((await reader.readline()).split(b";")[0], 16):
            await reader.readexactly(size + 2)
            count += size
        while (await reader.readline()) not in (b"\r\n", b""):
            pass
        return count
    for line in lower.split(b"\r\n"):
        if line.startswith(b"content-length:"):
            count = int(line.split(b":")[1])
            await reader.readexactly(count)
            return count
    return 0


def _reset(writer: asyncio.StreamWriter) -> None:
    plain = writer.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _answer(path: str, method: str, received: int, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection goes on."""
    kind = path[1:].split("/")[0]
    body = good_body(path, received)
    length = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    if method == "HEAD":
        writer.write(length % len(body))
        return True
    if kind in ("ok", "large"):
        writer.write(length % len(body) + body)
        return True
    if kind == "chunked":
        middle = len(body) // 2
        for piece in (body[:middle], body[middle:]):
            chunked += b"%x\r\n%s\r\n" % (len(piece), piece)
        writer.write(chunked + b"0\r\nX-Sum: 1\r\n\r\n")
        return True
    if kind == "until-close":
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
    elif kind == "last":
        # Says nothing of it: the next request finds a dead connection.
        writer.write(length % len(body) + body)
    elif kind == "reset":
        _reset(writer)
    elif kind == "cut":
        writer.write(length % (len(body) * 2) + body)
    elif kind == "long":
        writer.write(length % len(body) + body + b"and more than was announced")
    elif kind == "short":
        writer.write(length % 1_000_000 + body)
    elif kind == "garbage":
        writer.write(bytes(range(1, 255)) * 20)
    elif kind == "lengths":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")
    elif kind == "folded":
        # The first field begins with a blank: there is none before it that it could go on with.
        writer.write(b"HTTP/1.1 200 OK\r\n X: %s\r\nContent-Length: %d\r\n\r\n%s" % (b"A" * 4000, len(body), body))
    elif kind == "chunks":
        writer.write(chunked + b"5\r\nhello\r\nzz\r\n")
    elif kind == "fields":
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(2000):
            if writer.is_closing():
                break
            writer.write(b"X-%d: %s\r\n" % (number, b"x" * 500))
            await writer.drain()
    elif kind.startswith("stall"):
        if kind == "stall-body":
            writer.write(length % (len(body) * 2) + body)
        await asyncio.sleep(30)
    return False


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
            received = await _read_body(reader, head)
            goes_on = await _answer(target, method, received, writer)
            await writer.drain()
            if not goes_on:
                break
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, OSError, ValueError):
        pass
    finally:
        writer.close()


def _run(listener: socket.socket, make_context, certificates) -> None:
    async def main() -> None:
        server = await asyncio.start_server(_serve, sock=listener, ssl=make_context(certificates), backlog=4096)
        async with server:
            await server.serve_forever()
    loop = asyncio.new_event_loop()
    # Connections that end amid a handshake or a write are what this is for.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(main())


def start(make_context, certificates) -> tuple[multiprocessing.Process, int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    process = multiprocessing.get_context("fork").Process(
        target=_run, args=(listener, make_context, certificates), daemon=True)
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    return process, port
