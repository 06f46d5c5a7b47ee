# SPDX-License-Identifier: Apache-2.0
"""Hundreds of reloads under a load of every kind, half of them of broken files: no request may notice.

The load: kept connections and new ones, the cache (hits, requests that wait for another one's answer, validations,
answers that must not be stored), passwords that are slow to verify, uploads, WebSocket, CONNECT as a tunnel and
intercepted, clients of HTTP/2 and an origin of HTTP/2. Each body is compared byte for byte. Every answer is known
beforehand, so a request that fails is one that would not have failed without the reloads; a part of the load without any
comes first. Holds besides: each reload is told as what it is, and descriptors and memory do not grow.
"""
from __future__ import annotations

import argparse
import asyncio
import base64
import ctypes
import itertools
import json
import logging
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import h2c
import kernel_log
import reload_origin
from nginx_origin import start_nginx
from origin import Certificates, CLOSING_HOST, OTHER_HOST
from pinned import HOST, PinnedProxy, server_context
from processes import BenchError, Server, progress, raise_descriptor_limit

PATIENCE = 120
TIMEOUTS = {"connect": "10s", "head": "10s", "firstByte": "15s", "stall": "15s", "idle": "2s"}
MEMORY_ALLOWANCE = 8 << 20
DESCRIPTOR_ALLOWANCE = 4
# A reload is over in milliseconds; that long only when the machine has other things to do.
RELOAD_PATIENCE = 30
USER, PASSWORD = "alice", "correct horse"


class Wrong(Exception):
    """What the proxy should not have done."""


