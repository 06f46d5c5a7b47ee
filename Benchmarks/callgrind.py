# SPDX-License-Identifier: Apache-2.0
"""Counts what a server does for a request with valgrind's callgrind: the count does not depend on other load.

Of one process, the counts of 3N requests and those of N requests differ by 2N requests and by nothing else: first
connections, first allocations and timers cancel out. Kernel time is not seen. System calls are counted by strace, in two
runs of their own, since under valgrind each look at the clock is one.
"""
from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable

from peers import Peer, Setup
from processes import BenchError, process_tree

# Counts misses of a data cache of this size, of 16 ways and lines of 64 bytes, in place of instructions: what a second level
# has. Valgrind's model of it, so the number says how much memory is touched, and not how long that takes.
misses_of: int | None = None
COMPONENTS = ("own code", "Swift runtime", "TLS", "libc", "mimalloc", "other")
# Generic code of Swift's library is specialised into the modules that use it ($ss…, $sS…); methods that a module of ours
# adds to the library's types are our own.
_RUNTIME = re.compile(r"_*swift_|.*\bswift::|std::|operator (new|delete)|__cxa|\$s[sS]")
_OWN_EXTENSION = re.compile(r"\$s(s\d+\w+?|S\w{1,2}?)V?\d+(HTTP|IO|Proxy|Session|Server|Strict|Pin)\w*E")


@dataclass
class Counts:
    """Of one run, or the difference of two a request."""

    instructions: float
    """or misses, where `misses_of` is set"""
    functions: dict[tuple[str, str], float]
    """instructions in the function itself, by object file and function"""
    system_calls: dict[str, float]
    calls: dict[tuple[str, str], float] = field(default_factory=dict)
    """how often one function (the first) called another"""
    inclusive: dict[str, float] = field(default_factory=dict)
    """instructions in the function and in those that it calls; too high where it calls itself"""

    def component_costs(self, own: str) -> dict[str, float]:
        costs = dict.fromkeys(COMPONENTS, 0.0)
        for (object_file, function), cost in self.functions.items():
            costs[component(object_file, function, own)] += cost
        return costs

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.instructions + other.instructions, _sum(self.functions, other.functions),
                      _sum(self.system_calls, other.system_calls), _sum(self.calls, other.calls),
                      _sum(self.inclusive, other.inclusive))

    def __sub__(self, other: "Counts") -> "Counts":
        return self + other / -1

    def __truediv__(self, divisor: float) -> "Counts":
        return Counts(self.instructions / divisor, {key: cost / divisor for key, cost in self.functions.items()},
                      {name: count / divisor for name, count in self.system_calls.items()},
                      {pair: count / divisor for pair, count in self.calls.items()},
                      {name: cost / divisor for name, cost in self.inclusive.items()})


def _sum(first: dict, second: dict) -> dict:
    total = defaultdict(float, first)
    for key, value in second.items():
        total[key] += value
    return dict(total)


def component(object_file: str, function: str, own: str) -> str:
    name = Path(object_file).name
    if name == own:
        return "Swift runtime" if _RUNTIME.match(function) and not _OWN_EXTENSION.match(function) else "own code"
    if name.startswith(("libssl", "libcrypto", "libgnutls", "libnettle", "libhogweed", "libgmp")):
        return "TLS"
    if name.startswith(("libc.", "libc-", "ld-", "libm.", "libpthread", "libcrypt.")):
        return "libc"
    if name.startswith("libmimalloc"):
        return "mimalloc"
    return "other"


def read_profile(path: Path) -> Counts:
    """Reads callgrind's output (format version 1): costs of each function without the functions that it calls, and the number of its calls."""
    names: dict[str, dict[str, str]] = {"ob": {}, "fn": {}}
    object_file = function = called = ""
    positions, total, columns = 1, 0.0, [0]
    functions: dict[tuple[str, str], float] = defaultdict(float)
    calls: dict[tuple[str, str], float] = defaultdict(float)
    inclusive: dict[str, float] = defaultdict(float)
    skips = False

    def name(kind: str, text: str) -> str:
        number, _, rest = text.partition(" ")
        if not number.startswith("("):
            return text
        if rest:
            names[kind][number] = rest
        return names[kind].get(number, number)

    def cost(costs: list[str]) -> int:
        # Zeros at the end of a line are left out.
        return sum(int(costs[column]) for column in columns if column < len(costs))

    with open(path, errors="replace") as file:
        for line in file:
            first = line[:1]
            if first.isdigit() or first in "+-*":
                costs = line.split()[positions:]
                if skips:
                    skips = False
                    inclusive[called] += cost(costs)
                elif costs:
                    functions[object_file, function] += cost(costs)
                continue
            key, separator, value = line.rstrip("\n").partition("=")
            if separator:
                if key == "fn":
                    function = name("fn", value)
                elif key == "ob":
                    object_file = name("ob", value)
                elif key == "cfn":
                    called = name("fn", value)
                elif key == "cob":
                    name("ob", value)
                elif key == "calls":
                    calls[function, called] += int(value.split()[0])
                    skips = True
                continue
            key, separator, value = line.partition(":")
            if key == "positions":
                positions = len(value.split())
            elif key == "events" and misses_of:
                columns = [value.split().index(name) for name in ("DLmr", "DLmw")]
            elif key in ("summary", "totals"):
                total = cost(value.split())
    return Counts(total, dict(functions), {}, dict(calls), dict(inclusive))


