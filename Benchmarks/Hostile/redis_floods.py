# SPDX-License-Identifier: Apache-2.0
"""A server of Redis that means ill: all its bytes are its own, and none of them may cost the other clients anything."""
from __future__ import annotations

import base64
import itertools
import socket
import threading

from credential_floods import again
from informational import read_all
from origin import OTHER_HOST
from stage import Peer, Stage

PASSWORD = "planted-password-of-redis"


def read_command(stream) -> list[bytes]:
    """The words of one command; none at the end."""
    line = stream.readline()
    if not line.startswith(b"*"):
        return []
    words = []
    for _ in range(int(line[1:])):
        words.append(stream.read(int(stream.readline()[1:]) + 2)[:-2])
    return words


def refusal(words: list[bytes]) -> bytes:
    """A reply that lets a client in, and has nothing for it."""
    name = words[0].upper()
    if name in (b"AUTH", b"SELECT", b"PING", b"HELLO", b"READONLY"):
        return b"+OK\r\n"
    if name in (b"HMGET", b"MGET"):
        count = len(words) - (2 if name == b"HMGET" else 1)
        return b"*%d\r\n" % count + b"$-1\r\n" * count
    return b":1\r\n" if name in (b"EVAL", b"EVALSHA") else b"$-1\r\n"


