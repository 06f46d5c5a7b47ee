# SPDX-License-Identifier: Apache-2.0
"""Eight pinproxies with one cache in Redis beside eight with a cache each, under the same requests.

Addresses are drawn by Zipf's law, and each request goes to any of the proxies, as a load balancer sends it. All start empty.
The origin is nginx, whose log counts its requests and bytes. Each body is compared with its file.
"""
from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import os
import random
import re
import secrets
import base64
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from nginx_origin import start_nginx
from origin import Certificates
from pinned import HOST, PinnedProxy
from processes import BenchError, Server, progress, raise_descriptor_limit
from redis_servers import Redis
from shared_origin import Client


@dataclass
class Figures:
    name: str
    requests: int = 0
    origin_requests: int = 0
    origin_bytes: int = 0
    p50: float = 0.0
    p99: float = 0.0
    worst: float = 0.0
    cpu: float = 0.0
    """of all proxies, in seconds"""
    redis_cpu: float = 0.0
    shared: int = 0
    """responses that came from Redis"""


class Zipf:
    def __init__(self, count: int, exponent: float, seed: int) -> None:
        self.bounds = list(itertools.accumulate(1 / (rank + 1) ** exponent for rank in range(count)))
        self.random = random.Random(seed)

    def draw(self) -> int:
        return bisect.bisect_left(self.bounds, self.random.random() * self.bounds[-1])


def make_files(folder: Path, count: int) -> list[bytes]:
    """Sizes from half a kilobyte to 200 KB, most of them small."""
    folder.mkdir()
    generator = random.Random(1)
    bodies = [generator.randbytes(int(500 * 400 ** generator.random())) for _ in range(count)]
    for number, body in enumerate(bodies):
        (folder / str(number)).write_bytes(body)
    return bodies


