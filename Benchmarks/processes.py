# SPDX-License-Identifier: Apache-2.0
"""Server processes: started in the foreground, looked at through /proc, stopped whatever happens."""
from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """A fault that a person can act on; its message says how."""


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def raise_descriptor_limit() -> int:
    """Raises this process's limit of open files (the servers inherit it) and returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def free_port() -> int:
    """A free loopback port below the range from which the kernel takes source ports."""
    for _ in range(200):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise BenchError("no free port between 20000 and 32000 on 127.0.0.1: stop something that listens there")


def prepare_child() -> None:
    # A harness that is killed outright must not leave servers behind.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class LineSink:
    """Writes what a server sends it over TCP to a file: the log of a server that can send lines and write none."""

    def __init__(self, path: Path) -> None:
        path.touch()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "line_sink.py"), str(listener.fileno()), str(path)],
                stdin=subprocess.DEVNULL, pass_fds=[listener.fileno()], start_new_session=True,
                preexec_fn=prepare_child)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Server:
    """One server in the foreground, in a session of its own so that Ctrl-C reaches only the harness."""

    def __init__(self, name: str, command: list[str], log: Path, stdout: Path | None = None,
                 environment: dict[str, str] | None = None, passing: tuple[int, ...] = ()) -> None:
        self.name = name
        self.log = log
        self.companions: list[LineSink] = []
        with open(log, "ab") as errors, open(stdout or log, "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                env=environment, pass_fds=passing, start_new_session=True, preexec_fn=prepare_child)

    def check_alive(self) -> None:
        code = self.process.poll()
        if code is not None:
            raise BenchError(f"{self.name} ended with {code}. The end of its log:\n{self.log_tail(15)}")

    def log_tail(self, lines: int) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_until_listening(self, ports: list[int], seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        for port in ports:
            while True:
                self.check_alive()
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise BenchError(f"{self.name} does not listen on port {port} after {seconds:g} s") from None
                    time.sleep(0.02)

    def stop(self, seconds: float = 5.0) -> None:
        """Asks, then insists. The session's process group holds the workers too."""
        group = self.process.pid
        for stop_signal, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
            try:
                os.killpg(group, stop_signal)
            except ProcessLookupError:
                break
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline and _group_exists(group, self.process):
                time.sleep(0.02)
        self.process.wait(timeout=5)
        for companion in self.companions:
            companion.stop()

    # What the whole tree of this server has used and holds.

    def cpu_seconds(self) -> float:
        return sum(_cpu_ticks(pid) for pid in process_tree(self.process.pid)) / CLOCK_TICKS

    def rss_anon(self) -> int:
        """Bytes of private resident memory (`RssAnon` of proc(5)), summed over the tree."""
        return sum(_rss_anon(pid) for pid in process_tree(self.process.pid))


def _group_exists(group: int, process: subprocess.Popen) -> bool:
    process.poll()
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third one on; the name before them may hold blanks."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2:].split()


def process_tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat_fields(int(entry))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
    tree, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        tree.append(pid)
        waiting.extend(children.get(pid, []))
    return tree


def _cpu_ticks(pid: int) -> int:
    fields = _stat_fields(pid)
    # utime, stime, and the same of children already reaped: fields 14 to 17 of proc(5).
    return sum(int(field) for field in fields[11:15]) if fields else 0


def _rss_anon(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0
