#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a request's cost depends on the number of hosts, pinned domains, clients and rules; and whether one client's
work shows in another's times. See README.md."""
from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Callable, Iterable

import callgrind
import fixed_rate
from callgrind import Counts
from clients import Connection, Keeper
from instructions import demangled
from origin import CLOSING_HOST, KEPT_HOST, MANY_HOSTS, Origin
from peers import PEERS, Peer, Pinproxy, Setup, announced_ports, pins
from processes import BenchError, progress, raise_descriptor_limit
from workloads import many_clients

REPOSITORY = Path(__file__).resolve().parent.parent
# What a table may differ by and still be called flat.
TOLERANCE = 0.05
# So many hosts are asked in turn: each has a kept connection to the origin.
ASKED_HOSTS = 1000
# Prime to the numbers of hosts.
STEP = 7919
# A second.
DISTURBANCES = 20


@dataclass
class Case:
    """One line of a table."""

    size: int
    setup: Setup
    load: Callable[[Peer, int], None]
    requests: int
    warm_up: Callable[[Peer], None] | None = None


# Hosts and pinned domains.

def host(number: int) -> str:
    return f"h{number}.{MANY_HOSTS}"


def ask_hosts(peer: Peer, places: Iterable[int], hosts: int, most: int) -> None:
    """A request for each place, over at most `most` hosts in turn, which are spread over the whole table."""
    connection = Connection(peer, KEPT_HOST)
    asked = min(hosts, most)
    for number in places:
        name = host(number % asked * STEP % hosts)
        connection.exchange(f"GET http://{name}/1k HTTP/1.1\r\nHost: {name}\r\nUser-Agent: bench\r\n\r\n".encode())
    connection.close()


def host_case(hosts: int, most: int, setup: Setup) -> Case:
    """Every host that is counted was asked before. Each load goes on behind the last one: a host that was asked a moment ago would
    not be found as one of many is."""
    places = itertools.count()

    def load(peer: Peer, requests: int) -> None:
        ask_hosts(peer, itertools.islice(places, requests), hosts, most)
    return Case(hosts, setup, load, 2 * ASKED_HOSTS, lambda peer: load(peer, min(hosts, most)))


def host_cases(origin: Origin) -> list[Case]:
    target = {"upgrade": True, "resolve": f"127.0.0.1:{origin.ports[KEPT_HOST]}"}
    return [host_case(count, ASKED_HOSTS, Setup(settings={"hosts": {host(number): target for number in range(count)}}))
            for count in (10, 1_000, 100_000)]


def name_cases(origin: Origin) -> list[Case]:
    """Names of one entry, at one address: each has a connection of its own."""
    target = {"upgrade": True, "includeSubdomains": True, "resolve": f"127.0.0.1:{origin.ports[KEPT_HOST]}"}
    return [host_case(count, ASKED_HOSTS, Setup(settings={"hosts": {MANY_HOSTS: target}})) for count in (10, ASKED_HOSTS)]


def visited_cases(origin: Origin) -> list[Case]:
    """Stored responses of hosts without TLS: no connections, so that more hosts can be asked than there are descriptors."""
    target = {"includeSubdomains": True, "resolve": f"127.0.0.1:{origin.plain_port}"}
    settings = {"hosts": {MANY_HOSTS: target}, "cache": {"memory": "1GB"}}
    return [host_case(count, count, Setup(caches=True, settings=settings)) for count in (10, 1_000, 20_000)]


def pin_cases(origin: Origin) -> list[Case]:
    target = {"upgrade": True, "includeSubdomains": True, "resolve": f"127.0.0.1:{origin.ports[KEPT_HOST]}"}
    pinned = pins(origin.certificates)
    return [host_case(count, ASKED_HOSTS, Setup(settings={"hosts": {MANY_HOSTS: target}, "pinnedDomains": {
        host(number): pinned for number in range(count)}})) for count in (10, 1_000, 10_000)]


# Clients.

def client_cases(path: str, caches: bool) -> list[Case]:
    most = many_clients(raise_descriptor_limit())

    def load(peer: Peer, requests: int, count: int) -> None:
        with ExitStack() as stack:
            clients = []
            for _ in range(count):
                clients.append(stack.enter_context(Keeper(peer, KEPT_HOST, path)))
                # At once: a connection without a request is closed after a while.
                clients[-1].ask()
            turns = itertools.islice(itertools.cycle(clients), requests)
            # As many at once as there are clients, up to 32.
            while batch := list(itertools.islice(turns, min(count, 32))):
                for client in batch:
                    client.send()
                for client in batch:
                    client.receive()
    return [Case(count, Setup(caches=caches, clients=max(count, 512)),
                 lambda peer, requests, count=count: load(peer, requests, count), max(1024, count))
            for count in (1, 32, 1_000, most)]


