# SPDX-License-Identifier: Apache-2.0
"""Fifty upgrades under full load, with the sockets of a service manager: no request fails, and none is refused.

The load is that of verify_load.py, every byte compared. The sockets belong to the manager (service_manager.py), as with
pinproxy.socket. Two of three upgrades start the successor beside its predecessor, which is stopped when the successor is ready; the
third stops first, as `systemctl restart` does: clients then wait in the queue of the socket. Each process has to tell of its readiness,
life and end as systemd expects it, and to end with 0.
"""
from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import sys
import time
from pathlib import Path

import kernel_log
import verify_client
import verify_load
from processes import BenchError, progress
from service_manager import Manager

WATCHDOG = 3


class Stage(verify_load.Stage):
    def __init__(self, binary: str, folder: Path) -> None:
        self.manager = Manager(("pinproxy-forward", "pinproxy-admin"), WATCHDOG)
        port, admin = self.manager.ports
        super().__init__(binary, folder, port, {"admin": {"address": f"127.0.0.1:{admin}"}}, self.manager.start)

    async def upgrade(self, number: int, overlaps: bool) -> None:
        former = self.proxy.server
        if overlaps:
            await self._start(number)
        former.process.send_signal(signal.SIGTERM)
        await self._await_end(former)
        if not overlaps:
            await self._start(number)
        former.judge()

    async def _start(self, number: int) -> None:
        server = self._launch(number)
        self.watches.append(kernel_log.Watch(server.process.pid))

        def is_ready() -> bool:
            server.check_alive()
            return server.has_told("READY=1")

        await self._wait(is_ready, "a successor is not ready")

    def stop(self) -> None:
        super().stop()
        self.manager.close()


class Load(verify_load.Load):
    """Exchanges until the last upgrade is done."""

    def __init__(self, stage: Stage, wanted) -> None:
        super().__init__(stage, wanted)
        self.is_over = False
        self.numbers = itertools.takewhile(lambda _: not self.is_over, itertools.count())
        self.seconds: dict[bool, list[float]] = {True: [], False: []}

    async def change(self) -> None:
        try:
            for number in range(self.wanted.upgrades):
                await self._exchanges(self.wanted.between)
                overlaps = number % 3 != 2
                began = time.monotonic()
                await self.stage.upgrade(number, overlaps)
                self.seconds[overlaps].append(time.monotonic() - began)
                self.tally["upgrade beside the predecessor" if overlaps else "upgrade after the predecessor's end"] += 1
                if (number + 1) % 10 == 0:
                    progress(f"{number + 1:>4} upgrades, {self.done} exchanges")
            await self._exchanges(self.wanted.between)
        finally:
            self.is_over = True

    def judge(self, seconds: float) -> None:
        verify_load.judge(self.stage, self, seconds)
        self.stage.proxy.server.judge()
        for overlaps, what in ((True, "beside the predecessor"), (False, "after its end")):
            if times := self.seconds[overlaps]:
                print(f"upgrades {what}: {len(times)}, the longest in {max(times):.1f} s")

    async def _exchanges(self, count: int) -> None:
        bound = self.done + count
        while self.done < bound:
            self.stage.proxy.server.check_alive()
            await asyncio.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=".build/release/pinproxy")
    parser.add_argument("--upgrades", type=int, default=50)
    parser.add_argument("--between", type=int, default=300, help="exchanges before each upgrade, at least")
    parser.add_argument("--width", type=int, default=48, help="exchanges at a time")
    wanted = parser.parse_args()
    # The settings of the other load: the first number, and the exchange whose response is spoilt.
    wanted.first, wanted.requests, wanted.spoil = 0, 0, None
    # The socket is always there: a connection that is refused is a request that has failed.
    verify_client.CONNECT_PATIENCE = 0
    verify_load.run(Stage, Load, wanted)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"upgrade-load: {error}")
