# SPDX-License-Identifier: Apache-2.0
"""A name server that knows thousands of addresses of each name."""
from __future__ import annotations

import socket
import struct

from stage import Peer, Stage

A, AAAA = 1, 28


def _question(query: bytes) -> tuple[int, int]:
    """Where the question ends, and its type."""
    place = 12
    while query[place]:
        place += 1 + query[place]
    return place + 5, query[place + 2]


def _response(query: bytes, is_cut: bool) -> bytes:
    end, kind = _question(query)
    if is_cut:
        return query[:2] + b"\x83\x80" + struct.pack(">4H", 1, 0, 0, 0) + query[12:end]
    count = {A: 4050, AAAA: 2300}.get(kind, 0)
    records = bytearray()
    for number in range(count):
        address = struct.pack(">I", 0x7F010000 + number) if kind == A else b"\xfd" + b"\0" * 13 + struct.pack(">H", number)
        records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(address)) + address
    return query[:2] + b"\x81\x80" + struct.pack(">4H", 1, count, 0, 0) + query[12:end] + bytes(records)


class ManyAddresses(Peer):
    name = "names"
    title = "8: fifty names with 4,050 A and 2,300 AAAA records each"
    needs_names = True

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        datagrams = stage.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 53))
        listener = stage.keep(socket.create_server(("127.0.0.1", 53), backlog=512))

        def answer_datagrams() -> None:
            while True:
                query, peer = datagrams.recvfrom(1500)
                if not query:
                    return  # The end of the attack has shut the socket down.
                datagrams.sendto(_response(query, is_cut=True), peer)

        def accept() -> None:
            while True:
                connection, _ = listener.accept()
                stage.keep(connection)
                stage.start(lambda connection=connection: answer_stream(connection))

        def answer_stream(connection) -> None:
            waiting = b""
            while piece := connection.recv(4096):
                waiting += piece
                while len(waiting) >= 2 and len(waiting) >= 2 + (length := int.from_bytes(waiting[:2], "big")):
                    query, waiting = waiting[2:2 + length], waiting[2 + length:]
                    response = _response(query, is_cut=False)
                    connection.sendall(struct.pack(">H", len(response)) + response)

        stage.start(answer_datagrams)
        stage.start(accept)
        return {"defaults": {"timeouts": {"connect": "3s"}}}

    def attack(self, stage: Stage) -> None:
        names = iter(range(20 if stage.is_short else 50))
        stage.at_once(20 if stage.is_short else 50, lambda: stage.ask(f"http://name{next(names)}.zone.test:9/", seconds=6))


PEERS = [ManyAddresses()]
