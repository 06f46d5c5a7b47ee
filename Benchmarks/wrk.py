# SPDX-License-Identifier: Apache-2.0
"""The load: wrk with 32 connections and one thread, its figures taken from its Lua interface."""
from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from processes import BenchError, prepare_child

CONNECTIONS = 32

# No `request` function: wrk then sends the same bytes again and again without entering Lua.
SCRIPT = """\
wrk.path = "{target}"
wrk.headers["Host"] = "{host}"
done = function(summary, latency, requests)
    local e = summary.errors
    io.write(string.format(
        '\\nBENCH {{"requests":%d,"seconds":%.6f,"bytes":%d,"errors":%d,"statusErrors":%d,"p50":%.3f,"p99":%.3f}}\\n',
        summary.requests, summary.duration / 1e6, summary.bytes, e.connect + e.read + e.write + e.timeout, e.status,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


@dataclass
class Load:
    requests: int
    seconds: float
    bytes: int
    errors: int
    statusErrors: int
    p50: float
    """milliseconds"""
    p99: float
    most: float = 0.0


def drive(folder: Path, port: int, host: str, target: str, seconds: int,
          connections: int = CONNECTIONS) -> Load:
    script = folder / "wrk.lua"
    script.write_text(SCRIPT.format(target=target, host=host))
    command = ["wrk", "--latency", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script),
               f"http://127.0.0.1:{port}/"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30,
                              preexec_fn=prepare_child)
    except subprocess.TimeoutExpired:
        raise BenchError(f"wrk did not end {seconds + 30} s after its start") from None
    for line in done.stdout.splitlines():
        if line.startswith("BENCH "):
            return Load(**json.loads(line[6:]))
    raise BenchError(f"wrk failed with {done.returncode}:\n{done.stdout}{done.stderr}")
