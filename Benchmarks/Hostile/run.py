#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that mean ill, each against a pinproxy of its own with other clients on it. See Benchmarks/README.md."""
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
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import certificate_bush
import certificate_dates
import costly_heads
import credential_floods
import explicit_curves
import field_references
import finite_fields
import informational
import lying_proxy
import many_addresses
import redis_floods
import slow_trials
import small_pieces
import tls_floods
import unread_bodies
from origin import Origin
from processes import BenchError, progress, raise_descriptor_limit
from stage import DESCRIPTOR_ALLOWANCE, MEMORY_ALLOWANCE, Peer, Result, Stage

PEERS: list[Peer] = [peer for module in (certificate_dates, explicit_curves, certificate_bush, finite_fields, slow_trials,
                                        lying_proxy, informational, field_references, costly_heads, many_addresses,
                                        unread_bodies, small_pieces, tls_floods, credential_floods, redis_floods)
                     for peer in module.PEERS]
# What no peer may make the proxy do.
MOST_TURN = 0.010
MOST_MEMORY = 50 << 20
MOST_WAIT = 0.100


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path(".build/release/pinproxy"))
    parser.add_argument("--only", metavar="NAMES", default="",
                        help=f"these, separated by commas: {', '.join(peer.name for peer in PEERS)}")
    parser.add_argument("--short", action="store_true", help="fewer peers, and less of each: about a minute")
    parser.add_argument("--strict", action="store_true",
                        help=f"fails, too, when another client waits for more than {MOST_WAIT * 1000:.0f} ms: on an idle machine")
    parser.add_argument("--inside", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen(arguments: argparse.Namespace) -> list[Peer]:
    names = [name.strip() for name in arguments.only.split(",") if name.strip()]
    unknown = set(names) - {peer.name for peer in PEERS}
    if unknown:
        raise BenchError(f"no such peer: {', '.join(sorted(unknown))}. There are {', '.join(peer.name for peer in PEERS)}")
    return [peer for peer in PEERS if (peer.name in names if names else peer.is_short or not arguments.short)]


def faults(result: Result, is_strict: bool) -> list[str]:
    found = []
    if result.death:
        found.append(result.death)
    if result.turn > MOST_TURN:
        found.append(f"a turn of {result.turn * 1000:.0f} ms")
    if result.memory[1] - result.memory[0] > MOST_MEMORY:
        found.append(f"{(result.memory[1] - result.memory[0]) >> 20} MB")
    if result.memory[2] - result.memory[0] > MEMORY_ALLOWANCE:
        found.append("memory is not back")
    if result.descriptors[2] - result.descriptors[0] > DESCRIPTOR_ALLOWANCE:
        found.append("descriptors are not back")
    if result.failures:
        found.append(f"{result.failures} requests of others failed: {result.failure}")
    if is_strict and result.worst > MOST_WAIT:
        found.append(f"others waited for {result.worst * 1000:.0f} ms, those of nginx for {result.direct * 1000:.0f} ms")
    return found


def line(peer: Peer, result: Result, found: list[str]) -> str:
    turn = f"{result.turn * 1000:.1f}" if result.turn else "<1"
    memory = " / ".join(f"{number / (1 << 20):.0f}" for number in result.memory)
    descriptors = " / ".join(str(number) for number in result.descriptors)
    return (f"{peer.name:<18}{turn:>9}  {','.join(result.work):<26.26}{result.worst * 1000:>8.0f}{result.p99 * 1000:>7.0f}{result.direct * 1000:>7.0f}"
            f"{result.requests:>7}{result.failures:>6}  {memory:>16}  {descriptors:>17}  "
            + (f"FAILED: {'; '.join(found)}" if found else "held"))


HEADING = (f"{'':<18}{'turn, ms':>9}  {'worked on':<26}{'wait, ms':>8}{'p99':>7}{'nginx':>7}{'others':>7}{'lost':>6}"
           f"  {'MB, most, after':>16}  {'files, most, after':>17}")


def run_peer(peer: Peer, arguments: argparse.Namespace, origin: Origin, folder: Path) -> Result:
    if peer.needs_names and not arguments.inside:
        return in_own_network(peer, arguments, folder)
    place = folder / peer.name
    place.mkdir()
    return Stage(os.path.abspath(arguments.binary), place, origin, peer, arguments.short).run()


def in_own_network(peer: Peer, arguments: argparse.Namespace, folder: Path) -> Result:
    """A network with nothing but loopback, where port 53 is free, and a resolv.conf that names it."""
    place = folder / f"{peer.name}-network"
    place.mkdir()
    (place / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    command = [sys.executable, str(Path(__file__).resolve()), "--only", peer.name, "--binary",
               os.path.abspath(arguments.binary), "--inside", str(place / "result.json")]
    if arguments.short:
        command.append("--short")
    script = 'ip link set lo up && mount --bind "$0/resolv.conf" /etc/resolv.conf && exec "$@"'
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--net", "/bin/sh", "-c", script, str(place),
                           *command], capture_output=True, text=True, timeout=400)
    if not (place / "result.json").exists():
        raise BenchError(f"{peer.name}: {done.stderr[-500:] or done.stdout[-500:]}")
    return Result(**json.loads((place / "result.json").read_text()))


def run(arguments: argparse.Namespace) -> int:
    if not arguments.binary.exists():
        raise BenchError(f"{arguments.binary} is missing: make build")
    missing = [tool for tool in ("nginx", "openssl", "prlimit", "unshare", "ip") if shutil.which(tool) is None]
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}. make hostile installs what is needed on Debian")
    raise_descriptor_limit()
    begun, failed = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="pinproxy-hostile-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for name in ("first", "second"):
            (folder / name).mkdir()
        origin = Origin(shutil.which("nginx"), folder / "origin")
        try:
            origin.wait_until_ready()
            peers = chosen(arguments)
            if not arguments.inside:
                print(HEADING, flush=True)
            for peer in peers:
                result = run_peer(peer, arguments, origin, folder / "first")
                if arguments.inside:
                    arguments.inside.write_text(json.dumps(asdict(result)))
                    continue
                found = faults(result, arguments.strict)
                print(line(peer, result, found), flush=True)
                if not found:
                    continue
                # Once more: a virtual machine whose processor was taken away counts that as the thread's time.
                result = run_peer(peer, arguments, origin, folder / "second")
                found = faults(result, arguments.strict)
                print(line(peer, result, found), flush=True)
                if found:
                    failed.append(peer)
        finally:
            origin.server.stop()
    if arguments.inside:
        return 0
    print()
    for peer in peers:
        print(f"{peer.name:<18}{peer.title}")
    print(f"\n{len(peers) - len(failed)} of {len(peers)} peers were held, in {time.monotonic() - begun:.0f} s"
          + (f"; not held: {', '.join(peer.name for peer in failed)}" if failed else ""))
    return 1 if failed else 0


def main() -> int:
    # SIGTERM takes the way of Ctrl-C: through every `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(options())
    except KeyboardInterrupt:
        return 130
    except BenchError as error:
        progress(f"hostile: {error}")
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads of peers may still wait for connections that nobody closes.
    os._exit(code)