# Rules of hooks: none of them matches, which is the most that a request can pay.

def rule_cases(rules: Callable[[int], dict], caches: bool = False) -> list[Case]:
    def load(peer: Peer, requests: int) -> None:
        with Keeper(peer, KEPT_HOST, "/1k") as client:
            for _ in range(requests + 1):
                client.ask()
    cases = []
    for count in (0, 3, 30):
        defaults = {"timeouts": {"idle": "10m"}} | (rules(count) if count else {})
        if caches:
            stores = {"then": "store", "ttl": "1h"}
            defaults = {"timeouts": {"idle": "10m"}, "cache": {"rules": (rules(count)["rules"] if count else []) + [stores]}}
        cases.append(Case(count, Setup(caches=caches, settings={"defaults": defaults}), load, 1000))
    return cases


def response_rules(count: int) -> dict:
    return {"responses": {"rules": [{"status": 500 + number, "contentType": f"text/x-{number}", "then": "cancel"}
                                    for number in range(count)]}}


def redirect_rules(count: int) -> dict:
    return {"redirects": {"policy": "follow", "rules": [{"to": f"r{number}.test", "then": "deny"}
                                                        for number in range(count)]}}


def field_rules(count: int) -> dict:
    return {"headers": {"request": {"remove": [f"X-Not-There-{number}" for number in range(count)]},
                        "response": {"remove": [f"X-Not-There-{number}" for number in range(count)]}}}


def cache_rules(count: int) -> dict:
    return {"rules": [{"path": f"/not-there-{number}/*", "status": 200, "then": "store", "ttl": "1h"}
                      for number in range(count)]}


TABLES: dict[str, tuple[str, Callable[[Origin], list[Case]]]] = {
    "hosts": (f"hosts in the configuration, up to {ASKED_HOSTS:,} of them asked in turn: 1 KB, miss", host_cases),
    "names": ("names at one address, asked in turn: 1 KB, miss", name_cases),
    "visited": ("hosts asked in turn, without entries of their own: 1 KB, stored", visited_cases),
    "pins": (f"pinned domains, up to {ASKED_HOSTS:,} of them asked in turn: 1 KB, miss", pin_cases),
    "clients": ("clients with a connection each, asking in turn: 1 KB, miss", lambda _: client_cases("/1k", False)),
    "clients-hit": ("clients with a connection each, asking in turn: 1 KB, stored", lambda _: client_cases("/1k", True)),
    "response-rules": ("rules for responses, none matches: 1 KB, miss", lambda _: rule_cases(response_rules)),
    "redirect-rules": ("rules for redirects, no redirect: 1 KB, miss", lambda _: rule_cases(redirect_rules)),
    "field-rules": ("fields to remove on either side, none is there: 1 KB, miss", lambda _: rule_cases(field_rules)),
    "cache-rules": ("rules of the cache, the last one matches: 1 KB, stored", lambda _: rule_cases(cache_rules, True)),
}


class ManyPinned(Pinproxy):
    """pinproxy with pinned domains of its own choice, and without hosts that a table does not name."""

    def write(self, folder: Path, setup: Setup) -> None:
        super().write(folder, Setup(**{**setup.__dict__, "settings": {
            key: value for key, value in setup.settings.items() if key != "pinnedDomains"}}))
        if "pinnedDomains" in setup.settings:
            (folder / "pins" / "many.json").write_text(
                json.dumps({"version": 1, "pinnedDomains": setup.settings["pinnedDomains"]}))