class Stage:
    """The proxy, its origins and its files."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.folder = folder
        self.certificates = Certificates(folder / "certificates")
        self.origin, port = reload_origin.start(server_context, self.certificates)
        self.files = {name: os.urandom(size) for name, size in (("small", 700), ("large", 300_000))}
        self.nginx, other_port = self._start_nginx()
        self.pins = folder / "own-pins"
        self.pins.mkdir()
        self.write_pins("of the start")
        self._write_users()
        self.settings = {
            "listeners": [
                {"address": "127.0.0.1:0", "authentication": {"basic": {"file": "users.htpasswd"}}},
                {"address": "127.0.0.1:0", "mode": "gateway", "upstream": f"https://{HOST}", "http2": True},
                {"address": "127.0.0.1:0", "mode": "gateway", "upstream": f"https://{OTHER_HOST}", "http2": True}],
            "pins": "own-pins",
            "cache": {"memory": "4MB"},
            "interception": {"certificate": "ca/pinproxy-ca.pem", "key": "ca/pinproxy-ca.key"},
            "hosts": {HOST: {"resolve": f"127.0.0.1:{port}", "connect": "intercept"},
                      CLOSING_HOST: {"resolve": f"127.0.0.1:{port}", "connect": "tunnel"},
                      OTHER_HOST: {"resolve": f"127.0.0.1:{other_port}", "httpVersion": "2"}}}
        (folder / "ca").mkdir()
        subprocess.run([binary, "ca", "init", "--dir", str(folder / "ca"), HOST], check=True, stdout=subprocess.DEVNULL)
        self.trusting_ours = ssl.create_default_context(cafile=str(folder / "ca" / "pinproxy-ca.pem"))
        self.trusting_origin = ssl.create_default_context(cafile=str(self.certificates.ca))
        self.proxy = PinnedProxy(binary, folder, self.certificates, port, settings=self.settings, timeouts=TIMEOUTS)
        self.told = 0

    def _start_nginx(self) -> tuple[Server, int]:
        folder = self.folder / "nginx"
        (folder / "files").mkdir(parents=True)
        for name, content in self.files.items():
            (folder / "files" / name).write_bytes(content)
        return start_nginx(folder, folder / "files", self.certificates,
                           ["keepalive_requests 1000000000;", "keepalive_timeout 600s;"])

    def _write_users(self) -> None:
        library = ctypes.CDLL("libcrypt.so.1")
        library.crypt.restype = ctypes.c_char_p
        # Slow to verify: a reload comes meanwhile.
        hashed = library.crypt(PASSWORD.encode(), b"$6$rounds=100000$saltsaltsalt")
        users = self.folder / "users.htpasswd"
        users.write_text(f"{USER}:{hashed.decode()}\n")
        users.chmod(0o600)

    # The files

    def write_pins(self, comment: str, extra: bool = False, broken: str | None = None) -> None:
        pins = [{"spki-sha256": self.certificates.leaf_pin}, {"spki-sha256": self.certificates.backup_pin, "backup": True}]
        if extra:
            key = base64.b64encode(random.randbytes(32)).decode()
            pins.append({"spki-sha256": key, "backup": True, "comment": comment})
        if broken == "pin":
            pins[0] = {"spki-sha256": "c2hvcnQ="}
        document = {"version": 1, "pinnedDomains": {host: {"pins": pins} for host in (HOST, OTHER_HOST)}}
        if broken == "version":
            document["version"] = 2
        text = json.dumps(document)
        self._replace(self.pins / "pins.json", text[:-1] if broken == "cut" else text)

    def write_configuration(self, comment: str, broken: str | None = None) -> None:
        configuration = self.proxy.configuration | {"comment": comment}
        if broken == "key":
            configuration["lissteners"] = []
        elif broken == "file":
            configuration["trustAnchors"] = {"system": False, "files": ["nowhere.pem"]}
        text = json.dumps(configuration)
        self._replace(self.folder / "config.json", text[:-20] if broken == "text" else text)

    @staticmethod
    def _replace(path: Path, text: str) -> None:
        beside = path.with_suffix(".new")
        beside.write_text(text)
        beside.chmod(0o600)
        beside.rename(path)

    def reload_files(self, number: int) -> bool:
        """Writes the files of the next reload; whether they are good."""
        comment = f"reload {number}"
        if number % 2:
            self.write_configuration(comment)
            self.write_pins(comment, extra=number % 4 == 1)
            return True
        broken = ("pin", "key", "version", "text", "cut", "file")[number // 2 % 6]
        if broken in ("pin", "version", "cut"):
            self.write_pins(comment, broken=broken)
        else:
            self.write_configuration(comment, broken=broken)
        return False

    # Reloads

    async def hang_up(self, is_good: bool) -> None:
        start = self.proxy.server.log.stat().st_size
        self.proxy.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_PATIENCE
        while True:
            self.proxy.server.check_alive()
            with open(self.proxy.server.log, "rb") as log:
                log.seek(start)
                # What a runtime writes of a crash is no JSON.
                lines = [json.loads(line) for line in log.read().split(b"\n")[:-1] if line.startswith(b"{")]
            told = {line["event"] for line in lines if line.get("trigger") == "SIGHUP"}
            if told:
                break
            if time.monotonic() > deadline:
                raise Wrong(f"a reload has not been told of for {RELOAD_PATIENCE} s")
            await asyncio.sleep(0.005)
        if told != {"reloaded" if is_good else "reloadFailed"}:
            raise Wrong(f"a reload of {'good' if is_good else 'broken'} files was told as {told}")

    async def settle(self, number: int) -> tuple[int, int]:
        """Idle connections to origins go with a reload, those of clients with timeouts.idle; then what is left."""
        self.write_configuration(f"settled {number}")
        self.write_pins(f"settled {number}")
        await self.hang_up(True)
        await asyncio.sleep(5)
        return self.proxy.descriptors(), self.proxy.server.rss_anon()

    def stop(self) -> None:
        self.proxy.server.stop()
        self.nginx.stop()
        self.origin.terminate()


class Client:
    """Does one kind of work after the other; a seed decides which, and what it asks for."""

    authorization = "Proxy-Authorization: Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    def __init__(self, stage: Stage, seed: int, tally: Counter, numbers: itertools.count) -> None:
        self.stage, self.tally, self.numbers = stage, tally, numbers
        self.random = random.Random(seed)
        self.ports = stage.proxy.ports

    async def work(self) -> None:
        kinds = {"plain": 20, "cached": 25, "waiting": 10, "uploads": 10, "socket": 6, "tunnel": 5, "intercepted": 6,
                 "streams": 8, "other": 6, "stranger": 4}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        try:
            await asyncio.wait_for(getattr(self, kind)(), PATIENCE)
        except asyncio.TimeoutError:
            raise Wrong(f"{kind}: no answer for {PATIENCE} s") from None
        except (ConnectionError, asyncio.IncompleteReadError, h2c.Ended, ssl.SSLError, ValueError) as error:
            raise Wrong(f"{kind}: {type(error).__name__}: {error}") from error

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.ports[0])

    @staticmethod
    async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            if status >= 200 or status == 101:
                break
        lower, body = head.lower(), b""
        if b"transfer-encoding: chunked" in lower:
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        else:
            for line in lower.split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    body = await reader.readexactly(int(line[15:]))
        return status, head, body

    async def _ask(self, streams, path: str, *, expected: bytes, method: str = "GET", sent: bytes = b"",
                   absolute: str = f"http://{HOST}", host: str = HOST, chunked: bool = False) -> None:
        reader, writer = streams
        lines = [f"{method} {absolute}{path} HTTP/1.1", f"Host: {host}"]
        if absolute:
            lines.append(self.authorization)
        if chunked:
            lines.append("Transfer-Encoding: chunked")
            sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(sent), sent)
        elif sent:
            lines.append(f"Content-Length: {len(sent)}")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + sent)
        status, head, body = await self._answer(reader)
        self.tally["exchanges"] += 1
        if status != 200 or body != expected:
            raise Wrong(f"{method} {absolute}{path}: {len(body)} bytes for {len(expected)}: {head!r} {body[:300]!r}")

    # Kinds of work

    async def plain(self) -> None:
        streams = await self._open()
        for _ in range(self.random.randint(1, 20)):
            path = f"/plain/{next(self.numbers)}"
            await self._ask(streams, path, expected=reload_origin.body_of(path))
        streams[1].close()

    async def cached(self) -> None:
        streams = await self._open()
        for _ in range(self.random.randint(1, 20)):
            path = f"/{self.random.choice(('fresh', 'fresh', 'foreign'))}/{self.random.randrange(40)}"
            await self._ask(streams, path, expected=reload_origin.body_of(path))
        streams[1].close()

    async def waiting(self) -> None:
        """Several ask for one cold URL: all but the first wait for its answer, which may turn out not to be theirs."""
        path = f"/{self.random.choice(('plain', 'private', 'fresh', 'foreign'))}/{next(self.numbers)}.slow"

        async def ask() -> None:
            streams = await self._open()
            await self._ask(streams, path, expected=reload_origin.body_of(path))
            streams[1].close()
        await asyncio.gather(*(ask() for _ in range(3)))

    async def uploads(self) -> None:
        streams = await self._open()
        for _ in range(self.random.randint(1, 5)):
            path, sent = f"/upload/{next(self.numbers)}", self.random.randbytes(self.random.choice((1, 5000, 150_000)))
            await self._ask(streams, path, method="PUT", sent=sent, expected=reload_origin.upload_body(path, sent),
                            chunked=self.random.random() < 0.5)
        streams[1].close()

    async def socket(self) -> None:
        reader, writer = await self._open()
        path = f"/socket/{next(self.numbers)}"
        writer.write(f"GET http://{HOST}{path} HTTP/1.1\r\nHost: {HOST}\r\n{self.authorization}\r\nConnection: upgrade\r\n"
                     "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        status, head, body = await self._answer(reader)
        if status != 101:
            raise Wrong(f"{path}: {head!r} {body[:300]!r}")
        for _ in range(self.random.randint(1, 10)):
            await self._echo(reader, writer, path)
        writer.close()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        sent = self.random.randbytes(self.random.choice((1, 100, 40_000)))
        writer.write(sent)
        if await reader.readexactly(len(sent)) != sent:
            raise Wrong(f"{path}: other bytes came back")
        self.tally["exchanges"] += 1
        await asyncio.sleep(0.02)

    async def _connect(self, host: str, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self._open()
        writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n{self.authorization}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head:
            raise Wrong(f"CONNECT {host}: {head!r}")
        await writer.start_tls(context, server_hostname=host)
        return reader, writer

    async def _inside(self, host: str, context: ssl.SSLContext) -> None:
        streams = await self._connect(host, context)
        for _ in range(self.random.randint(1, 8)):
            path = f"/{self.random.choice(('plain', 'fresh'))}/{self.random.randrange(1000)}"
            await self._ask(streams, path, absolute="", host=host, expected=reload_origin.body_of(path))
        streams[1].close()

    async def tunnel(self) -> None:
        await self._inside(CLOSING_HOST, self.stage.trusting_origin)

    async def intercepted(self) -> None:
        await self._inside(HOST, self.stage.trusting_ours)

    async def streams(self) -> None:
        connection = await h2c.Connection.open(self.ports[1])
        for _ in range(self.random.randint(1, 5)):
            requests, expected = [], []
            for _ in range(self.random.randint(1, 10)):
                kind = self.random.choice(("plain", "fresh", "upload"))
                path = f"/{kind}/{next(self.numbers) if kind != 'fresh' else self.random.randrange(40)}"
                sent = self.random.randbytes(1000) if kind == "upload" else b""
                requests.append(("PUT" if sent else "GET", path, sent))
                expected.append((True, reload_origin.upload_body(path, sent) if sent else reload_origin.body_of(path)))
            await self._many(connection, requests, expected, self.ports[1])
        connection.close()

    async def _many(self, connection, requests, expected, port: int) -> None:
        answers = await connection.exchange(requests, f"127.0.0.1:{port}")
        for request, answer, wanted in zip(requests, answers, expected):
            self.tally["exchanges"] += 1
            if answer != wanted:
                raise Wrong(f"h2c {request[:2]}: 200: {answer[0]}, {len(answer[1])} bytes: {answer[1][:300]!r}")

    async def other(self) -> None:
        """The origin of HTTP/2, from clients of both versions."""
        names = [self.random.choice(list(self.stage.files)) for _ in range(self.random.randint(1, 6))]
        if self.random.random() < 0.5:
            connection = await h2c.Connection.open(self.ports[2])
            await self._many(connection, [("GET", f"/{name}", b"") for name in names],
                             [(True, self.stage.files[name]) for name in names], self.ports[2])
            return connection.close()
        streams = await self._open()
        for name in names:
            await self._ask(streams, f"/{name}", absolute=f"http://{OTHER_HOST}", host=OTHER_HOST,
                            expected=self.stage.files[name])
        streams[1].close()

    async def stranger(self) -> None:
        """A wrong password, another one each time: its verification takes its time, and it is refused."""
        reader, writer = await self._open()
        words = base64.b64encode(f"{USER}:{next(self.numbers)}".encode()).decode()
        writer.write(f"GET http://{HOST}/plain/x HTTP/1.1\r\nHost: {HOST}\r\nProxy-Authorization: Basic {words}\r\n\r\n".encode())
        status, head, body = await self._answer(reader)
        self.tally["exchanges"] += 1
        if status != 407:
            raise Wrong(f"a wrong password: {head!r} {body[:300]!r}")
        writer.close()


class Load:
    def __init__(self, stage: Stage, width: int) -> None:
        self.stage, self.width = stage, width
        self.tally: Counter = Counter()
        self.numbers = itertools.count()
        self.seeds = itertools.count()
        self.is_over = False

    async def during(self, work) -> None:
        """Runs while something else is done; ends with that, or with the first thing that is wrong."""
        self.is_over = False

        async def play() -> None:
            client = Client(self.stage, next(self.seeds), self.tally, self.numbers)
            while not self.is_over:
                await client.work()

        players = [asyncio.ensure_future(play()) for _ in range(self.width)]
        main = asyncio.ensure_future(work)
        try:
            await asyncio.wait([main, *players], return_when=asyncio.FIRST_COMPLETED)
            if main.done():
                main.result()
                self.is_over = True
                await asyncio.gather(*players)
                return
            for task in players:
                if task.done():
                    task.result()
        finally:
            for task in [main, *players]:
                task.cancel()

    async def exchanges(self, count: int, seconds: float) -> None:
        """Waits until so many more are done."""
        bound = self.tally["exchanges"] + count
        deadline = time.monotonic() + seconds
        while self.tally["exchanges"] < bound:
            if time.monotonic() > deadline:
                raise Wrong(f"{count} exchanges have not been done in {seconds:g} s")
            self.stage.proxy.server.check_alive()
            await asyncio.sleep(0.01)


async def run(stage: Stage, wanted) -> tuple[tuple[int, int], tuple[int, int], Counter]:
    load = Load(stage, wanted.width)
    reloads: Counter = Counter()

    async def reload(first: int, last: int) -> None:
        for number in range(first, last):
            is_good = stage.reload_files(number)
            await stage.hang_up(is_good)
            reloads["good" if is_good else "broken"] += 1
            # Some traffic in each generation.
            await load.exchanges(wanted.between, PATIENCE)
            if (number + 1) % 50 == 0:
                progress(f"{number + 1:>4} reloads, {load.tally['exchanges']} exchanges")

    await load.during(load.exchanges(wanted.before, 300))
    progress(f"{load.tally['exchanges']} exchanges without a reload")
    warm = max(2, wanted.reloads // 5)
    await load.during(reload(0, warm))
    before = await stage.settle(1)
    progress(f"after {warm} reloads: {before[0]} descriptors, {before[1] >> 10} KB")
    await load.during(reload(warm, wanted.reloads))
    after = await stage.settle(2)
    print(f"{wanted.reloads} reloads ({reloads['good']} good, {reloads['broken']} broken), "
          f"{load.tally['exchanges']} exchanges, none of which failed")
    return before, after, load.tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--reloads", type=int, default=200)
    parser.add_argument("--width", type=int, default=24, help="clients at a time")
    parser.add_argument("--before", type=int, default=2000, help="exchanges without a reload, first")
    parser.add_argument("--between", type=int, default=30, help="exchanges after each reload, at least")
    parser.add_argument("--seconds", type=float, default=900, help="limit of the whole")
    wanted = parser.parse_args()
    raise_descriptor_limit()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    random.seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        stage = Stage(os.path.abspath(wanted.binary), folder)
        kernel = kernel_log.Watch(stage.proxy.pid)
        began = time.monotonic()
        try:
            before, after, _ = asyncio.run(asyncio.wait_for(run(stage, wanted), wanted.seconds))
        except Wrong as wrong:
            code = stage.proxy.server.process.poll()
            end = "" if code is None else f"\npinproxy ended with {code}:\n{stage.proxy.server.log_tail(10)}"
            raise BenchError(f"{wrong}{end}") from None
        except asyncio.TimeoutError:
            raise BenchError(f"it has not come to its end in {wanted.seconds:g} s") from None
        finally:
            stage.stop()
        print(f"{time.monotonic() - began:.0f} s")
        print(f"descriptors: {before[0]} after the first fifth, {after[0]} at the end")
        print(f"memory: {before[1] >> 10} KB after the first fifth, {after[1] >> 10} KB at the end")
        kernel.check()
        if stage.proxy.server.process.returncode != 0:
            raise BenchError(f"pinproxy ended with {stage.proxy.server.process.returncode}:\n{stage.proxy.server.log_tail(10)}")
        if after[0] > before[0] + DESCRIPTOR_ALLOWANCE:
            raise BenchError(f"{after[0] - before[0]} descriptors are left")
        if after[1] > before[1] + MEMORY_ALLOWANCE:
            raise BenchError(f"memory grew by {(after[1] - before[1]) >> 10} KB")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"reload-load: {error}")
