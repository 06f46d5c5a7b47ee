# SPDX-License-Identifier: Apache-2.0
"""A network of this process's own whose connections nftables redirects to pinproxies, and a client that knows no proxy."""
from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from pinned import HOST
from processes import BenchError, Server
from shared_origin import Client

# Of TEST-NET-2: any address beside those of loopback, which the rules leave alone.
ADDRESS = "198.51.100.1"
# Who the proxies run as. The rules exempt that user's connections, and no other's.
USER = pwd.getpwnam("nobody")
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr or done.stdout}")


def enter_network() -> None:
    """From here on this process and those that it starts have a network with loopback and `ADDRESS` alone."""
    if os.geteuid() != 0:
        raise BenchError("connections are redirected in a network of its own, for which it takes root: sudo python3 Benchmarks/shared_soak.py")
    missing = [tool for tool in ("ip", "nft", "setpriv") if shutil.which(tool) is None]
    if missing:
        raise BenchError(f"not installed: {', '.join(missing)} (apt-get install iproute2 nftables util-linux)")
    if _libc.unshare(CLONE_NEWNET):
        raise BenchError(f"no network of its own can be made here: {os.strerror(ctypes.get_errno())}")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")


def give(path: Path) -> None:
    """Lets the proxies have a file, or a folder with all that is in it."""
    for one in [path, *path.rglob("*")]:
        os.chown(one, USER.pw_uid, USER.pw_gid)


def as_user(name: str, command: list[str], log: Path) -> Server:
    """A server of that user; setpriv has to say anew that it ends with the harness."""
    return Server(name, ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups", "--pdeathsig=TERM",
                         "--", *command], log)


class Redirection:
    """Redirects to one proxy after the other, with the rules that `pinproxy redirect` sets. Kept connections stay where they are."""

    def __init__(self, binary: str) -> None:
        self.binary = binary
        self.lock = asyncio.Lock()
        self.target = None
        """whatever belongs to the proxy that new connections come to"""

    async def lead_to(self, port: int, target) -> None:
        async with self.lock:
            await asyncio.to_thread(run, self.binary, "redirect", "--user", USER.pw_name, "--to", str(port), "--apply")
            self.target = target


class UnawareClient(Client):
    """A program that connects to its server, by HTTP or by TLS with an anchor that only the proxies have the key of."""

    def __init__(self, redirection: Redirection, anchor: Path | None) -> None:
        super().__init__(443 if anchor else 80, HOST)
        self.redirection = redirection
        self.tls = ssl.create_default_context(cafile=anchor) if anchor else None
        self.target = None
        """what the connection has been led to"""

    async def connect(self) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        try:
            # The rule that counts is that of the first packet.
            async with self.redirection.lock:
                self.target = self.redirection.target
                await asyncio.get_running_loop().sock_connect(connection, (ADDRESS, self.port))
            self.reader, self.writer = await asyncio.open_connection(
                sock=connection, limit=1 << 20, ssl=self.tls, server_hostname=HOST if self.tls else None)
        except BaseException:
            connection.close()
            raise

    def url(self, path: str) -> str:
        return path
