# SPDX-License-Identifier: Apache-2.0
"""A load of clients of our own, a thread each. Python is slow: the proxy's CPU time counts here, not the throughput."""
from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack
from typing import Callable

import wrk


def drive(begin: Callable[[ExitStack], Callable[[], object]], clients: int, seconds: int, size: int) -> wrk.Load:
    """Each thread calls what `begin` returns until the time is over. The first error ends all, and is raised."""
    times: list[float] = []
    errors: list[BaseException] = []
    start = time.monotonic()

    def run() -> None:
        own = []
        try:
            with ExitStack() as stack:
                ask = begin(stack)
                last = time.monotonic()
                while last < start + seconds and not errors:
                    ask()
                    now = time.monotonic()
                    own.append(now - last)
                    last = now
        except BaseException as error:
            errors.append(error)
        times.extend(own)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    percentiles = statistics.quantiles(times, n=100) if len(times) > 1 else [0.0] * 99
    return wrk.Load(len(times), time.monotonic() - start, len(times) * size, 0, 0, percentiles[49] * 1000,
                    percentiles[98] * 1000)
