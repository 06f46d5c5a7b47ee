# SPDX-License-Identifier: Apache-2.0
"""An hour of mixed traffic through pinproxies with shared caches, while all around them comes and goes.

Two proxies share a cache behind Sentinels, two others one in a cluster. Meanwhile primaries die and others follow, servers are
silent, killed, emptied, slots move, a collector of traces comes and goes, the files change every ten seconds (good and bad), and
the owner purges. Some clients use the proxies as forward proxies, others know of none: their connections are redirected by
nftables, and their TLS is intercepted. Holds: each response is right, byte for byte, and in time; no request fails; after a purge nobody uses an older
response as long as Redis is reached; descriptors, memory and threads at the end are those after the first tenth.
"""
from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import kernel_log
from origin import Certificates
from pinned import HOST, PinnedProxy, server_context
from processes import BenchError, Server, progress, raise_descriptor_limit
from redirection import ADDRESS, Redirection, UnawareClient, as_user, enter_network, give, run
from redis_servers import Cluster, RedisError, Sentinels
from shared_origin import TAGS, Client, Origin, body_of, tag_of

TIMEOUTS = {"connect": "10s", "head": "10s", "firstByte": "20s", "stall": "20s", "idle": "20s"}
# The longest that a request may take: the origin's part is milliseconds, a wait for another machine five seconds.
PATIENCE = 12.0
# After a purge: of a machine's own memory after two seconds, with one for a busy machine; of Redis at once, but for a look-up
# under way that another request joins.
OWN_GRACE = 3.0
REDIS_GRACE = 0.5
# An invalidation that had no reply in time is repeated; meanwhile other machines may use what it has not removed.
POST_GRACE = 5.0
# So long after trouble each breaker is closed again: it is open for 30 s at most.
RECOVERY = 35.0
MEMORY_ALLOWANCE = 12 << 20
DESCRIPTOR_ALLOWANCE = 8
THREAD_ALLOWANCE = 2
SHOWN = 20
SIZES = (0, 100, 3_000, 65_536, 65_537, 300_000)
LANGUAGES = ("de", "en", "fr")
# The share of requests of clients that know no proxy.
UNAWARE = 0.4
KINDS = {"cached": 40, "short": 15, "vary": 10, "slow": 8, "private": 5, "plain": 7, "post": 6, "head": 4, "part": 5}


@dataclass
class Purge:
    """A purge, or a POST, that was confirmed."""
    time: float
    version: int
    of_memory: bool
    """whether it also removes what machines have in their own memory"""


@dataclass
class Group:
    """Proxies with one cache."""
    name: str
    redis: Sentinels | Cluster
    proxies: list[PinnedProxy] = field(default_factory=list)
    purges: dict[str, list[Purge]] = field(default_factory=lambda: defaultdict(list))
    calm_since: float = 0.0
    is_in_trouble: bool = False

    def floor(self, path: str, begun: float, is_shared: bool) -> int:
        """The oldest version that a request may be served."""
        if self.is_in_trouble:
            return 0
        def grace(purge: Purge) -> float:
            return POST_GRACE if not purge.of_memory else REDIS_GRACE if is_shared else OWN_GRACE
        return max((purge.version for purge in self.purges[path]
                    if (is_shared or purge.of_memory) and max(purge.time, self.calm_since) + grace(purge) < begun), default=0)

    def note(self, path: str, purge: Purge) -> None:
        known = self.purges[path]
        known.append(purge)
        # A later one has at least its version.
        del known[:-50]


