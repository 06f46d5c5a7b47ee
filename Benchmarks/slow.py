# SPDX-License-Identifier: Apache-2.0
"""slowhttptest in all its modes: whoever asks meanwhile is served, and the slow are sent away.

-H heads that never end, -B bodies that hardly come on, -R many ranges, -X answers that are hardly read.
"""
from __future__ import annotations

import argparse
import http.client
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from pinned import pinned_proxy
from processes import BenchError, progress, raise_descriptor_limit

MODES = {
    "-H": ["-i", "1", "-x", "24"],
    "-B": ["-i", "1", "-x", "10", "-s", "8192", "-t", "PUT"],
    "-R": ["-t", "HEAD", "-a", "10", "-b", "3000"],
    "-X": ["-w", "64", "-y", "128", "-n", "1", "-z", "16", "-k", "3"],
}
# What a passer-by waits at most.
PATIENCE = 5.0


class Probe(threading.Thread):
    """Asks ten times a second on connections of its own."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.ends = threading.Event()
        self.times: list[float] = []
        self.failure: str | None = None

    def run(self) -> None:
        while not self.ends.wait(0.1):
            start = time.monotonic()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
                connection.request("GET", "/probe", headers={"Host": "localhost"})
                answer = connection.getresponse()
                answer.read()
                connection.close()
                if answer.status != 200:
                    self.failure = f"the answer was {answer.status}"
            except OSError as error:
                self.failure = f"no answer: {error}"
            self.times.append(time.monotonic() - start)


def attack(mode: str, port: int, connections: int, seconds: int, log: Path) -> str:
    # More than the buffers of two connections hold: else nobody would notice that nobody reads.
    path = "/1g" if mode == "-X" else "/1k"
    command = ["slowhttptest", mode, "-c", str(connections), "-r", str(max(50, connections // 3)), "-l", str(seconds),
               "-p", "3", "-u", f"http://127.0.0.1:{port}{path}", *MODES[mode]]
    progress("$ " + " ".join(command))
    probe = Probe(port)
    probe.start()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    probe.ends.set()
    probe.join()
    output = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", done.stdout)
    if probe.failure:
        raise BenchError(f"slowhttptest {mode}: {probe.failure}")
    if "service available:   NO" in output:
        raise BenchError(f"slowhttptest {mode} has found the service not available:\n{output[-1500:]}")
    served = f"{len(probe.times)} others were served, the slowest within {max(probe.times) * 1000:.0f} ms"
    # It ends early then, and says no numbers any more.
    if "No open connections left" in output:
        return f"all {connections} sent away; {served}"
    if mode == "-X":
        # A reset is not seen before what the client's own kernel holds has been read, which takes minutes at this pace:
        # the proxy's log says whom it has sent away.
        stalled = log.read_text().count('"error":"stalled"')
        if stalled < connections:
            raise BenchError(f"slowhttptest -X: after {seconds} s only {stalled} of {connections} have been sent away")
        return f"all {connections} sent away; {served}"
    left = re.findall(r"connected:\s+(\d+)", output)
    closed = re.findall(r"closed:\s+(\d+)", output)
    if not closed:
        raise BenchError(f"slowhttptest {mode} has said nothing:\n{output[-500:]}{done.stderr[-500:]}")
    if int(closed[-1]) == 0:
        raise BenchError(f"slowhttptest {mode}: after {seconds} s none of {connections} has been sent away")
    return f"{closed[-1]} sent away, {left[-1] if left else '?'} left; {served}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--modes", default="HBRX")
    wanted = parser.parse_args()
    for program in ("nginx", "slowhttptest"):
        if not shutil.which(program):
            raise BenchError(f"{program} is missing: apt-get install {program}")
    raise_descriptor_limit()
    # Whoever hardly reads holds a connection to the origin until it is sent away: with the default of 256 the others
    # would wait in the queue for that host, as they are meant to.
    limits = {"limits": {"connectionsPerHost": 4 * wanted.connections}}
    # The defaults' order, in a time that a test can wait for.
    timeouts = {"head": "5s", "body": "5s", "idle": "5s", "stall": "5s"}
    with pinned_proxy(wanted.binary, limits, timeouts) as proxy:
        for mode in wanted.modes:
            log = proxy.folder / "access.log"
            print(f"-{mode}: {attack('-' + mode, proxy.ports[1], wanted.connections, wanted.seconds, log)}")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"slow: {error}")
