# SPDX-License-Identifier: Apache-2.0
"""An origin over TLS whose every answer can be known from its path: for the cache, for uploads and for other protocols.

/plain/N      no lifetime, not stored            /fresh/N      stored, fresh for a second, then validated
/private/N    stored for nobody else             /foreign/N    stored, and a validation gets a 304 with another tag
/upload/N     tells how much came, and its sum   /socket/N     101, then every byte comes back
Each waits a moment where the path ends with .slow, so that others wait for the same answer.
"""
from __future__ import annotations

import asyncio
import hashlib
import logging
import multiprocessing
import socket

SIZES = (0, 10, 1000, 30_000, 200_000)


def body_of(path: str) -> bytes:
    """By the path alone: no two paths have the same."""
    seed = hashlib.sha256(path.encode()).digest()
    size = SIZES[seed[0] % len(SIZES)] + seed[1]
    return (seed * (size // len(seed) + 1))[:size]


def upload_body(path: str, sent: bytes) -> bytes:
    return f"{path} {len(sent)} {hashlib.sha256(sent).hexdigest()}".encode()


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        while (await reader.readline()) not in (b"\r\n", b""):
            pass
        return body
    for line in lower.split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return await reader.readexactly(int(line.split(b":")[1]))
    return b""


def _answer(status: str, fields: list[str], body: bytes | None) -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields] + ([] if body is None else [f"Content-Length: {len(body)}"])
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
            sent = await _read_body(reader, head)
            kind = path.split("/")[1]
            if path.endswith(".slow"):
                await asyncio.sleep(0.02)
            is_validation = b"\r\nif-none-match:" in head.lower()
            if kind == "socket":
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
                break
            if kind == "upload":
                writer.write(_answer("200 OK", ["Cache-Control: no-store"], upload_body(path, sent)))
            elif kind == "fresh" and is_validation:
                writer.write(_answer("304 Not Modified", ['ETag: "a"', "Cache-Control: max-age=1"], None))
            elif kind == "foreign" and is_validation:
                writer.write(_answer("304 Not Modified", ['ETag: "of something else"', "Cache-Control: max-age=1"], None))
            else:
                fields = {"fresh": ['ETag: "a"', "Cache-Control: max-age=1, stale-while-revalidate=30"],
                          "foreign": ['ETag: "a"', "Cache-Control: max-age=0, stale-while-revalidate=30"],
                          "private": ["Cache-Control: private"]}.get(kind, [])
                writer.write(_answer("200 OK", fields, body_of(path)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, OSError):
        pass
    finally:
        writer.close()


def _run(listener: socket.socket, make_context, certificates) -> None:
    async def main() -> None:
        server = await asyncio.start_server(_serve, sock=listener, ssl=make_context(certificates), backlog=4096)
        async with server:
            await server.serve_forever()
    loop = asyncio.new_event_loop()
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
