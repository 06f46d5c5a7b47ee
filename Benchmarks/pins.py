# SPDX-License-Identifier: Apache-2.0
"""What thousands of pin files cost: the time of a start and of reloads, and the memory that they take.

One domain a file, each with two pins. The proxy is started, then told to read everything anew with SIGHUP, several times.
Times are those until the line that says that it is done; memory is `RssAnon`, looked at some seconds after each load.
"""
from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 60
# Memory is given back two seconds after a load.
REST = 3.5


def pin(text: str) -> str:
    return "sha256/" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def write_files(folder: Path, count: int) -> Path:
    (folder / "pins").mkdir()
    for number in range(count):
        host = f"host{number}.example.com"
        document = {
            "version": 1,
            "pinnedDomains": {host: {"pinningMode": "publicKey", "pins": [pin(f"{host} {index}") for index in range(2)]}},
        }
        (folder / "pins" / f"{host}.json").write_text(json.dumps(document, indent=2))
    path = folder / "config.json"
    configuration = {
        "version": 1,
        "listeners": [{"address": "127.0.0.1:0", "mode": "forward"}],
        "pins": "pins",
        "workers": 2,
        "log": {"tasks": "off"},
    }
    path.write_text(json.dumps(configuration))
    return path


class Proxy:
    def __init__(self, binary: str, configuration: Path) -> None:
        self.process = subprocess.Popen(
            [binary, "run", "--config", str(configuration)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def wait(self, event: str) -> None:
        deadline = time.monotonic() + PATIENCE
        assert self.process.stderr
        while time.monotonic() < deadline:
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit("pins.py: the proxy has ended")
            if json.loads(line).get("event") == event:
                return
        raise SystemExit(f"pins.py: no {event} within {PATIENCE} s")

    def memory(self) -> float:
        """In megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) / 1024

    def processor_time(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--reloads", type=int, default=4)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pinproxy-pins-"))
    try:
        configuration = write_files(folder, arguments.files)
        print(f"{arguments.files} pin files\n\n{'':10}{'time':>8}{'CPU':>8}{'memory':>10}")
        start = time.monotonic()
        proxy = Proxy(arguments.binary, configuration)
        try:
            for number in range(arguments.reloads + 1):
                before = proxy.processor_time() if number > 0 else 0
                if number > 0:
                    start = time.monotonic()
                    proxy.process.send_signal(signal.SIGHUP)
                proxy.wait("listening" if number == 0 else "reloaded")
                spent = time.monotonic() - start
                time.sleep(REST)
                name = "start" if number == 0 else f"reload {number}"
                cpu = proxy.processor_time() - before
                print(f"{name:10}{spent:>6.2f} s{cpu:>6.2f} s{proxy.memory():>7.1f} MB", flush=True)
        finally:
            proxy.process.send_signal(signal.SIGTERM)
            if proxy.process.wait(timeout=PATIENCE) != 0:
                sys.exit("pins.py: the proxy did not end well")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
