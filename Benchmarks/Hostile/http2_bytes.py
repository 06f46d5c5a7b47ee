# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 (RFC 9113) and field blocks (RFC 7541) as bytes, without the rules that python3-h2 keeps."""
from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
TABLE_SIZE, INITIAL_WINDOW = 1, 4
LARGEST_FRAME = 16384
# The latest entry of the dynamic table, as an indexed field: one byte for the whole field.
LATEST = bytes((0x80 | 62,))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def settings(values: dict[int, int] | None = None) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in (values or {}).items()))


def _number(prefix: int, width: int, value: int) -> bytes:
    most = (1 << width) - 1
    if value < most:
        return bytes((prefix | value,))
    content, value = bytes((prefix | most,)), value - most
    while value >= 128:
        content, value = content + bytes((value & 127 | 128,)), value >> 7
    return content + bytes((value,))


def _text(content: bytes) -> bytes:
    return _number(0, 7, len(content)) + content


def literal(name: bytes, value: bytes, is_kept: bool = False) -> bytes:
    """A field by its text; a kept one is the latest entry of the dynamic table from then on."""
    return (b"\x40" if is_kept else b"\0") + _text(name) + _text(value)


def request_fields(authority: str, path: str = "/", scheme: str = "http") -> bytes:
    return (b"\x82" + (b"\x86" if scheme == "http" else b"\x87") + b"\x04" + _text(path.encode())
            + b"\x01" + _text(authority.encode()))


def status(code: int) -> bytes:
    return b"\x08" + _text(str(code).encode())


def head(stream: int, block: bytes, ends_stream: bool = False) -> bytes:
    """HEADERS, and CONTINUATION frames for the rest of the block."""
    pieces = [block[place:place + LARGEST_FRAME] for place in range(0, len(block), LARGEST_FRAME)] or [b""]
    flags = (END_STREAM if ends_stream else 0) | (END_HEADERS if len(pieces) == 1 else 0)
    frames = frame(HEADERS, flags, stream, pieces[0])
    for number, piece in enumerate(pieces[1:], start=2):
        frames += frame(CONTINUATION, END_HEADERS if number == len(pieces) else 0, stream, piece)
    return frames


class Reader:
    """Takes whole frames out of what a connection receives."""

    def __init__(self, connection) -> None:
        self.connection = connection
        self.waiting = b""

    def frame(self) -> tuple[int, int, int, bytes]:
        while True:
            if len(self.waiting) >= 9:
                length = int.from_bytes(self.waiting[:3], "big")
                if len(self.waiting) >= 9 + length:
                    kind, flags = self.waiting[3], self.waiting[4]
                    stream = int.from_bytes(self.waiting[5:9], "big") & 0x7FFFFFFF
                    payload, self.waiting = self.waiting[9:9 + length], self.waiting[9 + length:]
                    return kind, flags, stream, payload
            piece = self.connection.recv(65536)
            if not piece:
                raise ConnectionError("the end")
            self.waiting += piece

    def skip_preface(self) -> None:
        while len(self.waiting) < len(PREFACE):
            piece = self.connection.recv(65536)
            if not piece:
                raise ConnectionError("the end")
            self.waiting += piece
        self.waiting = self.waiting[len(PREFACE):]
