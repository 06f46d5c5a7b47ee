# SPDX-License-Identifier: Apache-2.0
"""An origin whose responses follow from path and version, and a client that looks at every byte of them.

/cached/SIZE/N   for ten minutes, with a tag        /short/SIZE/N    for a second, then validated
/vary/SIZE/N     one for each Accept-Language       /slow/SIZE/N     as cached, and takes a while
/private/SIZE/N  for nobody else                    /plain/SIZE/N    stored nowhere
A POST makes the next version of its path.
"""
from __future__ import annotations

import asyncio
import functools
import hashlib
import random
import ssl
from collections import Counter

CONTROL = {"cached": "max-age=600", "slow": "max-age=600", "vary": "max-age=600", "short": "max-age=1",
           "private": "private, max-age=600", "plain": "no-store"}
TAGS = 4


def tag_of(path: str) -> str:
    return f"tag-{int(path.rsplit('/', 1)[1]) % TAGS}"


@functools.lru_cache(maxsize=512)
def body_of(path: str, version: int, language: str = "") -> bytes:
    seed = hashlib.sha256(f"{path} {version} {language}".encode()).digest()
    return random.Random(seed).randbytes(int(path.split("/")[2]))


class Origin:
    """In this process, so that the load knows each version at each moment."""

    def __init__(self) -> None:
        self.versions: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.connections: set[asyncio.StreamWriter] = set()
        self.server: asyncio.Server | None = None

    def version(self, path: str) -> int:
        return self.versions[path] + 1

    async def start(self, context: ssl.SSLContext, address: str = "127.0.0.1", port: int = 0) -> int:
        self.server = await asyncio.start_server(self._serve, address, port, ssl=context, backlog=1024)
        return self.server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self.server is not None:
            self.server.close()
        for writer in self.connections:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, fields = parse(head)
                if length := int(fields.get("content-length", "0")):
                    await reader.readexactly(length)
                kind = path.split("/")[1]
                self.requests[kind] += 1
                if kind == "slow":
                    await asyncio.sleep(0.05)
                if method == "POST":
                    self.versions[path] += 1
                    writer.write(f"HTTP/1.1 200 OK\r\nX-Version: {self.version(path)}\r\nContent-Length: 4\r\n\r\ndone".encode())
                else:
                    writer.write(self._response(method, path, kind, fields))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()

    def _response(self, method: str, path: str, kind: str, fields: dict[str, str]) -> bytes:
        version = self.version(path)
        language = fields.get("accept-language", "") if kind == "vary" else ""
        etag = f'"{path} {version} {language}"'
        lines = [f"ETag: {etag}", f"X-Version: {version}", f"Cache-Control: {CONTROL[kind]}", f"Surrogate-Key: {tag_of(path)}"]
        if kind == "vary":
            lines.append("Vary: Accept-Language")
        if etag in fields.get("if-none-match", ""):
            return ("\r\n".join(["HTTP/1.1 304 Not Modified", *lines]) + "\r\n\r\n").encode()
        body = body_of(path, version, language)
        lines = ["HTTP/1.1 200 OK", *lines, f"Content-Length: {len(body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if method == "HEAD" else body)


def parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    """The first line's first two words, and the fields by their names in small letters."""
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.lower()
        fields[name] = f"{fields[name]}, {value.strip()}" if name in fields else value.strip()
    return words[0], words[1], fields


class Client:
    """A kept connection to a proxy."""

    def __init__(self, port: int, host: str) -> None:
        self.port, self.host = port, host
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    def url(self, path: str) -> str:
        """How a request names its target."""
        return f"http://{self.host}{path}"

    async def ask(self, method: str, path: str, *lines: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        if self.writer is None:
            await self.connect()
        length = [f"Content-Length: {len(body)}"] if method == "POST" else []
        head = [f"{method} {self.url(path)} HTTP/1.1", f"Host: {self.host}", *lines, *length]
        try:
            self.writer.write(("\r\n".join(head) + "\r\n\r\n").encode() + body)
            _, status, fields = parse(await self.reader.readuntil(b"\r\n\r\n"))
            received = b""
            if fields.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readline(), 16):
                    received += await self.reader.readexactly(size)
                    await self.reader.readexactly(2)
                await self.reader.readexactly(2)
            elif method != "HEAD" and status not in ("204", "304"):
                received = await self.reader.readexactly(int(fields["content-length"]))
        except BaseException:
            self.close()
            raise
        if fields.get("connection", "").lower() == "close":
            self.close()
        return int(status), fields, received

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None
