#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of a request, by component, with callgrind; nginx (or another peer) beside. See README.md."""
from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import callgrind
from callgrind import COMPONENTS, Counts
from clients import Keeper, h2c_requests, intercepted_requests, tunnels
from origin import CLOSING_HOST, H2_HOST, KEPT_HOST, Origin
from peers import GATEWAY, H2_ORIGIN, H2C_CLIENTS, INTERCEPT, PEERS, TUNNEL, Peer, Setup
from processes import BenchError, progress, raise_descriptor_limit

REPOSITORY = Path(__file__).resolve().parent.parent
CEILINGS = Path(__file__).resolve().parent / "instructions.json"
# One percent would do for the noise; five leaves room for another compiler or library.
ROOM = 0.05


@dataclass
class Row:
    name: str
    title: str
    setup: Setup
    load: Callable[[Peer, int], None]
    requests: int
    """the smaller of the two runs; the larger one has three times as many"""


connections = 1


def kept(path: str, host: str = KEPT_HOST) -> Callable[[Peer, int], None]:
    def load(peer: Peer, requests: int) -> None:
        with ExitStack() as stack:
            clients = [stack.enter_context(Keeper(peer, host, path)) for _ in range(connections)]
            # One alone: of many first requests to a cache several may be misses.
            clients[0].send()
            clients[0].receive()
            for _ in range(requests // connections):
                for client in clients:
                    client.send()
                for client in clients:
                    client.receive()
    return load


# Squid gives its rights up at the start, and valgrind's output with them.
INSTRUCTION_PEERS = {name: peer for name, peer in PEERS.items() if name != "squid"}
ROWS = {row.name: row for row in (
    Row("1k", "1 KB, miss", Setup(), kept("/1k"), 1000),
    Row("1k-rules", "1 KB, miss, under 1,000 rules of as many hosts", Setup(settings={"requests": {"rules": [
        {"id": f"r{number}", "host": KEPT_HOST if number == 500 else f"h{number}.example", "method": "read", "path": "/*",
         "then": "allow"} for number in range(1000)]}}), kept("/1k"), 1000),
    Row("1k-rules-host", "1 KB, miss, under 1,000 rules of its host", Setup(settings={"requests": {"rules": [
        {"id": f"r{number}", "host": KEPT_HOST, "path": "/*a*b*c*d*e*f*" + str(number), "then": "deny"}
        for number in range(999)] + [{"id": "last", "host": KEPT_HOST, "then": "allow"}]}}), kept("/1k"), 1000),
    Row("1k-set", "1 KB, miss, with a field of headers.request.set", Setup(settings={
        "requests": {"rules": [{"id": "all", "host": KEPT_HOST, "then": "allow"}]},
        "defaults": {"headers": {"request": {"set": {"X-Api-Key": os.environ.get("PATH", "")}}}}}), kept("/1k"), 1000),
    Row("1k-credential", "1 KB, miss, with a credential", Setup(settings={
        "requests": {"rules": [{"id": "all", "host": KEPT_HOST, "then": "allow", "credential": "key"}]},
        "credentials": {"key": {"header": "X-Api-Key", "env": "PATH"}}}), kept("/1k"), 1000),
    Row("1k-credential-command", "1 KB, miss, with a credential of a command", Setup(settings={
        "requests": {"rules": [{"id": "all", "host": KEPT_HOST, "then": "allow", "credential": "key"}]},
        "credentials": {"key": {"header": "X-Api-Key", "command": ["/bin/echo", os.environ.get("PATH", "")]}}}), kept("/1k"), 1000),
    Row("1k-hit", "1 KB, cache hit", Setup(caches=True), kept("/1k"), 1500),
    Row("100k", "100 KB, miss", Setup(), kept("/100k"), 150),
    Row("100k-hit", "100 KB, cache hit", Setup(caches=True), kept("/100k"), 500),
    Row("2m-disk-hit", "2 MB, cache hit from the disk", Setup(caches=True, on_disk=True), kept("/2m"), 100),
    Row("tls", "1 KB, new TLS connection to the origin", Setup(), kept("/1k", CLOSING_HOST), 30),
    Row("tunnel", "CONNECT, one request in the tunnel", Setup(TUNNEL), tunnels, 200),
    Row("intercept", "1 KB in an intercepted CONNECT", Setup(INTERCEPT), intercepted_requests, 700),
    Row("h2-origin", "1 KB, HTTP/2 to the origin", Setup(H2_ORIGIN), kept("/1k", H2_HOST), 700),
    Row("h2c", "1 KB, HTTP/2 from the client", Setup(H2C_CLIENTS), h2c_requests, 700),
    Row("gateway", "1 KB, gateway", Setup(GATEWAY), kept("/1k"), 1000),
)}
CHECKED = ("1k", "1k-set", "1k-hit", "2m-disk-hit", "tls", "h2-origin", "h2c", "intercept")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", metavar="ROWS", type=lambda text: _chosen(text, ROWS), default=list(ROWS),
                        help=f"these, separated by commas: {', '.join(ROWS)}")
    parser.add_argument("--peers", metavar="NAMES", type=lambda text: _chosen(text, INSTRUCTION_PEERS),
                        default=["nginx", "pinproxy"], help=f"of {', '.join(INSTRUCTION_PEERS)}, those that can do a row")
    parser.add_argument("--connections", metavar="COUNT", type=int, default=1,
                        help="of clients that ask at once, in rows with kept connections over HTTP/1.1")
    parser.add_argument("--functions", metavar="COUNT", type=int, default=0,
                        help="prints the functions that cost most, for each row")
    parser.add_argument("--callers", metavar="NAMES", type=lambda text: text.split(","), default=[],
                        help="prints the functions that call these (swift_retain,swift_release), and how often, for each row")
    parser.add_argument("--check", action="store_true",
                        help=f"pinproxy alone; fails if a row of {CEILINGS.name} is above its ceiling and 5 %%")
    parser.add_argument("--binary", type=Path, default=REPOSITORY / ".build" / "release" / "pinproxy",
                        help="the pinproxy to measure")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the figures there, too")
    return parser.parse_args()


