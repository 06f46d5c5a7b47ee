#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How two workers share the connections of a few clients: many short runs, and the share of the worker that had less. And what a
request costs them beside one worker that has half of the clients: the ratio of their CPU times in runs that alternate."""
from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import wrk
from origin import KEPT_HOST, Origin
from peers import PEERS, Setup
from processes import BenchError, process_tree, progress, raise_descriptor_limit

REPOSITORY = Path(__file__).resolve().parent.parent
LEAST_SHARE = 0.25


def thread_times(root: int) -> dict[tuple[int, int], int]:
    """Nanoseconds on a processor of each thread of a process and its children (/proc/PID/task/TID/schedstat)."""
    times = {}
    for pid in process_tree(root):
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                times[pid, int(thread)] = int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return times


def run(name: str, binary: str, origin: Origin, folder: Path, clients: int, seconds: int, workers: int) -> tuple[list[int], int]:
    """The time of each thread, the busiest last, and the number of requests."""
    peer = PEERS[name](binary, origin, origin.certificates.ca)
    try:
        peer.start(folder, Setup(workers=workers))
        # The connections to the origin, and their handshakes, are not part of it.
        wrk.drive(folder, peer.ports[KEPT_HOST], KEPT_HOST, peer.target(KEPT_HOST, "/1k"), 1, clients)
        before = thread_times(peer.running.process.pid)
        load = wrk.drive(folder, peer.ports[KEPT_HOST], KEPT_HOST, peer.target(KEPT_HOST, "/1k"), seconds, clients)
        if load.requests == 0 or load.errors or load.statusErrors:
            raise BenchError(f"{name}: {load.requests} answers, {load.errors} failed connections")
        after = thread_times(peer.running.process.pid)
    finally:
        peer.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return sorted(time - before.get(thread, 0) for thread, time in after.items()), load.requests


def share_and_ratio(name: str, binary: str, origin: Origin, folder: Path, clients: int, seconds: int) -> tuple[float, float]:
    """The share of the worker that had less, and the CPU time of a request with two workers, as a multiple of that with one, which
    has as many clients as each of the two: clients share the turns of a loop."""
    one, requests_of_one = run(name, binary, origin, folder.with_name(f"{folder.name}-1"), clients // 2, seconds, 1)
    two, requests_of_two = run(name, binary, origin, folder.with_name(f"{folder.name}-2"), clients, seconds, 2)
    # The two busiest threads are the workers: others write logs and watch files.
    less, more = two[-2:]
    return less / (less + more), sum(two) / requests_of_two / (sum(one) / requests_of_one)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--clients", type=lambda text: [int(word) for word in text.split(",")], default=[8, 16, 32])
    parser.add_argument("--runs", type=int, default=20, help="of each number of clients")
    parser.add_argument("--seconds", type=int, default=1, help="of load a run")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["nginx", "pinproxy"])
    parser.add_argument("--binary", type=Path, default=REPOSITORY / ".build" / "release" / "pinproxy")
    return parser.parse_args()


def main() -> int:
    arguments = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    raise_descriptor_limit()
    folder = Path(tempfile.mkdtemp(prefix="pinproxy-workers-"))
    folder.chmod(0o711)
    failed = False
    origin = None
    try:
        origin = Origin(PEERS["nginx"].find(), folder / "origin")
        origin.wait_until_ready()
        for clients in arguments.clients:
            for name in arguments.peers:
                binary = str(arguments.binary) if name == "pinproxy" else PEERS[name].find()
                figures = [share_and_ratio(name, binary, origin, folder / f"{clients}-{name}-{number}", clients, arguments.seconds)
                           for number in range(arguments.runs)]
                shares = sorted(share for share, _ in figures)
                ratios = sorted(ratio for _, ratio in figures)
                few = sum(share < LEAST_SHARE for share in shares)
                print(f"{clients} clients, {name}: the worker with less had {shares[0]:.0%} to {shares[-1]:.0%} of the "
                      f"work, median {statistics.median(shares):.0%}; less than a quarter in {few} of {len(shares)} runs; "
                      f"CPU time of a request {statistics.median(ratios):.2f} x that with one worker ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                      flush=True)
                failed = failed or (name == "pinproxy" and few > 0)
    except BenchError as error:
        progress(f"workers: {error}")
        return 1
    finally:
        if origin is not None:
            origin.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if failed:
        progress(f"workers: a worker of pinproxy had less than {LEAST_SHARE:.0%}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
