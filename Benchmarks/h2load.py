# SPDX-License-Identifier: Apache-2.0
"""The load of clients with HTTP/2: h2load, cleartext with prior knowledge."""
from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import wrk
from processes import BenchError, prepare_child

CONNECTIONS = 8
STREAMS = 4


def drive(port: int, path: str, seconds: int) -> wrk.Load:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "requests"
        done = subprocess.run(
            ["h2load", "-t", "1", "-c", str(CONNECTIONS), "-m", str(STREAMS), "-D", str(seconds), f"--log-file={log}",
             f"http://127.0.0.1:{port}{path}"],
            capture_output=True, text=True, timeout=seconds + 60, preexec_fn=prepare_child)
        counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", done.stdout)
        codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
        data = re.search(r"\((\d+)\) data", done.stdout)
        if done.returncode or not (counts and codes and data):
            raise BenchError(f"h2load failed:\n{done.stdout}{done.stderr}")
        # A line a response: when it began, its status, and its microseconds.
        times = sorted(int(line.split()[2]) / 1000 for line in log.read_text().splitlines())
    percentiles = statistics.quantiles(times, n=100) if len(times) > 1 else [0.0] * 99
    return wrk.Load(int(counts[1]), seconds, int(data[1]), sum(int(counts[index]) for index in (2, 3, 4)),
                    sum(int(codes[index]) for index in (2, 3, 4)), percentiles[49], percentiles[98])
