# SPDX-License-Identifier: Apache-2.0
"""Plays a service manager such as systemd: it has the listening sockets and keeps them, starts services on them (LISTEN_FDS,
sd_listen_fds(3)), and hears what they tell of themselves (NOTIFY_SOCKET, sd_notify(3)), signs of life included."""
from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from pathlib import Path

from processes import BenchError, Server

# Lower descriptors are for the passed ones.
FIRST_OWN = 100
# The service has the number of the shell that becomes it.
PASSING = 'LISTEN_PID=$$ exec "$0" "$@"'


class Manager:
    """Listening sockets on loopback, in the order in which services get them."""

    def __init__(self, names: tuple[str, ...], watchdog: float) -> None:
        self.watchdog = watchdog
        self.names = names
        self.ports: list[int] = []
        self.descriptors: list[int] = []
        for _ in names:
            with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
                self.ports.append(listener.getsockname()[1])
                self.descriptors.append(fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_OWN))

    def start(self, name: str, command: list[str], log: Path) -> Service:
        return Service(self, name, command, log)

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class Service(Server):
    """A process that was started by a manager, and what it has told."""

    def __init__(self, manager: Manager, name: str, command: list[str], log: Path) -> None:
        self.manager = manager
        self.told: list[tuple[float, str]] = []
        self.path = f"{log}.notify"
        Path(self.path).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        environment = {**os.environ, "NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": f"{manager.watchdog * 1e6:.0f}",
                       "LISTEN_FDS": f"{len(manager.names)}", "LISTEN_FDNAMES": ":".join(manager.names)}
        moves = "".join(f" {3 + index}<&{descriptor} {descriptor}<&-" for index, descriptor in enumerate(manager.descriptors))
        # A shell that takes numbers of several digits.
        super().__init__(name, ["bash", "-c", PASSING + moves, *command], log, environment=environment,
                         passing=tuple(manager.descriptors))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        while text := self._socket.recv(4096).decode():
            self.told.append((time.monotonic(), text))

    def has_told(self, text: str) -> bool:
        return any(told == text for _, told in list(self.told))

    def check_alive(self) -> None:
        super().check_alive()
        last = self.told[-1][0] if self.told else None
        if last is not None and time.monotonic() - last > self.manager.watchdog:
            raise BenchError(f"{self.name} gave no sign of life for {self.manager.watchdog:g} s: systemd would have ended it")

    def judge(self) -> None:
        """To be called when the process has ended: whether it has told what a service tells, in this order."""
        # An empty datagram ends the listener behind all that was told.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"", self.path)
        self._listener.join()
        self._socket.close()
        words = [text for _, text in self.told]
        rest = [word for word in words if word != "WATCHDOG=1" and not word.startswith("RELOADING=1\n")]
        if words[:1] != ["READY=1"] or rest[-1] != "STOPPING=1" or set(rest[:-1]) != {"READY=1"}:
            raise BenchError(f"{self.name} told of itself: {words}")
        times = [moment for moment, _ in self.told[:words.index("STOPPING=1") + 1]]
        longest = max(later - earlier for earlier, later in zip(times, times[1:]))
        if longest > self.manager.watchdog:
            raise BenchError(f"{self.name} gave no sign of life for {longest:.1f} s: systemd would have ended it")
