# SPDX-License-Identifier: Apache-2.0
"""A pinproxy of its own before a pinned origin of its own, for the programs that load it until something gives."""
from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from origin import Certificates, KEPT_HOST, Origin
from processes import BenchError, Server

HOST = KEPT_HOST


class PinnedProxy:
    """Started with a forward listener and a gateway to the origin; `ports` has both, in this order."""

    def __init__(self, binary: str, folder: Path, certificates: Certificates, origin_port: int,
                 settings: dict | None = None, timeouts: dict | None = None,
                 start: Callable[[str, list[str], Path], Server] = Server) -> None:
        self.folder = folder
        (folder / "pins").mkdir()
        domain = {"pins": [{"spki-sha256": certificates.leaf_pin},
                           {"spki-sha256": certificates.backup_pin, "backup": True}]}
        (folder / "pins" / "pins.json").write_text(json.dumps({"version": 1, "pinnedDomains": {HOST: domain}}))
        self.configuration = {
            "version": 1,
            "listeners": [{"address": "127.0.0.1:0"},
                          {"address": "127.0.0.1:0", "mode": "gateway", "upstream": f"https://{HOST}"}],
            "pins": "pins",
            "trustAnchors": {"system": False, "files": [str(certificates.ca)]},
            "log": {"tasks": str(folder / "access.log")},
            "defaults": {"timeouts": timeouts or {}},
            "hosts": {HOST: {"resolve": f"127.0.0.1:{origin_port}"}},
        } | (settings or {})
        self.write()
        self.server = start("pinproxy", [binary, "run", "--config", str(folder / "config.json")], folder / "events.log")
        try:
            self.ports = self._announced_ports()
        except BaseException:
            self.server.stop()
            raise

    def write(self) -> None:
        (self.folder / "config.json").write_text(json.dumps(self.configuration, indent=2))

    def _announced_ports(self) -> list[int]:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            self.server.check_alive()
            ports = re.findall(r'"event":"listening","listener":"(?!admin).*?"address":"127\.0\.0\.1:(\d+)"',
                               self.server.log.read_text(errors="replace"))
            if len(ports) == len(self.configuration["listeners"]):
                return [int(port) for port in ports]
            time.sleep(0.02)
        raise BenchError(f"pinproxy does not listen. Its log:\n{self.server.log_tail(10)}")

    @property
    def pid(self) -> int:
        return self.server.process.pid

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def wait_for_event(self, name: str, count: int = 1, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while self.server.log.read_text(errors="replace").count(f'"event":"{name}"') < count:
            self.server.check_alive()
            if time.monotonic() > deadline:
                raise BenchError(f"pinproxy tells of no {name}. Its log:\n{self.server.log_tail(10)}")
            time.sleep(0.05)


def server_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / "leaf.pem", certificates.folder / "leaf.key")
    return context


@contextmanager
def pinned_proxy(binary: str, settings: dict | None = None, timeouts: dict | None = None) -> Iterator[PinnedProxy]:
    """A proxy and its origin in a temporary folder, both stopped at the end; the proxy has to end well."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        origin = Origin(shutil.which("nginx"), folder / "origin")
        (folder / "proxy").mkdir()
        try:
            origin.wait_until_ready()
            proxy = PinnedProxy(binary, folder / "proxy", origin.certificates, origin.ports[KEPT_HOST], settings, timeouts)
            try:
                yield proxy
            finally:
                proxy.server.stop()
        finally:
            origin.server.stop()
        if proxy.server.process.returncode != 0:
            raise BenchError(f"pinproxy ended with {proxy.server.process.returncode}:\n{proxy.server.log_tail(10)}")