def read_system_calls(path: Path) -> Counts:
    """Reads the summary of strace -c: calls is the fourth column, the name the last."""
    calls = {}
    for line in path.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = float(fields[3])
    return Counts(0, {}, calls)


def stripped(binary: str, folder: Path) -> str:
    """A copy without debug data, which valgrind cannot read from a Swift binary. Function names stay."""
    copy = folder / "pinproxy"
    if not copy.exists():
        shutil.copy(binary, copy)
        done = subprocess.run(["strip", "-g", str(copy)], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"strip -g failed: {done.stderr}")
    return str(copy)


def count_instructions(peer: Peer, folder: Path, setup: Setup, load: Callable[[Peer, int], None],
                       requests: int, warm_up: Callable[[Peer], None] | None) -> Counts:
    """Starts the peer under callgrind, warms it up with a short load unless there is another way, counts two loads."""
    output = _output(folder)
    # Each process of a server has an output of its own (%p), and a pipe that vgdb finds it by.
    wrapper = ("valgrind", "--tool=callgrind", "--quiet", "--trace-children=yes", "--instr-atstart=no",
               *(("--cache-sim=yes", f"--LL={misses_of},16,64") if misses_of else ()),
               f"--vgdb-prefix={output}/vgdb", f"--callgrind-out-file={output}/counts.%p")
    try:
        peer.start(folder, replace(setup, wrapper=wrapper))
        # Without counting everything is several times as fast.
        warm_up(peer) if warm_up else load(peer, max(1, requests // 10))
        # What is summed up a second after a handshake is over then.
        time.sleep(3 if warm_up else 0)
        processes = process_tree(peer.running.process.pid)
        _command("instrumentation on", processes, output)
        load(peer, requests)
        _command("dump", processes, output)
        load(peer, 3 * requests)
        _command("dump", processes, output)
        peer.running.check_alive()
    finally:
        peer.stop(120)
    total = Counts(0, {}, {})
    for process in processes:
        total += read_profile(output / f"counts.{process}.2") - read_profile(output / f"counts.{process}.1")
    return total / (2 * requests)


def _command(command: str, processes: list[int], output: Path) -> None:
    for process in processes:
        done = subprocess.run(["vgdb", f"--vgdb-prefix={output}/vgdb", f"--pid={process}", "--wait=10", *command.split()],
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise BenchError(f"vgdb {command} failed (it needs ptrace):\n{done.stderr}")


def count_system_calls(peer: Peer, folder: Path, setup: Setup, load: Callable[[Peer], None]) -> Counts:
    output = _output(folder)
    try:
        peer.start(folder, replace(setup, wrapper=("strace", "-f", "-c", "-o", f"{output}/calls")))
        load(peer)
        peer.running.check_alive()
    finally:
        peer.stop(120)
    return read_system_calls(output / "calls")


def _output(folder: Path) -> Path:
    output = folder.with_name(folder.name + "-counts")
    output.mkdir()
    output.chmod(0o777)
    return output


def per_request(make_peer: Callable[[], Peer], folder: Path, setup: Setup, load: Callable[[Peer, int], None],
                requests: int, pool: ThreadPoolExecutor, counts_system_calls: bool = True,
                warm_up: Callable[[Peer], None] | None = None) -> Callable[[], Counts]:
    """Begins the runs; the result waits for them and says what one request costs."""
    def calls(count: int) -> Future:
        own = folder.with_name(f"{folder.name}-{count}")
        return pool.submit(lambda: count_system_calls(make_peer(), own, setup, lambda peer: load(peer, count)))

    instructions = pool.submit(lambda: count_instructions(make_peer(), folder, setup, load, requests, warm_up))
    few, many = (calls(requests), calls(3 * requests)) if counts_system_calls else (None, None)
    return lambda: instructions.result() + (
        (many.result() - few.result()) / (2 * requests) if few and many else Counts(0, {}, {}))
