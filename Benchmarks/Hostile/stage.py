# SPDX-License-Identifier: Apache-2.0
"""A proxy with other clients on it, and one hostile peer; what the peer has cost is looked at from outside."""
from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from origin import CLOSING_HOST, H2_HOST, KEPT_HOST, OTHER_HOST, Certificates, Origin
from processes import BenchError, Server

FOLDER = Path(__file__).resolve().parent
# A proxy that has not served the others for so long does not come back within a patience.
STUCK = 100.0
# So long after the peer's end its memory and descriptors have to be free.
RETURN_TIME = 10.0
MEMORY_ALLOWANCE = 16 << 20
DESCRIPTOR_ALLOWANCE = 16


class Peer:
    """One that means ill. Its settings are made before the proxy starts, and `attack` is called when others are served."""

    name = ""
    title = ""
    descriptors: int | None = None
    """the proxy's limit of open files"""
    needs_names = False
    """runs in a network of its own, with a name server of its own"""
    is_short = True
    """part of the short form"""

    def settings(self, stage: Stage) -> dict:
        """What the configuration has besides; `hosts` and `listeners` are added to those of the others."""
        return {}

    def attack(self, stage: Stage) -> None:
        raise NotImplementedError


@dataclass
class Result:
    turn: float = 0.0
    """seconds of CPU"""
    work: list[str] = field(default_factory=list)
    worst: float = 0.0
    direct: float = 0.0
    """the longest wait for nginx itself"""
    p99: float = 0.0
    requests: int = 0
    failures: int = 0
    failure: str = ""
    memory: tuple[int, int, int] = (0, 0, 0)
    """bytes before, at most, and after"""
    descriptors: tuple[int, int, int] = (0, 0, 0)
    death: str = ""


