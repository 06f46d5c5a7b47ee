# SPDX-License-Identifier: Apache-2.0
"""What a request costs in a session: the session core beside libcurl alone and beside Foundation's URLSession."""
from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import callgrind
from instructions import callers_table, functions_table
from origin import Certificates
from processes import BenchError, Server, free_port

HOST = "bench.test"
CONFIGURATION = """\
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    ssl_certificate {folder}/certificates/leaf.pem;
    ssl_certificate_key {folder}/certificates/leaf.key;
    ssl_protocols TLSv1.3;
    server {{
        listen 127.0.0.1:{plain};
        listen 127.0.0.1:{secure} ssl;
        listen 127.0.0.1:{http2} ssl http2;
        location = /small {{ return 200 "{body}"; }}
    }}
}}
"""


SCHEMES = ("http", "https", "http2")
BODY = 512


def chosen(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SCHEMES]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(SCHEMES)}")
    return names


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--multi", type=Path, required=True, help="the program of libcurl alone")
    parser.add_argument("--session", type=Path, required=True, help="the program with the session core and URLSession")
    parser.add_argument("--count", type=int, default=10_000, help="requests of a run")
    parser.add_argument("--width", type=int, default=64, help="requests in flight")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="SCHEMES", type=chosen, default=list(SCHEMES),
                        help="these, separated by commas: http, https, http2")
    parser.add_argument("--instructions", action="store_true",
                        help="instructions and system calls of a request instead of its time: they do not depend on other load")
    parser.add_argument("--functions", metavar="COUNT", type=int, default=0,
                        help="with --instructions: prints the functions that cost most")
    parser.add_argument("--callers", metavar="NAMES", type=lambda text: text.split(","), default=[],
                        help="with --instructions: prints the functions that call these (swift_retain,swift_release), and how often")
    return parser.parse_args()


def run(command: list[str], requests: int) -> tuple[float, float]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    cpu, time, size = map(int, done.stdout.split())
    if size != BODY * requests:
        raise BenchError(f"{command[0]}: {size} bytes of bodies, not {BODY * requests}")
    return cpu, time


def count(command: list[str], folder: Path, requests: int) -> callgrind.Counts:
    """The counts of a run with three times as many requests, less those of a run: what 2 x `requests` of them cost. Under strace
    the threads take turns in another way, so its figures are close to, and not, those of a run without it."""
    def counted(times: int) -> callgrind.Counts:
        words = list(command)
        # The program, its protocol, the URL, and then the number.
        words[3] = str(times * requests)
        profile, calls = folder / f"profile-{times}", folder / f"calls-{times}"
        run(["valgrind", "--tool=callgrind", "--quiet", "--fair-sched=yes", f"--callgrind-out-file={profile}", *words],
            times * requests)
        run(["strace", "-f", "-c", "-o", str(calls), *words], times * requests)
        return callgrind.read_profile(profile) + callgrind.read_system_calls(calls)
    return (counted(3) - counted(1)) / (2 * requests)


def print_counts(results: dict[str, dict[str, callgrind.Counts]], functions: int, callers: list[str]) -> None:
    for scheme, by_peer in results.items():
        for peer, counts in by_peer.items():
            calls = sorted(counts.system_calls.items(), key=lambda item: -item[1])
            print(f"  {scheme:<6}{peer:<15}{counts.instructions:10,.0f} instructions a request; system calls: "
                  + ", ".join(f"{name} {number:.2f}" for name, number in calls if number >= 0.01))
    if functions:
        print(functions_table(results, functions))
    if callers:
        print(callers_table(results, callers))


def main() -> None:
    wanted = arguments()
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if nginx is None:
        raise BenchError("nginx is missing: apt-get install nginx")
    with tempfile.TemporaryDirectory(prefix="pinproxy-bench-") as name:
        folder = Path(name)
        certificates = Certificates(folder / "certificates")
        plain, secure, http2 = free_port(), free_port(), free_port()
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(
            user="user root;" if os.geteuid() == 0 else "", folder=folder, plain=plain, secure=secure, http2=http2, body="x" * BODY))
        server = Server("the origin (nginx)", [nginx, "-e", str(folder / "error.log"), "-c", str(configuration)],
                        folder / "error.log")
        try:
            server.wait_until_listening([plain, secure, http2])
            size = [str(wanted.count), str(wanted.width)]
            http, https, h2 = (f"http://127.0.0.1:{plain}/small", f"https://{HOST}:{secure}/small",
                               f"https://{HOST}:{http2}/small")
            session = callgrind.stripped(str(wanted.session), folder) if wanted.instructions else str(wanted.session)
            programs = {
                "http": {
                    "libcurl alone": [str(wanted.multi), "1.1", http, *size],
                    "SessionCore": [session, "core", http, *size],
                    "URLSession": [session, "urlsession", http, *size],
                },
                "https": {
                    "libcurl alone": [str(wanted.multi), "1.1", https, *size, str(certificates.ca), f"::127.0.0.1:{secure}"],
                    "SessionCore": [session, "core", https, *size, str(certificates.ca),
                                    f"127.0.0.1:{secure}"],
                },
                "http2": {
                    "libcurl alone": [str(wanted.multi), "2", h2, *size, str(certificates.ca), f"::127.0.0.1:{http2}"],
                    "SessionCore": [session, "core2", h2, *size, str(certificates.ca),
                                    f"127.0.0.1:{http2}"],
                },
            }
            programs = {scheme: peers for scheme, peers in programs.items() if scheme in wanted.only}
            print(f"{wanted.count} requests, {wanted.width} in flight, 512 bytes each"
                  + ("" if wanted.instructions else f"; medians of {wanted.rounds} rounds") + "\n", flush=True)
            if wanted.instructions:
                return print_counts(
                    {scheme: {peer: count(command, folder, wanted.count) for peer, command in peers.items() if peer != "URLSession"}
                     for scheme, peers in programs.items()}, wanted.functions, wanted.callers)
            for scheme, peers in programs.items():
                figures: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
                for _ in range(wanted.rounds):
                    for peer, command in peers.items():
                        figures[peer].append(run(command, wanted.count))
                for peer, rounds in figures.items():
                    ratio = statistics.median(
                        own[0] / reference[0] for own, reference in zip(rounds, figures["libcurl alone"]))
                    cpu = statistics.median(cpu for cpu, _ in rounds) / wanted.count
                    speed = wanted.count / statistics.median(time for _, time in rounds) * 1e6
                    print(f"  {scheme:<6}{peer:<15}{cpu:8.1f} CPU us a request {ratio:7.2f} x {speed:9.0f} requests/s")
        finally:
            server.stop()


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"session.py: {error}")
