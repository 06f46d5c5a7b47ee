# SPDX-License-Identifier: Apache-2.0
"""Servers of Redis on loopback: alone, watched by Sentinels, and as a cluster. They keep nothing on the disk."""
from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from pathlib import Path

from processes import BenchError, Server, free_port

# Another one that takes the same options, as valkey-server.
PROGRAM = os.environ.get("PINPROXY_REDIS", "redis-server")
SLOTS = 16_384
SENTINEL_NAME = "mymaster"


class RedisError(Exception):
    """An error that Redis has replied."""


def ask(port: int, *words: str | bytes, seconds: float = 5.0):
    """The reply of RESP2 to one command on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        with connection.makefile("rb") as stream:
            return _read(stream)


def _read(stream):
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("Redis has ended the connection")
    kind, text = line[:1], line[1:-2]
    if kind == b"+":
        return text
    if kind == b"-":
        raise RedisError(text.decode(errors="replace"))
    if kind == b":":
        return int(text)
    if int(text) < 0:
        return None
    if kind == b"$":
        return stream.read(int(text) + 2)[:-2]
    return [_read(stream) for _ in range(int(text))]


class Redis:
    """One server; `start` begins it again on its port, empty but for a node's knowledge of its cluster."""

    def __init__(self, folder: Path, *options: str, configuration: str | None = None) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            raise BenchError(f"{PROGRAM} is not installed: apt-get install {Path(PROGRAM).name}")
        folder.mkdir(parents=True)
        self.folder, self.port, self.bus_port = folder, free_port(), free_port()
        if configuration is None:
            self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "",
                            "--appendonly", "no", "--loglevel", "warning", *options]
            if "--cluster-enabled" in options:
                self.command += ["--cluster-port", str(self.bus_port)]
        else:
            file = folder / "sentinel.conf"
            file.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nloglevel warning\n{configuration}")
            self.command = [program, str(file), "--sentinel"]
        self.server: Server | None = None
        self.start()

    def start(self) -> None:
        self.server = Server(PROGRAM, self.command, self.folder / "log")
        wait_until(lambda: self.is_ready(), "Redis to respond")

    def is_ready(self) -> bool:
        self.server.check_alive()
        try:
            return self.ask("PING") == b"PONG"
        except (OSError, RedisError):
            return False

    def ask(self, *words: str | bytes):
        return ask(self.port, *words)

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def pause(self) -> None:
        os.kill(self.server.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.server.process.pid, signal.SIGCONT)

    @property
    def is_alive(self) -> bool:
        return self.server.process.poll() is None

    def stop(self) -> None:
        if self.is_alive:
            self.resume()
            self.server.process.kill()
        self.server.process.wait()


def wait_until(condition, text: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {seconds:g} s for {text}")
        time.sleep(0.05)


class Sentinels:
    """A primary, a replica, and three Sentinels."""
    kind = "Sentinels"

    def __init__(self, folder: Path) -> None:
        self.all: list[Redis] = []
        try:
            first = self._add(Redis(folder / "first"))
            self._add(Redis(folder / "second", "--replicaof", "127.0.0.1", str(first.port)))
            self.servers = list(self.all)
            # A Sentinel that does not see a replica at once looks again after ten seconds.
            wait_until(lambda: b"state=online" in first.ask("INFO", "replication"), "the replica to follow")
            self.sentinels = [self._add(Redis(folder / f"sentinel{number}", configuration=(
                f"sentinel monitor {SENTINEL_NAME} 127.0.0.1 {first.port} 2\n"
                f"sentinel down-after-milliseconds {SENTINEL_NAME} 1000\n"
                f"sentinel failover-timeout {SENTINEL_NAME} 5000\n"))) for number in range(3)]
            wait_until(self.is_whole, "the Sentinels to know all")
        except BaseException:
            self.stop()
            raise

    def _add(self, server: Redis) -> Redis:
        self.all.append(server)
        return server

    def is_whole(self) -> bool:
        """All Sentinels know each other, and the replica follows."""
        for sentinel in self.sentinels:
            words = sentinel.ask("SENTINEL", "MASTER", SENTINEL_NAME)
            state = dict(zip(words[::2], words[1::2]))
            if state[b"num-slaves"] != b"1" or state[b"num-other-sentinels"] != b"2" or b"down" in state[b"flags"]:
                return False
        primary = self.primary()
        return primary.is_alive and b"state=online" in primary.ask("INFO", "replication")

    def primary(self) -> Redis:
        address = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SENTINEL_NAME)
        return next(server for server in self.servers if server.port == int(address[1]))

    @property
    def settings(self) -> dict:
        return {"url": "redis://" + ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels), "sentinel": SENTINEL_NAME}

    def stop(self) -> None:
        for server in self.all:
            server.stop()


class Cluster:
    """Three primaries with a third of the slots each."""
    kind = "cluster"

    def __init__(self, folder: Path) -> None:
        self.nodes: list[Redis] = []
        try:
            for number in range(3):
                self.nodes.append(Redis(folder / f"node{number}", "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                                        "--cluster-node-timeout", "1000"))
            for number, node in enumerate(self.nodes):
                node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
                node.ask("CLUSTER", "ADDSLOTSRANGE", str(SLOTS * number // 3), str(SLOTS * (number + 1) // 3 - 1))
                if number:
                    self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), str(node.bus_port))
            wait_until(self.is_whole, "the cluster to be whole")
        except BaseException:
            self.stop()
            raise

    def is_whole(self) -> bool:
        states = [node.ask("CLUSTER", "INFO") for node in self.nodes]
        return all(b"cluster_state:ok" in state and b"cluster_known_nodes:3" in state for state in states)

    def move(self, slot: int, source: int, target: int) -> None:
        """Moves a slot with its keys, as `redis-cli --cluster reshard` does."""
        old, new = self.nodes[source], self.nodes[target]
        names = [node.ask("CLUSTER", "MYID") for node in (old, new)]
        new.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", names[0])
        old.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", names[1])
        while keys := old.ask("CLUSTER", "GETKEYSINSLOT", str(slot), "100"):
            old.ask("MIGRATE", "127.0.0.1", str(new.port), "", "0", "5000", "KEYS", *keys)
        for node in (new, old):
            node.ask("CLUSTER", "SETSLOT", str(slot), "NODE", names[1])

    def slots_in_use(self, number: int) -> list[int]:
        node = self.nodes[number]
        return sorted({node.ask("CLUSTER", "KEYSLOT", key) for key in node.ask("KEYS", "*")})

    @property
    def settings(self) -> dict:
        return {"url": "redis://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2]), "cluster": True}

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