class Collector:
    """Takes spans, when it is there."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.server: asyncio.Server | None = None
        self.messages = 0

    async def toggle(self) -> None:
        if self.server is None:
            self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, reuse_address=True)
        else:
            self.server.close()
            self.server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while self.server is not None:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(re.search(rb"(?i)content-length: *(\d+)", head).group(1)))
                self.messages += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            writer.close()


class Stage:
    def __init__(self, wanted, folder: Path) -> None:
        self.wanted, self.folder = wanted, folder
        self.certificates = Certificates(folder / "certificates")
        self.origin = Origin()
        self.collector = Collector()
        self.groups: list[Group] = []
        # Where the user of the proxies may read it.
        self.binary = str(shutil.copy(wanted.binary, folder / "pinproxy"))
        self.redirection = Redirection(self.binary)
        self.reloads: Counter[str] = Counter()
        self.watches: list[kernel_log.Watch] = []

    async def start(self) -> None:
        port = await self.origin.start(server_context(self.certificates), ADDRESS, 443)
        for name, kind in (("sentinels", Sentinels), ("cluster", Cluster)):
            group = Group(name, kind(self.folder / name))
            self.groups.append(group)
            key = base64.b64encode(secrets.token_bytes(32)).decode() + "\n"
            for number in range(self.wanted.hosts):
                place = self.folder / f"{name}-proxy{number}"
                (place / "own-pins").mkdir(parents=True)
                self._replace(place / "shared.key", key)
                self.write_pins(place, "of the start")
                proxy = PinnedProxy(self.binary, place, self.certificates, port, timeouts=TIMEOUTS, start=self._start, settings={
                    "listeners": [{"address": "127.0.0.1:0", "http2": True}, {"address": "127.0.0.1:0", "mode": "transparent"}],
                    "workers": 2, "hosts": {HOST: {"resolve": f"{ADDRESS}:{port}", "connect": "intercept"}},
                    "interception": {"certificate": "local-ca.pem", "key": "local-ca.key"},
                    "admin": {"address": "127.0.0.1:0"}, "pins": "own-pins",
                    # Sentinels and nodes name servers by addresses of loopback.
                    "access": {"denyAddresses": []},
                    "tracing": {"otlp": f"http://127.0.0.1:{self.collector.port}", "sample": 0.2},
                    "cache": {"memory": "4MB", "redis": group.redis.settings | {"keyFile": "shared.key", "prefix": "soak:",
                                                                                 "timeout": self.wanted.timeout}}})
                self.watches.append(kernel_log.Watch(proxy.pid))
                group.proxies.append(proxy)

    def _start(self, name: str, command: list[str], log: Path) -> Server:
        """A proxy with the local CA that all have, so that a client may come to any of them."""
        place, first = log.parent, self.folder / "sentinels-proxy0"
        if place == first:
            run(self.binary, "ca", "init", "--config", str(place / "config.json"))
        else:
            for file in ("local-ca.pem", "local-ca.key"):
                shutil.copy(first / file, place / file)
        give(place)
        return as_user(name, command, log)

    @property
    def anchor(self) -> Path:
        return self.folder / "sentinels-proxy0" / "local-ca.pem"

    @property
    def proxies(self) -> list[PinnedProxy]:
        return [proxy for group in self.groups for proxy in group.proxies]

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.server.stop()
        for group in self.groups:
            group.redis.stop()
        self.origin.stop()

    # Files

    @staticmethod
    def _replace(path: Path, text: str) -> None:
        beside = path.with_suffix(".new")
        beside.write_text(text)
        beside.chmod(0o600)
        give(beside)
        beside.rename(path)

    def write_pins(self, place: Path, comment: str, broken: bool = False) -> None:
        pins = [{"spki-sha256": self.certificates.leaf_pin}, {"spki-sha256": self.certificates.backup_pin, "backup": True}]
        text = json.dumps({"version": 1, "comment": comment, "pinnedDomains": {HOST: {"pins": pins}}})
        self._replace(place / "own-pins" / "pins.json", text[:-1] if broken else text)

    def write_configuration(self, proxy: PinnedProxy, number: int) -> bool:
        """Writes the files of the next reload; whether they are good."""
        configuration = json.loads(json.dumps(proxy.configuration)) | {"comment": f"reload {number}"}
        kind = ("comment", "cut", "timeout", "key", "pins", "file", "body", "broken pins")[number % 8]
        redis = configuration["cache"]["redis"]
        if kind == "timeout":
            redis["timeout"] = f"{5 + number % 20}ms"
        elif kind == "body":
            redis["maximumBody"] = f"{256 + number % 100}KB"
        elif kind == "key":
            redis["paßword"] = "x"
        elif kind == "file":
            redis["keyFile"] = "nowhere.key"
        text = json.dumps(configuration)
        self._replace(proxy.folder / "config.json", text[:-20] if kind == "cut" else text)
        self.write_pins(proxy.folder, f"reload {number}", broken=kind == "broken pins")
        return kind not in ("cut", "key", "file", "broken pins")

    async def hang_up(self, proxy: PinnedProxy, is_good: bool) -> None:
        start = proxy.server.log.stat().st_size
        proxy.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while True:
            proxy.server.check_alive()
            with open(proxy.server.log, "rb") as log:
                log.seek(start)
                lines = [json.loads(line) for line in log.read().split(b"\n")[:-1] if line.startswith(b"{")]
            told = {line["event"] for line in lines if line.get("trigger") == "SIGHUP"}
            if told:
                break
            if time.monotonic() > deadline:
                raise BenchError("a reload has not been told of for 30 s")
            await asyncio.sleep(0.01)
        if told != {"reloaded" if is_good else "reloadFailed"}:
            raise BenchError(f"a reload of {'good' if is_good else 'broken'} files was told as {told}: {lines[-3:]}")
        self.reloads["good" if is_good else "broken"] += 1

    # The owner

    @staticmethod
    def admin_port(proxy: PinnedProxy) -> int:
        return int(re.findall(r'"event":"listening".*?"address":"127\.0\.0\.1:(\d+)"', proxy.server.log.read_text())[-1])

    async def admin(self, proxy: PinnedProxy, method: str, target: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.admin_port(proxy))
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        response = await asyncio.wait_for(reader.read(-1), 30)
        writer.close()
        return response

    def resources(self) -> tuple[int, int, int]:
        """Descriptors, bytes and threads of all proxies."""
        return (sum(proxy.descriptors() for proxy in self.proxies), sum(proxy.server.rss_anon() for proxy in self.proxies),
                sum(len(os.listdir(f"/proc/{proxy.pid}/task")) for proxy in self.proxies))


class Load:
    def __init__(self, stage: Stage) -> None:
        self.stage, self.wanted = stage, stage.wanted
        self.tally: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.slowest = 0.0
        self.is_paused = False
        self.is_over = False
        self.active = 0

    def fault(self, text: str) -> None:
        self.wrong.append(text)
        progress(f"WRONG {text[:600]}")
        if len(self.wrong) >= SHOWN:
            raise BenchError(f"{len(self.wrong)} responses were not as they should be")

    # Traffic

    def path(self, generator: random.Random, kind: str) -> str:
        # A few are asked for by all, others by nobody again.
        number = generator.randrange(40) if generator.random() < 0.8 else generator.randrange(1 << 40)
        return f"/{kind}/{generator.choice(SIZES)}/{number}"

    async def play(self, seed: int) -> None:
        generator = random.Random(seed)
        forward = [(Client(proxy.ports[0], HOST), group) for group in self.stage.groups for proxy in group.proxies]
        unaware = [UnawareClient(self.stage.redirection, anchor) for anchor in (None, self.stage.anchor)]
        clients = [client for client, _ in forward] + unaware
        while not self.is_over:
            if self.is_paused:
                for client in clients:
                    client.close()
                await asyncio.sleep(0.1)
                continue
            kind = generator.choices(list(KINDS), list(KINDS.values()))[0]
            self.active += 1
            try:
                if generator.random() < UNAWARE:
                    client = generator.choice(unaware)
                    way = "redirected TLS" if client.tls else "redirected HTTP"
                    if generator.random() < 0.1:
                        client.close()
                    try:
                        if client.writer is None:
                            await asyncio.wait_for(client.connect(), PATIENCE)
                    except (OSError, asyncio.TimeoutError) as error:
                        self.fault(f"{way}: {type(error).__name__}: {error}")
                        continue
                    group = client.target
                else:
                    client, group = generator.choice(forward)
                    way = "by the proxy's address"
                    if generator.random() < 0.02:
                        client.close()
                await self.exchange(group, client, kind, generator)
            finally:
                self.active -= 1
            self.tally["requests"] += 1
            self.tally[way] += 1
            self.tally[kind] += 1
            await asyncio.sleep(self.wanted.pause * generator.random())
        for client in clients:
            client.close()

    async def exchange(self, group: Group, client: Client, kind: str, generator: random.Random) -> None:
        path = self.path(generator, {"post": "cached", "head": "cached", "part": "cached"}.get(kind, kind))
        method, lines, language = "GET", [], ""
        if kind == "vary":
            language = generator.choice(LANGUAGES)
            lines.append(f"Accept-Language: {language}")
        elif kind == "head":
            method = "HEAD"
        elif kind == "post":
            method = "POST"
        elif kind == "part":
            lines.append("Range: bytes=10-99")
        text = f"{group.name} {kind} {path}"
        begun = time.monotonic()
        try:
            status, fields, body = await asyncio.wait_for(client.ask(method, path, *lines, body=b"x" if method == "POST" else b""),
                                                          PATIENCE * 3)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, asyncio.TimeoutError) as error:
            return self.fault(f"{text}: {type(error).__name__}: {error}")
        taken = time.monotonic() - begun
        self.slowest = max(self.slowest, taken)
        if taken > PATIENCE:
            self.fault(f"{text}: a response after {taken:.1f} s")
        if method == "POST":
            if status != 200 or body != b"done":
                self.fault(f"{text}: {status} {body[:200]!r}")
            group.note(path, Purge(time.monotonic(), int(fields["x-version"]), False))
            return
        if kind == "part" and status == 416 and path.split("/")[2] == "0":
            return
        if status not in (200, 206):
            return self.fault(f"{text}: {status} {fields} {body[:300]!r}")
        version = int(fields.get("x-version", "0"))
        expected = body_of(path, version, language)
        if status == 206:
            expected = expected[10:100]
        if method == "HEAD":
            expected = b""
        if body != expected or fields.get("etag") != f'"{path} {version} {language}"':
            self.fault(f"{text}: {len(body)} bytes for {len(expected)} of version {version}: {fields} {body[:100]!r}")
        if kind == "vary" and fields.get("vary") != "Accept-Language":
            self.fault(f"{text}: {fields}")
        said = fields.get("cache-status", "")
        is_shared = "hit" in said and "detail=shared" in said
        self.tally["from Redis"] += is_shared
        self.tally["from memory"] += "hit" in said and not is_shared
        if kind in ("private", "plain") and is_shared:
            self.fault(f"{text}: from Redis: {said}")
        floor = group.floor(path, begun, is_shared)
        if version < floor:
            self.fault(f"{text}: version {version} where {floor} was current at a purge: {said}")

    # The owner

    async def purge(self) -> None:
        generator = random.Random(3)
        stage = self.stage
        while not self.is_over:
            await asyncio.sleep(1 + 3 * generator.random())
            group = generator.choice(stage.groups)
            kind = generator.choice(("url", "url", "tag", "prefix", "all"))
            path = f"/{generator.choice(('cached', 'slow'))}/{generator.choice(SIZES)}/{generator.randrange(40)}"
            query, fits = {
                "url": (f"url=https://{HOST}{path}", lambda one: one == path),
                "tag": (f"tag={tag_of(path)}", lambda one: tag_of(one) == tag_of(path)),
                "prefix": (f"prefix=https://{HOST}{path.rsplit('/', 1)[0]}/", lambda one: one.startswith(path.rsplit("/", 1)[0] + "/")),
                "all": ("all", lambda one: True),
            }[kind]
            paths = [one for name in ("cached", "slow", "vary") for size in SIZES for number in range(40)
                     if fits(one := f"/{name}/{size}/{number}")]
            # Some have a newer version, without which a purge would show nothing.
            for one in generator.sample(paths, min(len(paths), 50)):
                stage.origin.versions[one] += 1
            versions = {one: stage.origin.version(one) for one in paths}
            response = await stage.admin(generator.choice(group.proxies), "DELETE", f"/cache?{query}")
            if b" 200 " not in response[:20]:
                self.fault(f"purge of {query}: {response[:300]!r}")
            is_confirmed = b'"shared":true' in response.replace(b" ", b"")
            self.tally["purges confirmed" if is_confirmed else "purges not confirmed"] += 1
            if is_confirmed:
                now = time.monotonic()
                for one, version in versions.items():
                    group.note(one, Purge(now, version, True))

    # Trouble

    async def trouble(self, group: Group) -> None:
        generator = random.Random(group.name)
        group.calm_since = time.monotonic()
        kinds = ("die", "fall silent", "be emptied", "move") if isinstance(group.redis, Sentinels) else \
            ("move", "die", "fall silent", "be emptied")
        number = 0
        while not self.is_over:
            await self.sleep(self.wanted.calm)
            if self.is_over:
                break
            kind = kinds[number % len(kinds)]
            number += 1
            group.is_in_trouble = True
            progress(f"{time.strftime('%H:%M:%S')} {group.name}: {kind}, {self.tally['requests']} requests, {len(self.wrong)} wrong")
            await asyncio.to_thread(self.harm, group.redis, kind, generator)
            self.tally[f"{group.name}: {kind}"] += 1
            group.calm_since = time.monotonic() + RECOVERY
            group.is_in_trouble = False

    @staticmethod
    def harm(redis: Sentinels | Cluster, kind: str, generator: random.Random) -> None:
        """One trouble, until the servers are whole again."""
        def settle() -> None:
            deadline = time.monotonic() + 90
            while True:
                try:
                    if redis.is_whole():
                        return
                except (OSError, RedisError, KeyError):
                    pass
                if time.monotonic() > deadline:
                    raise BenchError(f"the {redis.kind} are not whole again")
                time.sleep(0.2)

        is_cluster = isinstance(redis, Cluster)
        server = generator.choice(redis.nodes) if is_cluster else redis.primary()
        if kind == "die":
            server.kill()
            time.sleep(4)
            server.start()
        elif kind == "fall silent":
            server.pause()
            time.sleep(generator.choice((0.3, 2.5)))
            server.resume()
        elif kind == "be emptied":
            server.ask("FLUSHALL")
        elif is_cluster:
            source = generator.randrange(3)
            for slot in redis.slots_in_use(source)[:30]:
                redis.move(slot, source, (source + 1) % 3)
        else:
            try:
                redis.sentinels[0].ask("SENTINEL", "FAILOVER", "mymaster")
            except RedisError:
                # One that was a moment ago.
                pass
            time.sleep(3)
        settle()

    async def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.is_over and time.monotonic() < end:
            await asyncio.sleep(0.1)

    async def change_files(self) -> None:
        number = 0
        while not self.is_over:
            await self.sleep(self.wanted.between)
            for proxy in self.stage.proxies:
                if self.is_over:
                    return
                is_good = self.stage.write_configuration(proxy, number)
                await self.stage.hang_up(proxy, is_good)
            number += 1

    async def toggle_collector(self) -> None:
        while not self.is_over:
            await self.stage.collector.toggle()
            await self.sleep(self.wanted.collector)

    async def redirect(self) -> None:
        """Leads new connections to the next proxy, while others are at work."""
        while not self.is_over:
            for group in self.stage.groups:
                for proxy in group.proxies:
                    await self.stage.redirection.lead_to(proxy.ports[1], group)
                    self.tally["changes of the redirection"] += 1
                    await self.sleep(2)

    # The course

    async def settle(self) -> tuple[int, int, int]:
        """No traffic for a while: what is held then."""
        self.is_paused = True
        while self.active:
            await asyncio.sleep(0.05)
        # As long as timeouts.idle, and what is given back later.
        await asyncio.sleep(self.wanted.idle)
        found = self.stage.resources()
        self.is_paused = False
        return found

    async def run(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        stage, seconds = self.stage, self.wanted.seconds
        await stage.start()
        await stage.redirection.lead_to(stage.proxies[0].ports[1], stage.groups[0])
        tasks = [self.play(seed) for seed in range(self.wanted.width)]
        tasks += [self.purge(), self.change_files(), self.toggle_collector(), self.redirect(), *map(self.trouble, stage.groups)]
        running = [asyncio.ensure_future(task) for task in tasks]
        try:
            async def course() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
                await asyncio.sleep(max(seconds / 10, self.wanted.calm))
                before = await self.settle()
                progress(f"after {self.tally['requests']} requests: {before[0]} descriptors, {before[1] >> 10} KB, {before[2]} threads")
                await asyncio.sleep(seconds * 0.9)
                after = await self.settle()
                self.is_over = True
                return before, after

            main = asyncio.ensure_future(course())
            running.append(main)
            while not main.done():
                done, _ = await asyncio.wait(running, timeout=5, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
                for proxy in stage.proxies:
                    proxy.server.check_alive()
            # What is under way ends: a trouble is mended first.
            await asyncio.gather(*running)
            return main.result()
        finally:
            for task in running:
                task.cancel()


def judge(stage: Stage, load: Load, before, after, seconds: float) -> None:
    names = ("descriptors", "KB", "threads")
    print(f"{load.tally['requests']} requests in {seconds:.0f} s, every byte compared; the slowest took {load.slowest:.2f} s")
    for kind, count in sorted(load.tally.items()):
        print(f"{count:>9} {kind}")
    print(f"reloads: {stage.reloads['good']} good, {stage.reloads['broken']} broken; the origin: {dict(stage.origin.requests)}; "
          f"messages of traces: {stage.collector.messages}")
    for name, one, other in zip(names, before, after):
        shift = 10 if name == "KB" else 0
        print(f"{name}: {one >> shift} after the first tenth, {other >> shift} at the end")
    for line in load.wrong:
        print(f"WRONG {line}")
    for watch in stage.watches:
        watch.check()
    for proxy in stage.proxies:
        if proxy.server.process.returncode != 0:
            raise BenchError(f"pinproxy ended with {proxy.server.process.returncode}:\n{proxy.server.log_tail(10)}")
    if load.wrong:
        raise BenchError(f"{len(load.wrong)} responses were not as they should be")
    for kind in ("from Redis", "purges confirmed", "redirected HTTP", "redirected TLS"):
        if not load.tally[kind]:
            raise BenchError(f"there were none of these: {kind}")
    count = len(stage.proxies)
    for name, one, other, allowance in zip(names, before, after, (DESCRIPTOR_ALLOWANCE, MEMORY_ALLOWANCE, THREAD_ALLOWANCE)):
        if other > one + allowance * count:
            raise BenchError(f"{name} grew from {one} to {other} in {count} processes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--hosts", type=int, default=2, help="proxies of each cache")
    parser.add_argument("--width", type=int, default=12, help="clients at a time")
    parser.add_argument("--pause", type=float, default=0.02, help="of a client after each request, at most")
    parser.add_argument("--timeout", default="20ms", help="of a look-up in Redis")
    parser.add_argument("--between", type=float, default=10, help="seconds between changes of files")
    parser.add_argument("--calm", type=float, default=60, help="seconds between troubles of a cache's servers")
    parser.add_argument("--collector", type=float, default=25, help="seconds that a collector is there, or is not")
    parser.add_argument("--idle", type=float, default=26, help="seconds without traffic before descriptors are counted")
    parser.add_argument("--short", action="store_true", help="three minutes, with more trouble")
    wanted = parser.parse_args()
    if wanted.short:
        wanted.seconds, wanted.calm, wanted.between = 180, 30, 5
    raise_descriptor_limit()
    enter_network()
    with tempfile.TemporaryDirectory(prefix="pinproxy-shared-soak-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        stage = Stage(wanted, folder)
        load = Load(stage)
        began = time.monotonic()
        before = after = None
        try:
            before, after = asyncio.run(load.run())
        finally:
            stage.stop()
            if before is None:
                for line in load.wrong:
                    print(f"WRONG {line}")
        judge(stage, load, before, after, time.monotonic() - began)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"soak-shared: {error}")
