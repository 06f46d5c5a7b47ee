# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of a process that crashed, where this user may read that."""
from __future__ import annotations

import os

from processes import BenchError


class Watch:
    """Looks at what comes after its making."""

    def __init__(self, process: int) -> None:
        self.process = process
        try:
            self.descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.descriptor, 0, os.SEEK_END)
        except OSError:
            self.descriptor = -1

    def check(self) -> None:
        """Fails when the kernel tells of a fault or a trap of a pinproxy."""
        if self.descriptor < 0:
            print("kernel log: not readable here")
            return
        lines = []
        while True:
            try:
                lines.append(os.read(self.descriptor, 8192).decode(errors="replace"))
            except BlockingIOError:
                break
            except OSError:
                # A line that was overwritten meanwhile.
                continue
        # A line is of the thread that failed, under its own name and number.
        told = [line for line in lines if any(word in line for word in ("segfault", "traps:", "general protection"))
                and ("pinproxy" in line or f"[{self.process}]" in line)]
        print(f"kernel log: {len(told)} lines of a crash")
        if told:
            raise BenchError("the kernel tells of a crash: " + "".join(told))