def measure_table(name: str, origin: Origin, binary: str, folder: Path, pool: ThreadPoolExecutor,
                  functions: int) -> Callable[[], bool]:
    title, make = TABLES[name]
    waiting = [(case, callgrind.per_request(
        lambda: ManyPinned(binary, origin, origin.certificates.ca), folder / f"{name}-{case.size}", case.setup, case.load,
        case.requests, pool, counts_system_calls=False, warm_up=case.warm_up)) for case in make(origin)]

    def finish() -> bool:
        measured = [(case, result()) for case, result in waiting]
        first = measured[0][1].instructions
        print(f"\n{title}")
        for case, counts in measured:
            print(f"  {case.size:>9,}  {counts.instructions:>12,.{1 if callgrind.misses_of else 0}f}  × {counts.instructions / first:.2f}")
        most = max((counts for _, counts in measured), key=lambda counts: counts.instructions)
        is_flat = most.instructions <= first * (1 + TOLERANCE)
        if not is_flat or functions:
            print("  flat" if is_flat else "  NOT FLAT. The functions that differ most between the first line and the last:")
            print(_differences(measured[-1][1] - measured[0][1], functions or 12))
        sys.stdout.flush()
        return is_flat
    return finish


def _differences(difference: Counts, count: int) -> str:
    costs = sorted(difference.functions.items(), key=lambda item: -abs(item[1]))[:count]
    readable = demangled({function for (_, function), _ in costs})
    return "\n".join(f"    {cost:>+10,.{1 if callgrind.misses_of else 0}f}  {Path(place).name[:16]:<16}  {readable.get(function, function)[:120]}"
                     for (place, function), cost in costs)


# What one client's work does to the times of others.

def _openssl_request(folder: Path, bits: int) -> None:
    subprocess.run(["openssl", "req", "-x509", "-newkey", f"rsa:{bits}", "-nodes", "-days", "2", "-subj", "/CN=bench.test",
                    "-addext", "subjectAltName=DNS:bench.test,DNS:localhost", "-keyout", str(folder / "listener.key"),
                    "-out", str(folder / "listener.pem")], check=True, capture_output=True)


class Disturbed(Pinproxy):
    """A second listener with TLS (RSA of 4,096 bits) and a third with passwords (bcrypt); bodies of 2 MB are stored on the disk."""

    def __init__(self, binary: str, origin: Origin, ca: Path) -> None:
        super().__init__(binary, origin, ca)
        self.store = Path()

    def write(self, folder: Path, setup: Setup) -> None:
        _openssl_request(folder, 4096)
        # bcrypt with cost 10, which htpasswd -B -C 10 makes, of a password that nobody has to know.
        (folder / "users").write_text("bench:$2y$10$abcdefghijklmnopqrstuuM8EHDbVZ0sFQQ0vBxYzPoQxgQ1CTVWe\n")
        super().write(folder, setup)
        path = folder / "config.json"
        value = json.loads(path.read_text())
        self.store = folder / "store"
        value["cache"] = {"memory": "1MB", "disk": {"path": str(self.store), "size": "1GB"}}
        value["hosts"][KEPT_HOST]["cache"] = {
            "rules": [{"path": "/2m", "then": "store", "ttl": "1h"}, {"then": "skip"}]}
        value["listeners"] += [
            {"address": "127.0.0.1:0", "tls": {"certificate": "listener.pem", "key": "listener.key"}},
            {"address": "127.0.0.1:0", "authentication": {"basic": {"file": "users"}}}]
        path.write_text(json.dumps(value))

    def listener_ports(self) -> list[int]:
        return announced_ports(self.running, 3, 15)


def disturbances(peer: Disturbed) -> dict[str, Callable[[], None] | None]:
    _, tls_port, password_port = peer.listener_ports()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE

    def client_handshake() -> None:
        with socket.create_connection(("127.0.0.1", tls_port), timeout=30) as plain:
            trusting.wrap_socket(plain).close()

    def origin_handshake() -> None:
        with Keeper(peer, CLOSING_HOST, "/1k") as client:
            client.ask()

    def long_head() -> None:
        connection = Connection(peer, KEPT_HOST)
        fields = "".join(f"X-Field-{number}: {'v' * 700}\r\n" for number in range(80))
        connection.exchange(f"GET {peer.target(KEPT_HOST, '/1k')} HTTP/1.1\r\nHost: {KEPT_HOST}\r\n{fields}\r\n".encode())
        connection.close()

    def password() -> None:
        with socket.create_connection(("127.0.0.1", password_port), timeout=60) as client:
            client.sendall(f"GET {peer.target(KEPT_HOST, '/1k')} HTTP/1.1\r\nHost: {KEPT_HOST}\r\n"
                           "Proxy-Authorization: Basic YmVuY2g6d3Jvbmc=\r\nConnection: close\r\n\r\n".encode())
            while client.recv(65536):
                pass

    def stored_body() -> None:
        # As if other programs had used the memory since: the disk has to be waited for.
        for path in peer.store.rglob("*"):
            if path.is_file() and path.stat().st_size > 1 << 20:
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with Keeper(peer, KEPT_HOST, "/2m") as client:
            client.ask()

    stored_body()
    return {"nothing else": None, "bodies of 2 MB from the disk": stored_body, "TLS handshakes of a client, RSA 4096": client_handshake,
            "TLS handshakes with an origin": origin_handshake, "heads of 60 KB": long_head,
            "wrong passwords (bcrypt, cost 10)": password}


