#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pinproxy beside nginx, HAProxy and Squid and prints what each costs. See README.md."""
from __future__ import annotations

import argparse
import hashlib
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import report
from origin import Certificates, Origin
from peers import PEERS, Peer
from processes import BenchError, progress, raise_descriptor_limit
from workloads import WORKLOADS, Settings, check_cache, check_peer, check_refusals, many_clients

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
    parser.add_argument("--rounds", type=number(1, 100), default=7,
                        help="each measures every peer in turn; medians and ranges are shown")
    parser.add_argument("--rate", type=number(1, 10_000), default=3000, help="requests a second of the workload rate")
    parser.add_argument("--resume", metavar="FILE", type=Path,
                        help="keeps every measurement there at once, and does not repeat those that are in it: a run can "
                             "be interrupted, done in parts (--only, --rounds), and shown again")
    parser.add_argument("--minutes", type=number(1, 1000), default=1000,
                        help="begins no measurement after this time, and ends with 3 if some are missing")
    parser.add_argument("--binary", type=Path, default=REPOSITORY / ".build" / "release" / "pinproxy",
                        help="the pinproxy to measure")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the results there too")
    return parser.parse_args()


def find_peers(chosen: list[str] | None, binary: Path) -> dict[str, str]:
    found = {}
    for name in chosen or [name for name, peer in PEERS.items() if peer.is_usual]:
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
        progress("without nginx among the peers there are no ratios to it")
    return found


def require_tools(workloads: list[str]) -> None:
    needed = ["openssl", *{tool for name in workloads for tool in WORKLOADS[name].tools}]
    if "h2load" in needed:
        needed.append("nghttp")
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if PEERS["nginx"].find() is None:
        missing.append("nginx (it is the origin, too)")
    if not sys.platform.startswith("linux"):
        raise BenchError("the figures come from /proc: this runs on Linux only")
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}. make bench-peers installs what is needed on Debian")


def check_all_refusals(peers: dict[str, str], origin: Origin, folder: Path) -> None:
    (folder / "other-ca").mkdir()
    other = Certificates(folder / "other-ca" / "certificates")
    for name, path in peers.items():
        check_refusals(lambda ca, name=name, path=path: PEERS[name](path, origin, ca), folder, other.ca,
                       origin.certificates.ca)


def missing_measurements(results: report.Results, peers: dict[str, str], chosen: list[str],
                         rounds: int) -> list[tuple[str, int, str]]:
    return [(name, turn, peer) for name in chosen for turn in range(1, rounds + 1) for peer in peers
            if PEERS[peer].can(WORKLOADS[name].setup)
            and peer not in results.rounds.get(name, {}).get(turn, {})]


def measure_all(results: report.Results, peers: dict[str, str], missing: list[tuple[str, int, str]],
                settings: Settings, origin: Origin, folder: Path, end: float, keep: Callable[[], None]) -> bool:
    """False when there was no time for all."""
    for done, (name, turn, peer_name) in enumerate(missing, 1):
        if time.monotonic() > end:
            progress(f"no time for the other {len(missing) - done + 1} measurements")
            return False
        workload = WORKLOADS[name]
        heading = f"[{done}/{len(missing)}] {name}, round {turn}, {peer_name}"
        peer: Peer = PEERS[peer_name](peers[peer_name], origin, origin.certificates.ca)
        own = folder / f"{name}-{turn}-{peer_name}"
        try:
            peer.start(own, workload.setup_for(settings))
            if workload.setup.caches:
                check_cache(peer, workload.host)
            else:
                results.tls.setdefault(name, {})[peer_name] = check_peer(peer, workload.host)
            figures = workload.measure(peer, own, settings)
        except (BenchError, OSError) as error:
            origin.server.check_alive()
            results.fail(name, turn, peer_name, str(error))
            progress(f"{heading}: FAILED: {error}")
        else:
            results.add(name, turn, peer_name, figures)
            keep()
            figure, label = workload.columns[0]
            progress(f"{heading}: {report.cell(figure, figures[figure])} {label}")
        finally:
            peer.stop()
            # Access logs of millions of requests need not wait for the end.
            shutil.rmtree(own, ignore_errors=True)
    return True


def run(arguments: argparse.Namespace) -> int:
    chosen = [name for name in arguments.only if name not in arguments.skip]
    if not chosen:
        raise BenchError("no workload is left")
    require_tools(chosen)
    peers = find_peers(arguments.peers, arguments.binary)
    settings = Settings(arguments.seconds, arguments.warmup, arguments.rate, many_clients(raise_descriptor_limit()))
    binary = Path(peers["pinproxy"]) if "pinproxy" in peers else None
    facts = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": report.machine(),
             "versions": {name: PEERS[name].version(path) for name, path in peers.items()},
             "binary": hashlib.sha256(binary.read_bytes()).hexdigest() if binary else None,
             "settings": dict(vars(settings))}
    load = facts["machine"]["loadAverageAtStart"]
    if load > 0.5:
        progress(f"the load average is {load:.2f}: something else runs; trust CPU time and ratios, not throughput")
    has_earlier = arguments.resume and arguments.resume.exists()
    results = report.resumed(arguments.resume, facts) if has_earlier else report.Results()
    missing = missing_measurements(results, peers, chosen, arguments.rounds)
    kept = arguments.resume or RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    end = time.monotonic() + arguments.minutes * 60

    def keep() -> None:
        report.write(kept, report.document(results, list(peers), settings, facts))

    is_complete = True
    folder = Path(tempfile.mkdtemp(prefix="pinproxy-bench-"))
    # Squid, started by root, becomes a user of its own, which must reach its folder below this one.
    folder.chmod(0o711)
    origin = None
    try:
        if missing:
            origin = Origin(PEERS["nginx"].find(), folder / "origin")
            origin.wait_until_ready()
            check_all_refusals(peers, origin, folder)
            if any(name == "1g" for name, _, _ in missing):
                origin.read_large_file()
            is_complete = measure_all(results, peers, missing, settings, origin, folder, end, keep)
    finally:
        if origin is not None:
            origin.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    keep()
    print(f"{', '.join(facts['versions'].values())}\n{facts['machine']['cores']} cores, "
          f"{facts['machine']['processor']}; median and range of rounds of {settings.seconds} s, one worker each; "
          "ratios within the same round")
    print(report.table(results, list(peers), chosen, settings))
    progress(f"\nin full: {kept}")
    return 1 if results.failures else 0 if is_complete else 3


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
