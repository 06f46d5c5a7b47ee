#!/usr/bin/env python3
"""Runs pinproxy beside nginx, HAProxy and Squid and prints what each costs. See README.md."""
from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import report
from origin import Certificates, Origin
from peers import PEERS, Peer, Setup
from processes import BenchError, progress, raise_descriptor_limit
from workloads import WORKLOADS, Settings, check_cache, check_peer, verifies_origin

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "Benchmarks" / "results"


def names(allowed: dict) -> Callable[[str], object]:
    def parse(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in chosen if name not in allowed]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(allowed)}")
        return [name for name in allowed if name in chosen]
    return parse


def number(least: int, most: int) -> Callable[[str], object]:
    def parse(text: str) -> int:
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text}: a whole number from {least} to {most}")
        return int(text)
    return parse


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", metavar="WORKLOADS", type=names(WORKLOADS), default=list(WORKLOADS),
                        help=f"these workloads, separated by commas: {', '.join(WORKLOADS)}")
    parser.add_argument("--skip", metavar="WORKLOADS", type=names(WORKLOADS), default=[], help="not these")
    parser.add_argument("--peers", metavar="NAMES", type=names(PEERS), default=None,
                        help=f"these proxies: {', '.join(PEERS)}; without it pinproxy and what is installed")
    parser.add_argument("--seconds", type=number(1, 600), default=5, help="of load a measurement")
    parser.add_argument("--warmup", type=number(0, 60), default=1, help="seconds of load before each measurement")
    parser.add_argument("--rounds", type=number(1, 100), default=3,
                        help="each measures every peer in turn; medians are shown")
    parser.add_argument("--binary", type=Path, default=REPOSITORY / ".build" / "release" / "pinproxy",
                        help="the pinproxy to measure")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the results there too")
    return parser.parse_args()


def find_peers(chosen: list[str] | None, binary: Path) -> dict[str, str]:
    found = {}
    for name in chosen or PEERS:
        path = str(binary.resolve()) if name == "pinproxy" and binary.is_file() else PEERS[name].find()
        if name == "pinproxy" and not binary.is_file():
            raise BenchError(f"{binary} is missing: build it (swift build -c release --product pinproxy), name "
                             "another with --binary, or measure the others alone (--peers nginx,haproxy,squid)")
        if path is None and chosen:
            raise BenchError(f"{name} is not installed: make bench-peers installs it")
        if path is None:
            progress(f"{name} is not installed and left out (make bench-peers installs it)")
        else:
            found[name] = path
    if "nginx" not in found:
        progress("without nginx among the peers there are no ratios")
    return found


def require_tools(workloads: list[str]) -> None:
    needed = ["openssl"] + (["wrk"] if any(WORKLOADS[name].needs_wrk for name in workloads) else [])
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if PEERS["nginx"].find() is None:
        missing.append("nginx (it is the origin, too)")
    if not sys.platform.startswith("linux"):
        raise BenchError("the figures come from /proc: this runs on Linux only")
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}. make bench-peers installs what is needed on Debian")


def notes_on_verification(peers: dict[str, str], origin: Origin, folder: Path) -> list[str]:
    """A peer that does not check the origin's certificate does less work than the others; the reader must know."""
    other = Certificates(folder / "other-ca")
    notes = []
    for name, path in peers.items():
        peer: Peer = PEERS[name](path, origin, other.ca)
        try:
            peer.start(folder / f"verifies-{name}", Setup())
            if not verifies_origin(peer):
                notes.append(f"{name} took an origin under a CA that it was not given: it does less work"
                             + (" (Debian's squid-openssl checks)" if name == "squid" else ""))
        finally:
            peer.stop()
    return notes


def measure_all(results: report.Results, peers: dict[str, str], chosen: list[str], rounds: int, settings: Settings,
                origin: Origin, folder: Path) -> None:
    total, done = len(chosen) * rounds * len(peers), 0
    for workload in (WORKLOADS[name] for name in chosen):
        for turn in range(1, rounds + 1):
            for name, path in peers.items():
                done += 1
                heading = f"[{done}/{total}] {workload.name}, round {turn}, {name}"
                peer: Peer = PEERS[name](path, origin, origin.certificates.ca)
                own = folder / f"{workload.name}-{turn}-{name}"
                try:
                    peer.start(own, Setup(clients=workload.clients, caches=workload.caches))
                    if workload.caches:
                        check_cache(peer, workload.host)
                    else:
                        results.tls.setdefault(workload.name, {})[name] = check_peer(peer, workload.host)
                    figures = workload.measure(peer, own, settings)
                except (BenchError, OSError) as error:
                    origin.server.check_alive()
                    results.fail(workload.name, turn, name, str(error))
                    progress(f"{heading}: FAILED: {error}")
                else:
                    results.add(workload.name, turn, name, figures)
                    figure, label = workload.columns[0]
                    progress(f"{heading}: {report.cell(figure, figures[figure])} {label}")
                finally:
                    peer.stop()
                    # Access logs of millions of requests need not wait for the end.
                    shutil.rmtree(own, ignore_errors=True)


def run(arguments: argparse.Namespace) -> int:
    chosen = [name for name in arguments.only if name not in arguments.skip]
    if not chosen:
        raise BenchError("no workload is left")
    require_tools(chosen)
    peers = find_peers(arguments.peers, arguments.binary)
    raise_descriptor_limit()
    settings = Settings(arguments.seconds, arguments.warmup)
    facts = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": report.machine(),
             "versions": {name: PEERS[name].version(path) for name, path in peers.items()},
             "settings": {"seconds": settings.seconds, "warmup": settings.warmup, "rounds": arguments.rounds}}
    load = facts["machine"]["loadAverageAtStart"]
    if load > 0.5:
        progress(f"the load average is {load:.2f}: something else runs; trust CPU time and ratios, not throughput")
    results = report.Results()
    notes: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="pinproxy-bench-"))
    # Squid, started by root, becomes a user of its own, which must reach its folder below this one.
    folder.chmod(0o711)
    origin = None
    try:
        origin = Origin(PEERS["nginx"].find(), folder / "origin")
        origin.wait_until_ready()
        notes += notes_on_verification(peers, origin, folder)
        if "1g" in chosen:
            origin.read_large_file()
        measure_all(results, peers, chosen, arguments.rounds, settings, origin, folder)
    finally:
        if origin is not None:
            origin.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    value = report.document(results, list(peers), chosen, facts, notes)
    kept = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    for path in [kept] + ([arguments.json] if arguments.json else []):
        report.write(path, value)
    print(f"{', '.join(facts['versions'].values())}\n{facts['machine']['cores']} cores, "
          f"{facts['machine']['processor']}; median of {arguments.rounds} × {settings.seconds} s, one worker each; "
          "ratios to nginx of the same round")
    print(report.table(results, list(peers), chosen, notes))
    progress(f"\nin full: {kept}")
    return 1 if results.failures else 0


def main() -> int:
    arguments = options()
    # SIGTERM takes the way of Ctrl-C: through every `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(arguments)
    except KeyboardInterrupt:
        progress("interrupted; servers stopped, files removed")
        return 130
    except BenchError as error:
        progress(f"bench: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