def _disturb(action: Callable[[], None], a_second: int, count: Synchronized) -> None:
    # The harness's own handler would stop the servers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    next_time = time.monotonic()
    while True:
        action()
        count.value += 1
        next_time = max(next_time + 1 / a_second, time.monotonic())
        time.sleep(max(0, next_time - time.monotonic()))


def measure_times(origin: Origin, binary: str, folder: Path, rate: int, seconds: int) -> None:
    print(f"\n1 KB, miss, {rate} requests a second, while one other client does {DISTURBANCES} times a second what the first "
          "column says: milliseconds from the intended start")
    print(f"  {'':<40}{'p50':>8}{'p99':>8}{'most':>8}{'times':>8}")
    peer = Disturbed(binary, origin, origin.certificates.ca)
    try:
        peer.start(folder / "times", Setup())
        for name, action in disturbances(peer).items():
            count = multiprocessing.Value("l", 0)
            # A process of its own, so that its work does not delay the clients that are measured.
            other = multiprocessing.Process(target=_disturb, args=(action, DISTURBANCES, count), daemon=True) if action else None
            if other:
                other.start()
            try:
                load = fixed_rate.drive(peer, KEPT_HOST, "/1k", rate, seconds)
                if other and not other.is_alive():
                    raise BenchError(f"the client of {name} has failed")
            finally:
                if other:
                    other.terminate()
                    other.join()
            print(f"  {name:<40}{load.p50:>8.2f}{load.p99:>8.2f}{load.most:>8.2f}{count.value if other else '':>8}", flush=True)
    finally:
        peer.stop()


def options() -> argparse.Namespace:
    def chosen(text: str) -> list[str]:
        unknown = set(text.split(",")) - set(TABLES) - {"times"}
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(TABLES)}, times")
        return text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", metavar="TABLES", type=chosen, default=[*TABLES, "times"],
                        help=f"these, separated by commas: {', '.join(TABLES)}, times")
    parser.add_argument("--functions", metavar="COUNT", type=int, default=0,
                        help="prints the functions that differ most, of flat tables too")
    parser.add_argument("--misses", metavar="BYTES", type=int,
                        help="misses of a simulated data cache of that size in place of instructions: 1048576")
    parser.add_argument("--rate", type=int, default=200, help="requests a second of the table times")
    parser.add_argument("--seconds", type=int, default=10, help="of each line of the table times")
    parser.add_argument("--binary", type=Path, default=REPOSITORY / ".build" / "release" / "pinproxy")
    return parser.parse_args()


def main() -> int:
    arguments = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    callgrind.misses_of = arguments.misses
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="pinproxy-flat-"))
    folder.chmod(0o711)
    origin = None
    is_flat = True
    try:
        raise_descriptor_limit()
        if not arguments.binary.is_file():
            raise BenchError(f"{arguments.binary} is missing: make build, or name another with --binary")
        binary = callgrind.stripped(str(arguments.binary), folder)
        origin = Origin(PEERS["nginx"].find(), folder / "origin")
        origin.wait_until_ready()
        print(f"{'misses' if arguments.misses else 'instructions'} a request (callgrind), and how many times those of the first line")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            tables = [measure_table(name, origin, binary, folder, pool, arguments.functions)
                      for name in arguments.only if name != "times"]
            try:
                for finish in tables:
                    is_flat = finish() and is_flat
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if "times" in arguments.only:
            measure_times(origin, binary, folder, arguments.rate, arguments.seconds)
    except BenchError as error:
        progress(f"flat: {error}")
        return 1
    finally:
        if origin is not None:
            origin.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    progress(f"{time.monotonic() - begun:.0f} s")
    return 0 if is_flat else 3


if __name__ == "__main__":
    sys.exit(main())