class Stage:
    def __init__(self, wanted, folder: Path, certificates: Certificates, origin_port: int, redis: Redis | None) -> None:
        self.proxies: list[PinnedProxy] = []
        key = folder / "shared.key"
        key.write_text(base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
        key.chmod(0o600)
        cache: dict = {"memory": wanted.memory}
        if redis is not None:
            cache["redis"] = {"url": f"redis://127.0.0.1:{redis.port}", "keyFile": str(key), "timeout": wanted.timeout}
        try:
            for number in range(wanted.hosts):
                place = folder / f"proxy{number}"
                place.mkdir()
                self.proxies.append(PinnedProxy(os.path.abspath(wanted.binary), place, certificates, origin_port, settings={
                    "listeners": [{"address": "127.0.0.1:0"}], "workers": 1, "cache": cache,
                    "admin": {"address": "127.0.0.1:0"}}))
        except BaseException:
            self.stop()
            raise

    def metric(self, pattern: str) -> int:
        """The sum of a sample of all proxies."""
        total = 0
        for proxy in self.proxies:
            port = re.findall(r'"event":"listening".*?"address":"127\.0\.0\.1:(\d+)"', proxy.server.log.read_text())[-1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                total += sum(int(float(value)) for value in re.findall(rf"^{pattern} (\S+)$", page.read().decode(), re.MULTILINE))
        return total

    def cpu_seconds(self) -> float:
        return sum(proxy.server.cpu_seconds() for proxy in self.proxies)

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.server.stop()


async def load(stage: Stage, bodies: list[bytes], wanted, seed: int) -> tuple[int, list[float]]:
    """All clients draw from one sequence, so that each kind of cache sees the same requests."""
    zipf, target = Zipf(len(bodies), wanted.exponent, seed), random.Random(seed)
    times: list[float] = []
    deadline = time.monotonic() + wanted.seconds
    left = wanted.requests or sys.maxsize

    async def play() -> None:
        nonlocal left
        clients = [Client(proxy.ports[0], HOST) for proxy in stage.proxies]
        while left > 0 and time.monotonic() < deadline:
            left -= 1
            number, client = zipf.draw(), clients[target.randrange(len(clients))]
            begun = time.perf_counter()
            status, _, body = await client.ask("GET", f"/{number}")
            times.append(time.perf_counter() - begun)
            if status != 200 or body != bodies[number]:
                raise BenchError(f"/{number}: {status}, {len(body)} bytes for {len(bodies[number])}")
        for client in clients:
            client.close()

    tasks = [asyncio.ensure_future(play()) for _ in range(wanted.clients)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return len(times), sorted(times)


def origin_log(file: Path) -> tuple[int, int]:
    """Requests and bytes of bodies, by nginx' own log."""
    sizes = re.findall(r'" \d{3} (\d+) "', file.read_text())
    return len(sizes), sum(int(size) for size in sizes)


def measure(name: str, wanted, folder: Path, certificates: Certificates, files: Path, bodies: list[bytes],
            is_shared: bool, seed: int) -> Figures:
    folder.mkdir()
    nginx_folder = folder / "nginx"
    nginx_folder.mkdir()
    redis = nginx = stage = None
    try:
        nginx, port = start_nginx(nginx_folder, files, certificates, [
            "expires 1h;", "keepalive_requests 1000000000;"], access_log=f"{nginx_folder}/access.log combined")
        if is_shared:
            redis = Redis(folder / "redis", "--maxmemory", wanted.redis_memory, "--maxmemory-policy", "allkeys-lru")
        stage = Stage(wanted, folder, certificates, port, redis)
        progress(f"{name}: {wanted.hosts} proxies, {wanted.clients} clients, {wanted.seconds:g} s")
        cpu, redis_cpu = stage.cpu_seconds(), redis.server.cpu_seconds() if redis else 0.0
        count, times = asyncio.run(load(stage, bodies, wanted, seed))
        if not times:
            raise BenchError("no request was made")
        requests, size = origin_log(nginx_folder / "access.log")
        figures = Figures(name, count, requests, size, times[len(times) // 2], times[len(times) * 99 // 100], times[-1],
                          stage.cpu_seconds() - cpu, redis.server.cpu_seconds() - redis_cpu if redis else 0.0)
        if redis:
            figures.shared = stage.metric(r'pinproxy_shared_cache_lookups_total\{result="hit"\}')
            tampered = stage.metric("pinproxy_shared_cache_tampered_total")
            if tampered:
                raise BenchError(f"{tampered} records that were not the owner's")
        return figures
    finally:
        for server in filter(None, (stage, nginx, redis)):
            server.stop()


def table(all_figures: list[Figures]) -> str:
    heading = (f"{'':<10}{'requests':>10}{'at origin':>11}{'share':>8}{'MB of it':>10}{'p50 ms':>9}{'p99 ms':>9}{'worst':>8}"
               f"{'CPU µs/req':>12}{'Redis µs':>10}{'from Redis':>12}")
    lines = [heading]
    for one in all_figures:
        lines.append(f"{one.name:<10}{one.requests:>10,}{one.origin_requests:>11,}{one.origin_requests / one.requests:>8.1%}"
                     f"{one.origin_bytes / 1e6:>10.1f}{one.p50 * 1000:>9.2f}{one.p99 * 1000:>9.2f}{one.worst * 1000:>8.1f}"
                     f"{one.cpu / one.requests * 1e6:>12.0f}{one.redis_cpu / one.requests * 1e6:>10.0f}{one.shared:>12,}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--hosts", type=int, default=8, help="proxies, as of so many hosts")
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement, at most")
    parser.add_argument("--requests", type=int, default=40_000, help="of each measurement, at most; 0: no bound")
    parser.add_argument("--clients", type=int, default=16, help="requests at a time")
    parser.add_argument("--urls", type=int, default=5_000)
    parser.add_argument("--exponent", type=float, default=0.9, help="of Zipf's law")
    parser.add_argument("--memory", default="64MB", help="of each proxy's cache")
    parser.add_argument("--redis-memory", default="1gb")
    parser.add_argument("--timeout", default="5ms", help="of a look-up in Redis")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="writes the figures there, too")
    parser.add_argument("--short", action="store_true", help="three proxies, 3,000 requests: whether it works, not how well")
    wanted = parser.parse_args()
    if wanted.short:
        wanted.hosts, wanted.requests, wanted.urls, wanted.seconds = 3, 3_000, 500, 20
    raise_descriptor_limit()
    all_figures = []
    with tempfile.TemporaryDirectory(prefix="pinproxy-shared-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        certificates = Certificates(folder / "certificates")
        bodies = make_files(folder / "files", wanted.urls)
        for number in range(wanted.rounds):
            for kind in ("separate", "shared"):
                all_figures.append(measure(kind, wanted, folder / f"{kind}{number}", certificates, folder / "files", bodies,
                                           kind == "shared", number))
    print(table(all_figures))
    if wanted.json:
        wanted.json.write_text(json.dumps([asdict(one) for one in all_figures], indent=2))
    separate, shared = all_figures[-2:]
    if not shared.shared:
        raise BenchError("nothing came from Redis")
    if shared.origin_requests / shared.requests > separate.origin_requests / separate.requests:
        raise BenchError("the origin has more requests with a shared cache than without")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench-shared: {error}")
