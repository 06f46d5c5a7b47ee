# SPDX-License-Identifier: Apache-2.0
"""The least of an HTTP/2 client that a load needs: cleartext with prior knowledge, many streams at a time (RFC 9113).

It keeps the other side's HPACK table empty and reads no field but :status, of which it knows 200 alone.
"""
from __future__ import annotations

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
LARGE_WINDOW = (1 << 31) - 1


class Ended(Exception):
    """The connection ended while streams were open."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _literal(text: bytes) -> bytes:
    assert len(text) < 127
    return bytes((len(text),)) + text


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.next_stream = 1
        self.leaves = False
        # HEADER_TABLE_SIZE 0, INITIAL_WINDOW_SIZE.
        settings = struct.pack(">HIHI", 1, 0, 4, LARGE_WINDOW)
        writer.write(PREFACE + frame(SETTINGS, 0, 0, settings)
                     + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGE_WINDOW - 65535)))

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def exchange(self, requests: list[tuple[str, str, bytes]], authority: str) -> list[tuple[bool, bytes]]:
        """Sends all at once, method, path and body each; for each whether its status is 200, and its body."""
        numbers: dict[int, int] = {}
        for place, (method, path, body) in enumerate(requests):
            block = (b"\x02" + _literal(method.encode()) + b"\x86" + b"\x04" + _literal(path.encode())
                     + b"\x01" + _literal(authority.encode()))
            self.writer.write(frame(HEADERS, END_HEADERS | (0 if body else END_STREAM), self.next_stream, block))
            if body:
                self.writer.write(frame(DATA, END_STREAM, self.next_stream, body))
            numbers[self.next_stream] = place
            self.next_stream += 2
        answers = [(False, b"")] * len(requests)
        while numbers:
            kind, flags, stream, payload = await self._frame()
            if kind == SETTINGS and not flags & ACK:
                self.writer.write(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.writer.write(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                self.leaves = True
                last = struct.unpack(">I", payload[:4])[0]
                if any(number > last for number in numbers):
                    raise Ended(f"GOAWAY behind {last}, {sorted(numbers)} are open: {payload!r}")
            elif kind == RST_STREAM and stream in numbers:
                raise Ended(f"stream {stream} was reset: {payload!r}")
            elif stream in numbers and kind in (HEADERS, DATA):
                is_good, body = answers[numbers[stream]]
                if kind == HEADERS:
                    is_good = payload.lstrip(b"\x20")[:1] == b"\x88"
                else:
                    body += payload
                    if payload:
                        self.writer.write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
                answers[numbers[stream]] = (is_good, body)
                if flags & END_STREAM:
                    del numbers[stream]
        return answers

    async def _frame(self) -> tuple[int, int, int, bytes]:
        try:
            head = await self.reader.readexactly(9)
            return (head[3], head[4], struct.unpack(">I", head[5:])[0],
                    await self.reader.readexactly(int.from_bytes(head[:3], "big")))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Ended(str(error)) from error

    def close(self) -> None:
        self.writer.close()
