# SPDX-License-Identifier: Apache-2.0
"""100,000 mixed exchanges through pinproxy, every byte of both directions compared.

Clients speak HTTP/1.1 and HTTP/2, origins too; nginx and nghttpd are among them. GET, HEAD, POST and PUT, with lengths and chunked, from nothing to some MB,
with trailers, ranges and codings, answers from the cache, origins that break off; meanwhile the pins change, and one
proxy makes way for the next on the same port. All of it follows from numbers: `--first N --requests 1` repeats one.
"""
from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import logging
import os
import random
import re
import shutil
import signal
import ssl
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import kernel_log
import verify_origin
from nginx_origin import start_nginx
from origin import Certificates, FILE_HOSTS, OTHER_HOST
from pinned import PinnedProxy, server_context
from processes import BenchError, Server, free_port, progress, raise_descriptor_limit
from verify_client import Asked, Http1Client, Http2Client, check
from verify_plan import FAULTY_HOST, HOSTS, files, path_of, plan_of

PATIENCE = 60
STOP_PATIENCE = 40
TIMEOUTS = {"connect": "10s", "head": "10s", "firstByte": "20s", "stall": "20s", "idle": "60s", "drain": "30s"}
STREAMS = 8
SHOWN = 20


class FileServers:
    """nginx and nghttpd with the same files, over HTTP/2."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        if shutil.which("nghttpd") is None:
            raise BenchError("nghttpd is not installed: apt-get install nghttp2-server")
        folder.mkdir()
        for plan in files():
            file = folder / plan.path.removeprefix("/")
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(plan.whole_answer())
        # Connections end again and again, with a GOAWAY amid the load.
        nginx, port = start_nginx(folder, folder, certificates,
                                  ["keepalive_requests 200;", "error_page 405 =200 $uri;"])
        self.ports = [port, free_port()]
        keys = [str(certificates.folder / name) for name in ("leaf.key", "leaf.pem")]
        nghttpd = Server(
            "nghttpd", ["nghttpd", "-a", "127.0.0.1", "-d", str(folder), "-m", "100", str(self.ports[1]), *keys],
            folder / "nghttpd.log")
        self.servers = [nginx, nghttpd]
        nghttpd.wait_until_listening([self.ports[1]])

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


class Stage:
    """The origins, and one proxy after the other on one port."""

    def __init__(self, binary: str, folder: Path, port: int | None = None, settings: dict | None = None, start=Server) -> None:
        self.binary, self.folder = binary, folder
        self.certificates = Certificates(folder / "certificates")
        self.differences = folder / "differences"
        self.differences.touch()
        self.origins = [verify_origin.start(server_context(self.certificates), is_http2, self.differences)
                        for is_http2 in (False, True, False)]
        self.files = FileServers(folder / "files", self.certificates)
        self.port = port or free_port()
        ports = [port for _, port in self.origins]
        self.pins = folder / "own-pins"
        self.pins.mkdir()
        self.write_pins()
        self.settings = {
            "listeners": [{"address": f"127.0.0.1:{self.port}", "http2": True}],
            "pins": "own-pins",
            "cache": {"memory": "16MB"},
            "hosts": {host: {"resolve": f"127.0.0.1:{port}"}
                      for host, port in zip((*HOSTS, FAULTY_HOST), ports)}} | (settings or {})
        for host, port in zip(FILE_HOSTS, self.files.ports):
            self.settings["hosts"][host] = {"resolve": f"127.0.0.1:{port}", "httpVersion": "2"}
        self.settings["hosts"][OTHER_HOST]["httpVersion"] = "2"
        self.proxy = PinnedProxy(binary, folder, self.certificates, ports[0], settings=self.settings, timeouts=TIMEOUTS,
                                 start=start)
        self.start = start
        self.watches = [kernel_log.Watch(self.proxy.pid)]
        self.ended: list[Server] = []

    def write_pins(self) -> None:
        pins = [{"spki-sha256": self.certificates.leaf_pin}, {"spki-sha256": self.certificates.backup_pin, "backup": True},
                {"spki-sha256": base64.b64encode(random.randbytes(32)).decode(), "backup": True}]
        beside = self.pins / "pins.new"
        beside.write_text(json.dumps({"version": 1, "pinnedDomains": {
            host: {"pins": pins} for host in (*HOSTS, FAULTY_HOST, *FILE_HOSTS)}}))
        beside.rename(self.pins / "pins.json")

    async def reload(self) -> None:
        self.write_pins()
        start = self.proxy.server.log.stat().st_size
        self.proxy.server.process.send_signal(signal.SIGHUP)
        await self._wait(lambda: '"event":"reloaded"' in self.proxy.server.log.read_text()[start:], "a reload is not told of")

    async def succeed(self, number: int) -> None:
        """SIGTERM, and a successor on the same port while the predecessor finishes what is under way."""
        predecessor = self.proxy.server
        predecessor.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 15
        while True:
            server = self._launch(number)
            await self._wait(lambda: server.process.poll() is not None or '"event":"listening"' in server.log.read_text(),
                             "the successor does not listen")
            if server.process.poll() is None:
                break
            # As long as the port is the predecessor's.
            if server.process.poll() != 69 or time.monotonic() > deadline:
                raise BenchError(f"the successor ended with {server.process.poll()}:\n{server.log_tail(5)}")
            server.log.write_text("")
        self.watches.append(kernel_log.Watch(server.process.pid))
        await self._await_end(predecessor)

    def _launch(self, number: int) -> Server:
        """Starts a successor, which is the proxy from now on."""
        self.proxy.server = self.start("pinproxy", [self.binary, "run", "--config", str(self.folder / "config.json")],
                                       self.folder / f"events-{number}.log")
        return self.proxy.server

    async def _await_end(self, predecessor: Server) -> None:
        await self._wait(lambda: predecessor.process.poll() is not None, "the predecessor does not end", STOP_PATIENCE)
        self.ended.append(predecessor)

    @staticmethod
    async def _wait(condition, text: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise BenchError(f"{text} for {seconds:g} s")
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        self.proxy.server.stop()
        self.ended.append(self.proxy.server)
        for process, _ in self.origins:
            process.terminate()
        self.files.stop()

    def told_of(self, path: str) -> list[str]:
        """What the task log says of it."""
        with open(self.folder / "access.log") as lines:
            return [line.strip() for line in lines if f'{path}"' in line]

    def cache_tally(self) -> Counter:
        with open(self.folder / "access.log") as lines:
            return Counter(found.group(1) for line in lines if (found := re.search(r'"cache":"(\w+)"', line)))


class Load:
    def __init__(self, stage: Stage, wanted) -> None:
        self.stage, self.wanted = stage, wanted
        self.numbers = iter(range(wanted.first, wanted.first + wanted.requests))
        self.done = 0
        self.tally: Counter = Counter()
        self.bytes: Counter = Counter()
        self.wrong: list[str] = []

    async def play(self, client) -> None:
        for number in self.numbers:
            plan = plan_of(path_of(number))
            # A faulty answer must not have been stored.
            for _ in range(2 if plan.fault is not None and number % 4 == 0 else 1):
                asked = Asked.of(plan, number)
                try:
                    received = await asyncio.wait_for(client.exchange(asked), PATIENCE)
                    if number == self.wanted.spoil:
                        received.body = received.body[:-1] + bytes([~received.body[-1] & 255])
                    fault = check(asked, received)
                except asyncio.TimeoutError:
                    fault = f"no answer for {PATIENCE} s"
                self.tally[f"{client.name} {asked.method} {plan.kind}{' part' if asked.range else ''}"] += 1
                self.tally[f"to {plan.host}" if plan.host in FILE_HOSTS else "to an origin of HTTP/2" if plan.host == OTHER_HOST
                           else "to an origin of HTTP/1.1"] += 1
                self.bytes["sent"] += plan.sent_size
                self.bytes["received"] += len(received.body)
                if fault is not None:
                    self.wrong.append(f"{number} {client.name} {asked.method} {plan.host}{plan.path} "
                                      f"{'chunked ' if plan.is_chunked else ''}{plan.sent_size} up, {plan.size} down: {fault}")
                    progress(self.wrong[-1][:1500])
                    if len(self.wrong) >= SHOWN:
                        return
            self.done += 1
            if self.done % 10_000 == 0:
                progress(f"{self.done:>8} exchanges")
            if isinstance(client, Http1Client) and number % 50 == 0:
                client.close()

    async def change(self) -> None:
        """Reloads and successors, evenly spread."""
        steps = ["succeed"] * self.wanted.drains + ["reload"] * self.wanted.reloads
        random.Random(7).shuffle(steps)
        for number, step in enumerate(steps):
            bound = self.wanted.requests * (number + 1) // (len(steps) + 1)
            while self.done < bound:
                self.stage.proxy.server.check_alive()
                await asyncio.sleep(0.01)
            if step == "reload":
                await self.stage.reload()
            else:
                await self.stage.succeed(number)
            self.tally[step] += 1

    async def run(self) -> None:
        width = self.wanted.width
        clients = [Http1Client(self.stage.port) for _ in range(width // 2)]
        shared = [Http2Client(self.stage.port) for _ in range(max(1, width // 2 // STREAMS))]
        players = [self.play(client) for client in clients] + [self.play(client) for client in shared * STREAMS]
        tasks = [asyncio.ensure_future(task) for task in [*players, self.change()]]
        try:
            done, _ = await asyncio.wait(tasks[:-1], return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            if not self.wrong:
                await tasks[-1]
        finally:
            for task in tasks:
                task.cancel()
            for client in clients + shared:
                client.close()
        self.tally["refused, and sent again"] = sum(client.refused for client in shared)


    def judge(self, seconds: float) -> None:
        judge(self.stage, self, seconds)
        cache = self.stage.cache_tally()
        if self.wanted.requests > 200 and not (cache["hit"] and cache["miss"]):
            raise BenchError("nothing came from the cache")


def judge(stage: Stage, load: Load, seconds: float) -> None:
    """Prints what was done, once all is stopped, and fails when anything was wrong."""
    cache = stage.cache_tally()
    print(f"{load.done} exchanges in {seconds:.0f} s, {load.bytes['sent'] >> 20} MB up and "
          f"{load.bytes['received'] >> 20} MB down, every byte compared")
    for kind, count in sorted(load.tally.items()):
        print(f"{count:>8} {kind}")
    print("the cache: " + ", ".join(f"{count} {kind}" for kind, count in sorted(cache.items())))
    differences = stage.differences.read_text().splitlines()
    for line in itertools.chain(load.wrong, differences[:SHOWN]):
        print(f"WRONG {line}")
        if found := re.search(r" \S+?(/(?:plain|range|fault)/\S+)", line):
            print("".join(f"      {told}\n" for told in stage.told_of(found.group(1))), end="")
    for watch in stage.watches:
        watch.check()
    for server in stage.ended:
        if server.process.returncode != 0:
            raise BenchError(f"pinproxy ended with {server.process.returncode}:\n{server.log_tail(10)}")
    if load.wrong or differences:
        raise BenchError(f"{len(load.wrong)} answers and {len(differences)} requests were not as they should be")


def run(stage_type: type[Stage], load_type: type[Load], wanted: argparse.Namespace) -> None:
    """Runs a load to its end, and judges it."""
    raise_descriptor_limit()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        stage = stage_type(os.path.abspath(wanted.binary), folder)
        load = load_type(stage, wanted)
        began = time.monotonic()
        try:
            asyncio.run(load.run())
        finally:
            stage.stop()
        load.judge(time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first exchange")
    parser.add_argument("--width", type=int, default=48, help="exchanges at a time")
    parser.add_argument("--reloads", type=int, default=40)
    parser.add_argument("--drains", type=int, default=4, help="successors on the same port")
    parser.add_argument("--spoil", type=int, help="changes the last byte of that exchange's answer: it has to be found")
    run(Stage, Load, parser.parse_args())


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"verify-load: {error}")