def _chosen(text: str, allowed: dict) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in allowed]
    if unknown or not chosen:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(allowed)}")
    return [name for name in allowed if name in chosen]


def require_tools(rows: list[str], is_check: bool) -> None:
    needed = ["valgrind", "vgdb", "strip", "openssl"] + ([] if is_check else ["strace"]) + (["h2load"] if "h2c" in rows else [])
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if PEERS["nginx"].find() is None:
        missing.append("nginx (it is the origin, too)")
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}. make bench-peers installs what is needed on Debian")


def binaries(peers: list[str], binary: Path, folder: Path) -> dict[str, str]:
    found = {}
    for name in peers:
        path = str(binary) if name == "pinproxy" else PEERS[name].find()
        if path is None or not Path(path).exists():
            raise BenchError(f"{name} is missing ({path or 'make bench-peers installs it'})")
        found[name] = callgrind.stripped(path, folder) if name == "pinproxy" else path
    return found


def measure(rows: list[str], found: dict[str, str], folder: Path, counts_system_calls: bool) -> dict[str, dict[str, Counts]]:
    origin = Origin(PEERS["nginx"].find(), folder / "origin")
    try:
        origin.wait_until_ready()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            waiting: dict[str, dict[str, Callable[[], Counts]]] = {}
            for row in (ROWS[name] for name in rows):
                for name, path in found.items():
                    if row.setup.kind in PEERS[name].kinds:
                        waiting.setdefault(row.name, {})[name] = callgrind.per_request(
                            lambda name=name, path=path: PEERS[name](path, origin, origin.certificates.ca),
                            folder / f"{row.name}-{name}", row.setup, row.load, row.requests, pool, counts_system_calls)
            try:
                return {row: {name: result() for name, result in by_peer.items()} for row, by_peer in waiting.items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        origin.server.stop()


def table(results: dict[str, dict[str, Counts]]) -> str:
    lines = [["", "instructions", "× nginx", *COMPONENTS, "system calls"]]
    for row, by_peer in results.items():
        lines.append([ROWS[row].title])
        for name, counts in by_peer.items():
            reference = by_peer.get("nginx")
            ratio = f"{counts.instructions / reference.instructions:.2f}" if reference else "–"
            costs = counts.component_costs(name)
            lines.append(["  " + name, f"{counts.instructions:,.0f}", ratio,
                          *(f"{costs[part]:,.0f}" if round(costs[part]) else "–" for part in COMPONENTS),
                          f"{sum(counts.system_calls.values()):.2f}"])
    widths = [max(len(line[column]) for line in lines if len(line) > 1) for column in range(len(lines[0]))]
    return "\n".join(
        line[0] if len(line) == 1 else
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))])
        for line in lines)


