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
        location = /small {{ return 200 "{body}"; }}
    }}
}}
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--multi", type=Path, required=True, help="the program of libcurl alone")
    parser.add_argument("--session", type=Path, required=True, help="the program with the session core and URLSession")
    parser.add_argument("--count", type=int, default=10_000, help="requests of a run")
    parser.add_argument("--width", type=int, default=64, help="requests in flight")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def run(command: list[str]) -> tuple[float, float]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    cpu, time, _ = map(int, done.stdout.split())
    return cpu, time


def main() -> None:
    wanted = arguments()
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if nginx is None:
        raise BenchError("nginx is missing: apt-get install nginx")
    with tempfile.TemporaryDirectory(prefix="pinproxy-bench-") as name:
        folder = Path(name)
        certificates = Certificates(folder / "certificates")
        plain, secure = free_port(), free_port()
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(
            user="user root;" if os.geteuid() == 0 else "", folder=folder, plain=plain, secure=secure, body="x" * 512))
        server = Server("the origin (nginx)", [nginx, "-e", str(folder / "error.log"), "-c", str(configuration)],
                        folder / "error.log")
        try:
            server.wait_until_listening([plain, secure])
            size = [str(wanted.count), str(wanted.width)]
            http, https = f"http://127.0.0.1:{plain}/small", f"https://{HOST}:{secure}/small"
            programs = {
                "http": {
                    "libcurl alone": [str(wanted.multi), http, *size],
                    "SessionCore": [str(wanted.session), "core", http, *size],
                    "URLSession": [str(wanted.session), "urlsession", http, *size],
                },
                "https": {
                    "libcurl alone": [str(wanted.multi), https, *size, str(certificates.ca), f"::127.0.0.1:{secure}"],
                    "SessionCore": [str(wanted.session), "core", https, *size, str(certificates.ca),
                                    f"127.0.0.1:{secure}"],
                },
            }
            print(f"{wanted.count} requests, {wanted.width} in flight, 512 bytes each; medians of {wanted.rounds} rounds\n")
            for scheme, peers in programs.items():
                figures: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
                for _ in range(wanted.rounds):
                    for peer, command in peers.items():
                        figures[peer].append(run(command))
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