class RedisPeer(Peer):
    """Requests to one host are looked for in this Redis; those of the other clients are, too."""

    is_short = False
    clients = 20
    cluster = False

    def __init__(self, name: str, title: str, is_short: bool = False) -> None:
        self.name, self.title, self.is_short = name, title, is_short

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        for file, text in (("redis.key", base64.b64encode(bytes(range(32))).decode()), ("redis.password", PASSWORD)):
            (stage.folder / file).write_text(text + "\n")
            (stage.folder / file).chmod(0o600)
        self.port = stage.serve(self._serve)
        redis = {"url": f"redis://127.0.0.1:{self.port}", "keyFile": "redis.key", "passwordFile": "redis.password"}
        if self.cluster:
            redis["cluster"] = True
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve_origin)}"}},
                "cache": {"memory": "8MB", "redis": redis}}

    def _serve_origin(self, connection: socket.socket) -> None:
        tls = self.stage.tls(connection)
        received = b""
        while piece := tls.recv(65536):
            received += piece
            while b"\r\n\r\n" in received:
                received = received.split(b"\r\n\r\n", 1)[1]
                tls.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3000)

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while words := read_command(stream):
            if words[0].upper() in (b"AUTH", b"PING", b"SELECT"):
                connection.sendall(refusal(words))
            else:
                self.respond(connection, words)

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        raise NotImplementedError

    def attack(self, stage: Stage) -> None:
        numbers, lock = itertools.count(), threading.Lock()

        def ask() -> None:
            while stage.goes_on:
                with lock:
                    number = next(numbers)
                connection = stage.connect()
                method = "POST" if number % 5 == 0 else "GET"
                connection.sendall(f"{method} http://{OTHER_HOST}/{number} HTTP/1.1\r\nHost: {OTHER_HOST}\r\n"
                                   f"Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
                read_all(stage, connection)
                connection.close()
        stage.at_once(self.clients, lambda: again(stage, ask))
        # What is shown and logged repeats no secret, whatever the server said.
        told = stage.server.log.read_text(errors="replace") + stage.admin("/metrics").decode()
        if PASSWORD in told:
            raise AssertionError("the password of Redis is shown")


class Endless(RedisPeer):
    """Each command gets a reply that does not end."""

    def __init__(self, name: str, title: str, begin: bytes, piece: bytes, is_short: bool = False, pause: float = 0.0) -> None:
        super().__init__(name, title, is_short)
        self.begin, self.piece, self.pause = begin, piece, pause

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        connection.sendall(self.begin)
        while self.stage.goes_on:
            connection.sendall(self.piece)
            if self.pause:
                self.stage.is_over.wait(self.pause)


class Replies(RedisPeer):
    """Each command gets the same bytes, which are no reply to it or too much of one."""

    def __init__(self, name: str, title: str, reply: bytes, is_short: bool = False) -> None:
        super().__init__(name, title, is_short)
        self.reply = reply

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        connection.sendall(self.reply)


class Dripping(RedisPeer):
    """A right reply, a byte a second."""

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        for byte in b"$400000\r\n" + b"x" * 400_000:
            connection.sendall(bytes([byte]))
            if self.stage.is_over.wait(1):
                return


class Unasked(RedisPeer):
    """Replies before there is a command, and far more than there are commands."""

    def _serve(self, connection: socket.socket) -> None:
        while self.stage.goes_on:
            connection.sendall(b"+OK\r\n$3\r\nabc\r\n:5\r\n$-1\r\n" * 500)


class Greedy(RedisPeer):
    """The fields of a look-up are as large as what is still a reply."""

    size = 4 << 20

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        if words[0].upper() != b"HMGET":
            return connection.sendall(refusal(words))
        count = len(words) - 2
        connection.sendall(b"*%d\r\n" % count)
        for _ in range(count):
            connection.sendall(b"$%d\r\n" % self.size + bytes(self.size) + b"\r\n")


class Unread(RedisPeer):
    """Lets in, and reads nothing more: what is to be stored waits."""

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream = connection.makefile("rb", buffering=0)
        if words := read_command(stream):
            connection.sendall(refusal(words))
        self.stage.is_over.wait(120)


class Repeating(RedisPeer):
    """Errors that hold the password, as some servers' do."""

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        for number in itertools.count():
            words = read_command(stream)
            if not words:
                return
            kind = (b"ERR", b"WRONGPASS", b"NOAUTH", b"LOADING", b"MOVED 1", b"READONLY")[number % 6]
            connection.sendall(b"-" + kind + b" '" + PASSWORD.encode() + b"' " + b" ".join(words)[:200].replace(b"\r\n", b" ")
                               + b"\r\n")


class Countless(RedisPeer):
    """A count of purges that is larger each time, with records that are nobody's."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(name, title)
        self.number = itertools.count(1000, 999)

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        name = words[0].upper()
        if name == b"GET" and words[1].endswith(b":n"):
            text = b"%d" % next(self.number)
            return connection.sendall(b"$%d\r\n%s\r\n" % (len(text), text))
        if name == b"MGET":
            count = len(words) - 1
            return connection.sendall(b"*%d\r\n" % count + (b"$5000\r\n" + b"x" * 5000 + b"\r\n") * count)
        connection.sendall(refusal(words))


class LyingCluster(RedisPeer):
    """A table of slots with thousands of servers, and a redirection with every reply. Nobody listens at their addresses."""

    cluster = True

    def respond(self, connection: socket.socket, words: list[bytes]) -> None:
        if words[0].upper() != b"CLUSTER":
            slot = len(words[-1]) * 7919 % 16_384
            return connection.sendall(b"-MOVED %d 127.2.%d.%d:%d\r\n" % (slot, slot >> 8, slot & 255, self.port))
        ranges = []
        for slot in range(16_384):
            host = b"127.1.%d.%d" % (slot >> 8, slot & 255)
            ranges.append(b"*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%d\r\n$40\r\n%s\r\n"
                          % (slot, slot, len(host), host, self.port, b"a" * 40))
        connection.sendall(b"*%d\r\n" % len(ranges) + b"".join(ranges))


MEGABYTE = b"x" * (1 << 20)
PEERS = [
    Endless("redis-floods", "43: Redis whose replies do not end", b"$400000000\r\n", MEGABYTE, is_short=True),
    Endless("redis-lines", "43: Redis whose line does not end", b"+", MEGABYTE),
    Endless("redis-numbers", "43: Redis whose length has digits without end", b"$", b"1" * 65536),
    Endless("redis-values", "43: Redis with arrays in arrays without end", b"", b"*1\r\n" * 16_384),
    Replies("redis-many", "43: Redis with 60,000 values where two are asked for", b"*60000\r\n" + b"$1\r\nx\r\n" * 60_000),
    Replies("redis-huge", "43: Redis that announces more than there is memory for", b"*2147483647\r\n$9223372036854775807\r\n"),
    Replies("redis-odd", "43: Redis that speaks something else", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 50),
    Dripping("redis-drips", "43: Redis that sends a byte a second"),
    Unasked("redis-unasked", "43: Redis that replies to what nobody has asked"),
    Greedy("redis-greedy", "43: Redis whose fields are 4 MB each"),
    Unread("redis-unread", "43: Redis that reads nothing"),
    Repeating("redis-errors", "43: Redis whose errors repeat password and commands"),
    Countless("redis-purges", "43: Redis with thousands of purges more each time"),
    LyingCluster("redis-cluster", "43: cluster of thousands of servers, where every slot is elsewhere"),
]