class Stage:
    def __init__(self, binary: str, folder: Path, origin: Origin, peer: Peer, is_short: bool) -> None:
        self.binary, self.folder, self.origin, self.peer, self.is_short = binary, folder, origin, peer, is_short
        self.certificates: Certificates = origin.certificates
        self.is_over = threading.Event()
        self.broken = ""
        """what is wrong with the peer itself"""
        self.seconds = 1.5 if is_short else 8.0
        self.deadline = float("inf")
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        try:
            self._start(peer.settings(self))
        except BaseException:
            self.is_over.set()
            self._close_sockets()
            raise

    # The peers' tools

    @property
    def goes_on(self) -> bool:
        return not self.is_over.is_set() and time.monotonic() < self.deadline

    def keep(self, connection: socket.socket) -> socket.socket:
        """Closes it at the end of the attack at the latest."""
        with self._lock:
            self._sockets.append(connection)
        return connection

    def serve(self, handle) -> int:
        """Serves a loopback port with a thread for each connection until the attack is over; returns the port."""
        listener = self.keep(socket.create_server(("127.0.0.1", 0), backlog=512))

        def accept() -> None:
            while not self.is_over.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                self.keep(connection)
                connection.settimeout(60)
                self.start(lambda connection=connection: handle(connection))

        self.start(accept)
        return listener.getsockname()[1]

    def start(self, work) -> threading.Thread:
        def run() -> None:
            # A peer has processors of its own, where it is real: what it computes itself is not what others wait for.
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            try:
                work()
            # The proxy ends what it does not want; that is what these connections are for.
            except (OSError, ValueError, EOFError):
                pass
            except BaseException as error:
                self.broken = f"{type(error).__name__}: {error}"
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def at_once(self, count: int, work) -> None:
        """Does the same on so many threads and waits for all, at most to the end of the attack's time."""
        threads = [self.start(work) for _ in range(count)]
        for thread in threads:
            thread.join(max(0.0, min(self.deadline + 40, 1e9) - time.monotonic()))

    def tls(self, connection: socket.socket, protocols: tuple[str, ...] = ()) -> ssl.SSLSocket:
        """The side of a server with the right key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates.folder / "leaf.pem", self.certificates.folder / "leaf.key")
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return self.keep(context.wrap_socket(connection, server_side=True))

    def connect(self, listener: int = 0) -> socket.socket:
        return self.keep(socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=60))

    def ask(self, url: str, listener: int = 0, fields: str = "", seconds: float = 40) -> bytes:
        """One GET; the response as far as it came."""
        connection = self.connect(listener)
        connection.settimeout(seconds)
        host = url.split("/")[2].split("@")[-1]
        connection.sendall(f"GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n".encode())
        received = b""
        try:
            while piece := connection.recv(65536):
                received = (received + piece)[:1 << 16]
        except OSError:
            pass
        connection.close()
        return received

    def admin(self, path: str, seconds: float = 10) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=seconds) as response:
            return response.read()

    # The proxy

    def _start(self, settings: dict) -> None:
        folder, certificates = self.folder, self.certificates
        (folder / "pins").mkdir()
        domain = {"pins": [{"spki-sha256": certificates.leaf_pin},
                           {"spki-sha256": certificates.backup_pin, "backup": True}]}
        hosts = (KEPT_HOST, OTHER_HOST, H2_HOST)
        (folder / "pins" / "pins.json").write_text(
            json.dumps({"version": 1, "pinnedDomains": {host: domain for host in hosts}}))
        configuration = {
            "version": 1, "workers": 2, "admin": {"address": "127.0.0.1:0"}, "pins": "pins",
            "trustAnchors": {"system": False, "files": [str(certificates.ca)]},
            "log": {"tasks": str(folder / "access.log")},
            "access": {"denyAddresses": []},
        } | settings
        configuration["listeners"] = [{"address": "127.0.0.1:0"}, *settings.get("listeners", [])]
        configuration["hosts"] = {
            KEPT_HOST: {"resolve": f"127.0.0.1:{self.origin.ports[KEPT_HOST]}"},
            CLOSING_HOST: {"resolve": f"127.0.0.1:{self.origin.ports[CLOSING_HOST]}", "upgrade": True},
        } | settings.get("hosts", {})
        (folder / "config.json").write_text(json.dumps(configuration, indent=2))
        command = [self.binary, "run", "--config", str(folder / "config.json")]
        if self.peer.descriptors:
            command = ["prlimit", f"--nofile={self.peer.descriptors}:{self.peer.descriptors}", *command]
        self.server = Server("pinproxy", command, folder / "events.log")
        try:
            *self.ports, self.admin_port = self._announced_ports(len(configuration["listeners"]) + 1)
        except BaseException:
            self.server.stop()
            raise

    def _announced_ports(self, count: int) -> list[int]:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self.server.check_alive()
            text = self.server.log.read_text(errors="replace")
            ports = re.findall(r'"event":"listening".*?"address":"127\.0\.0\.1:(\d+)"', text)
            if len(ports) == count:
                return [int(port) for port in ports]
            time.sleep(0.02)
        raise BenchError(f"pinproxy does not listen. Its log:\n{self.server.log_tail(10)}")

    @property
    def is_alive(self) -> bool:
        return self.server.process.poll() is None

    def descriptors(self) -> int:
        try:
            return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
        except OSError:
            return 0

    def turns(self) -> tuple[dict[str, int], float, list[str]]:
        """The histogram of turns, and the longest one of the last minute with its work."""
        text = self.admin("/metrics").decode()
        counts = {bound: int(count) for bound, count in
                  re.findall(r'^pinproxy_loop_turn_seconds_bucket\{le="([^"]+)"\} (\d+)$', text, re.MULTILINE)}
        longest = [worker["longestTurn"] for worker in json.loads(self.admin("/workers"))["workers"] if "longestTurn" in worker]
        if not longest:
            return counts, 0.0, []
        most = max(longest, key=lambda turn: turn["milliseconds"])
        return counts, most["milliseconds"] / 1000, most["work"]

    # The course

    def run(self) -> Result:
        result = Result()
        witness = subprocess.Popen(
            [sys.executable, str(FOLDER / "witness.py"), str(self.ports[0]), KEPT_HOST, CLOSING_HOST,
             str(self.origin.plain_port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        gauge = Gauge(self)
        try:
            witness.stdout.readline()
            time.sleep(0.3 if self.is_short else 1.0)
            before = self._turns_or_nothing()
            memory, descriptors = self.server.rss_anon(), self.descriptors()
            gauge.start()
            self.deadline = time.monotonic() + self.seconds
            self.start(lambda: self.peer.attack(self)).join(self.seconds + 45)
            self.is_over.set()
            self._close_sockets()
            if self.broken:
                raise BenchError(f"the peer {self.peer.name} is broken: {self.broken}")
            seen = self._end_witness(witness)
            result.requests, result.failures, result.failure = seen["requests"], seen["failures"], seen["failure"]
            result.worst, result.p99, result.direct = seen["worst"], seen["p99"], seen["direct"]
            gauge.stop()
            self._note_turns(result, before, gauge)
            after = self._wait_for_return(memory, descriptors)
            result.memory = (memory, max(gauge.memory, memory), after[0])
            result.descriptors = (descriptors, max(gauge.descriptors, descriptors), after[1])
        finally:
            self.is_over.set()
            self._close_sockets()
            gauge.stop()
            if witness.poll() is None:
                witness.kill()
            witness.wait()
            witness.stdin.close()
            witness.stdout.close()
            died = not self.is_alive
            self.server.stop()
        code = self.server.process.returncode
        if died or code != 0:
            lines = [line for line in self.server.log_tail(60).splitlines() if "Fatal" in line or "rash" in line]
            result.death = f"ended with {signal.Signals(-code).name if code < 0 else code} {' '.join(lines[:1])[:200]}".rstrip()
        elif result.death:
            result.death = f"{result.death} (it ended when it was asked to)"
        return result

    def _turns_or_nothing(self):
        try:
            return self.turns()
        except (OSError, ValueError):
            return None

    def _end_witness(self, witness: subprocess.Popen) -> dict:
        try:
            output, _ = witness.communicate(timeout=STUCK)
            return json.loads(output)
        except subprocess.TimeoutExpired:
            return {"requests": 0, "failures": 1, "failure": "the others were not served any more", "worst": STUCK, "p99": STUCK,
                    "direct": 0.0}

    def _note_turns(self, result: Result, before, gauge: Gauge) -> None:
        now = self._turns_or_nothing()
        if now is None:
            if self.is_alive:
                result.death = "the admin listener does not respond"
            return
        counts, longest, work = now
        if gauge.turn > longest:
            longest, work = gauge.turn, gauge.work
        former = before[0] if before else {}
        # A turn of the start may have been longer than those of the attack.
        bounds = sorted((bound for bound in counts if bound != "+Inf"), key=float)
        most, below, below_former = float("inf"), 0, 0
        total = counts.get("+Inf", 0) - former.get("+Inf", 0)
        for bound in bounds:
            if counts[bound] - former.get(bound, 0) >= total:
                most = float(bound)
                break
        result.turn, result.work = min(longest, most), work

    def _wait_for_return(self, memory: int, descriptors: int) -> tuple[int, int]:
        deadline = time.monotonic() + RETURN_TIME
        while True:
            now = self.server.rss_anon(), self.descriptors()
            is_back = now[0] <= memory + MEMORY_ALLOWANCE and now[1] <= descriptors + DESCRIPTOR_ALLOWANCE
            if is_back or time.monotonic() > deadline or not self.is_alive:
                return now
            time.sleep(0.1)

    def _close_sockets(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            try:
                # A thread that waits in accept or recv returns.
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            try:
                one.close()
            except OSError:
                pass


class Gauge:
    """Memory, descriptors and the longest turn, looked at again and again."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.memory = self.descriptors = 0
        self.turn, self.work = 0.0, []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(20)

    def _run(self) -> None:
        asked = time.monotonic()
        while not self._is_over.wait(0.03):
            self.memory = max(self.memory, self.stage.server.rss_anon())
            self.descriptors = max(self.descriptors, self.stage.descriptors())
            if time.monotonic() - asked > 5:
                asked = time.monotonic()
                try:
                    _, turn, work = self.stage.turns()
                except (OSError, ValueError):
                    continue
                if turn > self.turn:
                    self.turn, self.work = turn, work
