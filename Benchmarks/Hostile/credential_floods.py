# SPDX-License-Identifier: Apache-2.0
"""Clients, origins and token servers that mean ill to requests with a credential of pinproxy's."""
from __future__ import annotations

import itertools
import json
import socket
import struct
import threading

import http2_bytes as h2
from informational import read_all, wait_unread
from origin import OTHER_HOST
from stage import Peer, Stage

VALUE = "a" * 2000 + "-planted-value"


class _WithCredential(Peer):
    """Requests to one host get the credential; those of the other clients get none."""

    credential: dict = {}
    host: dict = {}
    more: dict = {}
    is_served = True

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        (stage.folder / "value").write_text(VALUE + "\n")
        host = dict(self.host)
        if self.is_served:
            host["resolve"] = f"127.0.0.1:{stage.serve(self._serve)}"
        return {"listeners": [{"address": "127.0.0.1:0", "http2": True}], "hosts": {OTHER_HOST: host},
                "requests": {"policy": "allow", "rules": [{"id": "key", "host": OTHER_HOST, "then": "allow",
                                                           "credential": self.names(stage)}]},
                "credentials": self.credentials(stage)} | self.more

    def credentials(self, stage: Stage) -> dict:
        return {"key": self.credential}

    def names(self, stage: Stage) -> list[str]:
        return list(self.credentials(stage))

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        while read_request(tls):
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def read_request(connection) -> bytes:
    """One request of HTTP/1.1 with a known length; its head, or nothing at the end."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            return b""
        received += piece
    head, body = received.split(b"\r\n\r\n", 1)
    for line in head.split(b"\r\n")[1:]:
        name, value = line.split(b":", 1)
        if name.lower() == b"content-length":
            left = int(value) - len(body)
            while left > 0:
                piece = connection.recv(65536)
                if not piece:
                    return b""
                left -= len(piece)
    return head


def again(stage: Stage, work) -> None:
    """Begins anew when the proxy has ended the connection."""
    while stage.goes_on:
        try:
            work()
        except OSError:
            stage.is_over.wait(0.01)


class SignedBodies(_WithCredential):
    """A signature holds the digest of a body, which is kept until it is whole."""
    name = "signed-bodies"
    title = "23: 300 clients with bodies of 1 MB, which are signed and lack their last byte"
    more = {"limits": {"heldBytes": "40MB"}}
    # A turn of it is at the edge of what is allowed: not for a run that has to pass each time.
    is_short = False
    completes = False
    clients = 300

    def credentials(self, stage: Stage) -> dict:
        (stage.folder / "keys").write_text(json.dumps({"Version": 1, "AccessKeyId": "AKIAPLANTED00001", "SecretAccessKey": "planted/secret/key"}))
        return {"key": {"awsSigV4": {"region": "eu-central-1", "service": "dynamodb", "file": "keys"}}}

    def attack(self, stage: Stage) -> None:
        size = 1 << 20
        head = f"POST http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\nContent-Length: {size}\r\n\r\n".encode()
        body = b"b" * (size if self.completes else size - 1)

        def ask() -> None:
            connection = stage.connect()
            while stage.goes_on:
                connection.sendall(head + body)
                if self.completes:
                    if b"200 OK" not in connection.recv(65536):
                        break
                else:
                    connection.settimeout(1)
                    try:
                        connection.recv(65536)
                        break
                    except TimeoutError:
                        continue
            connection.close()
        stage.at_once(self.clients // (3 if stage.is_short else 1), lambda: again(stage, ask))


class WholeSignedBodies(SignedBodies):
    name = "signed-bodies-whole"
    title = "23: 20 clients with bodies of 1 MB, which are signed one after the other"
    is_short = False
    completes = True
    clients = 20


class SignedStreams(SignedBodies):
    """Over HTTP/2 a body is given credit for as long as it is gathered."""
    name = "signed-streams"
    title = "23: 20 clients of HTTP/2 with 100 streams each, whose bodies are signed and never end"
    is_short = False

    def attack(self, stage: Stage) -> None:
        head = h2.request_fields(OTHER_HOST).replace(b"\x82", b"\x83", 1)
        streams = range(1, 200, 2)
        frames = b"".join(h2.frame(h2.DATA, 0, stream, b"b" * 16_000) for stream in streams)

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings() + b"".join(h2.head(stream, head) for stream in streams))
            stage.start(lambda: read_all(stage, connection))
            # As much as the first window of a connection lets through, then what the proxy gives credit for.
            for _ in range(60):
                if not stage.goes_on:
                    return
                connection.sendall(frames)
                stage.is_over.wait(0.05)
            wait_unread(stage, connection)
        stage.at_once(20, lambda: again(stage, ask))


class HangingSource(_WithCredential):
    """All who wait share the run, and have its end in one moment."""
    name = "source-hangs"
    title = "23: 6,000 requests that wait for a command, which fails after some seconds"
    is_served = False
    more = {"defaults": {"timeouts": {"queue": "30s"}}}

    def credentials(self, stage: Stage) -> dict:
        # The first run begins with the proxy, so that the second is the one that is waited for.
        seconds = 1 if stage.is_short else 4
        script = f"if [ -e $0 ]; then sleep {seconds}; else echo x > $0; sleep {seconds + 2}; fi; exit 1"
        return {"key": {"command": ["/bin/sh", "-c", script, str(stage.folder / "ran")]}}

    def attack(self, stage: Stage) -> None:
        head = h2.request_fields(OTHER_HOST)
        requests = b"".join(h2.head(stream, head, ends_stream=True) for stream in range(1, 200, 2))

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings() + requests)
            read_all(stage, connection)
        stage.at_once(20 if stage.is_short else 60, lambda: again(stage, ask))


class ResetWaits(HangingSource):
    """Clients that have gone wait no longer."""
    name = "source-hangs-reset"
    title = "23: clients that open and reset streams whose requests wait for a command"

    def credentials(self, stage: Stage) -> dict:
        return {"key": {"command": ["/bin/sleep", "1000"]}}

    def attack(self, stage: Stage) -> None:
        fields = h2.request_fields(OTHER_HOST)

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings())
            for first in itertools.count(1, 40):
                if not stage.goes_on:
                    return
                connection.sendall(b"".join(h2.head(stream, fields, ends_stream=True)
                                            + h2.frame(h2.RST_STREAM, 0, stream, b"\0\0\0\x08")
                                            for stream in range(first, first + 40, 2)))
                # Slower than what ends a connection for its resets.
                stage.is_over.wait(0.02)
        stage.at_once(8, lambda: again(stage, ask))


class LeavingWaits(HangingSource):
    """The same over HTTP/1.1."""
    name = "source-hangs-gone"
    title = "23: clients that reset their connections while their requests wait for a command"
    is_short = False

    def credentials(self, stage: Stage) -> dict:
        return {"key": {"command": ["/bin/sleep", "1000"]}}

    def attack(self, stage: Stage) -> None:
        request = f"GET http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\nX: {'x' * 8000}\r\n\r\n".encode()

        def ask() -> None:
            while stage.goes_on:
                connection = stage.connect()
                connection.sendall(request)
                stage.is_over.wait(0.002)
                # A FIN alone would be half a close, and its response still wanted.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
        stage.at_once(8, lambda: again(stage, ask))


class Unauthorized(_WithCredential):
    """Each 401 would like a run of the source, and the request once more with its body."""
    name = "401"
    title = "23: origin that responds 401 to everything, after bodies that are kept to be sent again"
    drips = False

    def credentials(self, stage: Stage) -> dict:
        script = "echo x >> $0; echo value-number-$(wc -l < $0)"
        return {"key": {"command": ["/bin/sh", "-c", script, str(stage.folder / "runs")]}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        while read_request(tls):
            if not self.drips:
                tls.sendall(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\nno")
                continue
            tls.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 1000000\r\n\r\n")
            while self.stage.goes_on:
                tls.sendall(b"n")
                self.stage.is_over.wait(0.05)

    def attack(self, stage: Stage) -> None:
        # A source is run again ten seconds after its first run.
        stage.deadline += 0 if stage.is_short else 6
        body = b"b" * 60_000
        head = f"POST http://{OTHER_HOST}/ HTTP/1.1\r\nHost: {OTHER_HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode()

        def ask() -> None:
            connection = stage.connect()
            while stage.goes_on:
                connection.sendall(head + body)
                connection.settimeout(2)
                if not connection.recv(65536):
                    return
        stage.at_once(20 if stage.is_short else 60, lambda: again(stage, ask))


class DrippingUnauthorized(Unauthorized):
    name = "401-drips"
    title = "23: the same, whose 401 has a body that comes byte by byte"
    is_short = False
    drips = True


class TokenServers(_WithCredential):
    """Token servers are asked on a thread of their own; what they send counts all the same."""
    is_served = False

    def __init__(self, name: str, title: str, is_short: bool) -> None:
        self.name, self.title, self.is_short = name, title, is_short

    def settings(self, stage: Stage) -> dict:
        (stage.folder / "client-secret").write_text("planted-secret\n")
        self.port = stage.serve(self._serve)
        return super().settings(stage)

    def credentials(self, stage: Stage) -> dict:
        token = {"tokenURL": f"https://{OTHER_HOST}/token", "clientID": "me", "clientSecretFile": "client-secret"}
        return {f"key{number}": {"header": f"X-Key-{number}", "oauth2": token | {"scopes": [f"s{number}"]}} for number in range(16)}

    def names(self, stage: Stage) -> list[str]:
        return [f"key{number}" for number in range(16)]

    @property
    def host(self) -> dict:
        return {"resolve": f"127.0.0.1:{self.port}"}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        tls.recv(65536)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        if self.name == "token-endless":
            tls.sendall(head + b'Transfer-Encoding: chunked\r\n\r\n')
            piece = b"4000\r\n" + b'{"a":"b",' * 1820 + b"aaaa\r\n"
            while not self.stage.is_over.is_set():
                tls.sendall(piece)
        elif self.name == "token-nested":
            body = b'{"access_token":' + b"[" * 60_000
            tls.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        else:
            tls.sendall(head + b"Content-Length: 60000\r\n\r\n{")
            while not self.stage.is_over.wait(0.05):
                tls.sendall(b" ")

    def attack(self, stage: Stage) -> None:
        head = h2.request_fields(OTHER_HOST)
        requests = b"".join(h2.head(stream, head, ends_stream=True) for stream in range(1, 200, 2))

        def ask() -> None:
            connection = stage.connect(1)
            connection.sendall(h2.PREFACE + h2.settings() + requests)
            read_all(stage, connection)
        stage.at_once(20, lambda: again(stage, ask))


class Echo(_WithCredential):
    """Whatever comes back is searched for the value, in all its forms."""

    credential = {"header": "X-Key", "file": "value"}
    more = {"cache": {"memory": "16MB"}}

    def __init__(self, name: str, title: str, is_short: bool, line: str, count: int, status: str = "200 OK") -> None:
        self.name, self.title, self.is_short = name, title, is_short
        self.is_final = status.startswith("2")
        fields = "".join(f"X-{number}: {line}\r\n" for number in range(count))
        self.head = (f"HTTP/1.1 {status}\r\n{fields}" + ("Content-Length: 2\r\n\r\nok" if self.is_final else "\r\n")).encode()
        assert len(self.head) < 255_000, (name, len(self.head))

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        while read_request(tls):
            tls.sendall(self.head)
            while not self.is_final and self.stage.goes_on:
                tls.sendall(self.head)

    def attack(self, stage: Stage) -> None:
        number = itertools.count()
        lock = threading.Lock()

        def ask() -> None:
            while stage.goes_on:
                with lock:
                    path = next(number)
                connection = stage.connect()
                connection.sendall(f"GET http://{OTHER_HOST}/{path} HTTP/1.1\r\nHost: {OTHER_HOST}\r\nConnection: close\r\n\r\n".encode())
                read_all(stage, connection)
                connection.close()
        stage.at_once(4, lambda: again(stage, ask))


ENCODED = "".join(f"%{byte:02x}" for byte in VALUE[:1990].encode())
PEERS = [
    SignedBodies(),
    WholeSignedBodies(),
    SignedStreams(),
    HangingSource(),
    ResetWaits(),
    LeavingWaits(),
    Unauthorized(),
    DrippingUnauthorized(),
    TokenServers("token-endless", "23: 16 token servers whose responses do not end", False),
    TokenServers("token-drips", "23: 16 token servers whose responses come byte by byte", False),
    TokenServers("token-nested", "23: 16 token servers whose responses have 60,000 brackets", False),
    Echo("echo", "23: origin that sends the value back, seven times in 16 KB", False, VALUE, 7),
    Echo("echo-near", "23: origin that sends 16 fields of 15 KB, which are nearly the value everywhere", True, "a" * 15_000, 16),
    Echo("echo-encoded", "23: the same with every byte percent-encoded", False, (ENCODED * 3)[:15_000], 16),
    Echo("echo-103", "23: heads of 103 of 16 KB without end, each nearly the value everywhere", False, "a" * 1990 + "-p", 8,
         "103 Early Hints"),
]