def functions_table(results: dict[str, dict[str, Counts]], count: int) -> str:
    chosen = [(row, name, sorted(counts.functions.items(), key=lambda item: -abs(item[1]))[:count])
              for row, by_peer in results.items() for name, counts in by_peer.items()]
    readable = demangled({function for _, _, costs in chosen for (_, function), _ in costs})
    lines = []
    for row, name, costs in chosen:
        lines.append(f"\n{ROWS[row].title if row in ROWS else row}: {name}")
        lines.append(f"  {'itself':>12}  {'and calls':>12}")
        lines += [f"  {cost:>12,.0f}  {results[row][name].inclusive.get(function, 0):>12,.0f}  "
                  f"{Path(place).name[:16]:<16}  {readable.get(function, function)[:130]}"
                  for (place, function), cost in costs]
        calls = sorted(results[row][name].system_calls.items(), key=lambda item: -item[1])
        lines.append("  system calls: " + ", ".join(f"{call} {number:.2f}" for call, number in calls if number >= 0.01))
    return "\n".join(lines)


def callers_table(results: dict[str, dict[str, Counts]], called: list[str]) -> str:
    lines = []
    for row, name, counts in ((row, name, counts) for row, by_peer in results.items() for name, counts in by_peer.items()):
        for function in called:
            chosen = sorted(((count, caller) for (caller, callee), count in counts.calls.items()
                             if callee == function and count >= 0.05), reverse=True)
            readable = demangled({caller for _, caller in chosen})
            lines.append(f"\n{ROWS[row].title if row in ROWS else row}: {name}: "
                         f"{sum(count for count, _ in chosen):.1f} calls of {function}")
            lines += [f"  {count:>8.2f}  {readable.get(caller, caller)[:130]}" for count, caller in chosen]
    return "\n".join(lines)


def demangled(names: set[str]) -> dict[str, str]:
    ordered = sorted(names)
    tool = shutil.which("swift-demangle") or shutil.which("swift-demangle", path="/opt/swift/usr/bin")
    if tool is None:
        return {}
    done = subprocess.run([tool, "--compact", "--simplified"], input="\n".join(ordered), capture_output=True, text=True)
    readable = done.stdout.splitlines()
    return dict(zip(ordered, readable)) if len(readable) == len(ordered) else {}


def check(results: dict[str, dict[str, Counts]]) -> int:
    ceilings = json.loads(CEILINGS.read_text())["ceilings"]
    failed = False
    for row, ceiling in ceilings.items():
        if row not in results:
            continue
        has = results[row]["pinproxy"].instructions
        is_over = has > ceiling * (1 + ROOM)
        failed = failed or is_over
        hint = f"over the ceiling: find the cause (--only {row} --functions 40)" if is_over else (
            f"well below: lower the ceiling in Benchmarks/{CEILINGS.name}" if has < ceiling * (1 - ROOM) else "")
        print(f"{ROWS[row].title}: {has:,.0f} instructions a request, ceiling {ceiling:,} and {ROOM:.0%}"
              + (f"; {hint}" if hint else ""))
    return 1 if failed else 0


def run(arguments: argparse.Namespace) -> int:
    global connections
    connections = arguments.connections
    rows = [row for row in arguments.only if not arguments.check or row in CHECKED]
    require_tools(rows, arguments.check)
    raise_descriptor_limit()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="pinproxy-instructions-"))
    folder.chmod(0o711)
    try:
        found = binaries(["pinproxy"] if arguments.check else arguments.peers, arguments.binary, folder)
        results = measure(rows, found, folder, not arguments.check)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(
            {row: {name: {"instructions": round(counts.instructions), "systemCalls":
                          {call: round(count, 2) for call, count in counts.system_calls.items() if count >= 0.005},
                          "components": {part: round(cost) for part, cost in counts.component_costs(name).items()}}
                   for name, counts in by_peer.items()} for row, by_peer in results.items()}, indent=2) + "\n")
    if arguments.check:
        return check(results)
    print(table(results))
    if arguments.functions:
        print(functions_table(results, arguments.functions))
    if arguments.callers:
        print(callers_table(results, arguments.callers))
    progress(f"{time.monotonic() - begun:.0f} s")
    return 0


def main() -> int:
    arguments = options()
    # SIGTERM takes the way of Ctrl-C: through every `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(arguments)
    except KeyboardInterrupt:
        return 130
    except BenchError as error:
        progress(f"instructions: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
