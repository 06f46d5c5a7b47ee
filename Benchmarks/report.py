# SPDX-License-Identifier: Apache-2.0
"""The figures: medians over rounds, ratios to nginx of the same round, as a table and as JSON."""
from __future__ import annotations

import json
import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path

from processes import BenchError
from workloads import WORKLOADS, Figures, Settings, Workload

REFERENCES = ("nginx", "haproxy")
MEBIBYTE = 1024 * 1024


class Results:
    """Figures by workload, round and peer."""

    def __init__(self) -> None:
        self.rounds: dict[str, dict[int, dict[str, Figures]]] = {}
        self.failures: list[dict[str, object]] = []
        self.tls: dict[str, dict[str, str]] = {}

    def add(self, workload: str, turn: int, peer: str, figures: Figures) -> None:
        self.rounds.setdefault(workload, {}).setdefault(turn, {})[peer] = figures

    def fail(self, workload: str, turn: int, peer: str, reason: str) -> None:
        self.failures.append({"workload": workload, "round": turn, "peer": peer, "reason": reason})

    def of(self, workload: str, peer: str) -> list[Figures]:
        return [by_peer[peer] for _, by_peer in sorted(self.rounds.get(workload, {}).items()) if peer in by_peer]

    def median(self, workload: str, peer: str) -> Figures:
        rounds = self.of(workload, peer)
        return {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]} if rounds else {}

    def range(self, workload: str, peer: str, figure: str) -> tuple[float, float]:
        values = [figures[figure] for figures in self.of(workload, peer)]
        return min(values), max(values)

    def ratios(self, workload: str, peer: str, figure: str, reference: str = "nginx") -> list[float]:
        return [by_peer[peer][figure] / by_peer[reference][figure]
                for by_peer in self.rounds.get(workload, {}).values()
                if peer in by_peer and by_peer.get(reference, {}).get(figure)]

    def ratio(self, workload: str, peer: str, figure: str, reference: str = "nginx") -> float | None:
        """The median of the ratios within each round: what slows a whole round down cancels out."""
        ratios = self.ratios(workload, peer, figure, reference)
        return statistics.median(ratios) if ratios else None


@dataclass
class Budget:
    """What pinproxy must reach: a ratio to nginx of the same round, or a number of its own."""

    workload: str
    figure: str
    limit: float
    text: str
    is_ratio: bool = True

    def value(self, results: Results) -> float | None:
        if self.is_ratio:
            return results.ratio(self.workload, "pinproxy", self.figure)
        return results.median(self.workload, "pinproxy").get(self.figure)


BUDGETS = (
    Budget("1k", "cpuMicrosecondsPerRequest", 1.0, "CPU a request"),
    Budget("100k", "cpuMicrosecondsPerRequest", 0.6, "CPU a request"),
    Budget("1k-hit", "cpuMicrosecondsPerRequest", 0.6, "CPU a hit"),
    Budget("100k-hit", "cpuMicrosecondsPerRequest", 0.5, "CPU a hit"),
    Budget("tls", "cpuMicrosecondsPerRequest", 1.1, "CPU a request"),
    Budget("1g", "seconds", 1.0, "time"),
    Budget("1g", "cpuSeconds", 0.8, "CPU"),
    Budget("1g", "rssAnonGrowthBytes", 5 * MEBIBYTE, "memory over idle", is_ratio=False),
    Budget("memory", "rssAnonIdleBytes", 6 * MEBIBYTE, "idle memory", is_ratio=False),
    Budget("clients", "bytesPerClient", 5 * MEBIBYTE / 10_000, "bytes an idle client", is_ratio=False),
    Budget("clients", "clientsLost", 0, "clients lost", is_ratio=False),
)


def cell(figure: str, value: float) -> str:
    if figure.endswith("Bytes"):
        return f"{value / MEBIBYTE:.1f}"
    if figure == "cpuShare":
        return f"{value * 100:.0f}"
    if figure in ("requestsPerSecond", "megabytesPerSecond", "bytesPerClient", "clientsLost"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def _rows(results: Results, workload: Workload, peers: list[str]) -> list[list[str]]:
    """The first figure has its range over the rounds, and the range of its ratio to nginx."""
    header = [""]
    for place, (figure, heading) in enumerate(workload.columns):
        header += [heading] + (["range"] if place == 0 else [])
        if figure in workload.ratios:
            header += ["× nginx"] + (["range"] if place == 0 else []) + ["× haproxy"]
    rows = [header]
    for peer in peers:
        figures = results.median(workload.name, peer)
        if not figures:
            continue
        row = ["  " + peer]
        for place, (figure, _) in enumerate(workload.columns):
            row.append(cell(figure, figures[figure]))
            if place == 0:
                row.append("–".join(cell(figure, value) for value in results.range(workload.name, peer, figure)))
            if figure in workload.ratios:
                for reference in REFERENCES:
                    ratios = results.ratios(workload.name, peer, figure, reference)
                    row.append(f"{statistics.median(ratios):.2f}" if ratios else "–")
                    if place == 0 and reference == REFERENCES[0]:
                        row.append(f"{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "–")
        rows.append(row)
    return rows


def table(results: Results, peers: list[str], workloads: list[str], settings: Settings) -> str:
    lines = []
    for name in workloads:
        rows = _rows(results, WORKLOADS[name], peers)
        rounds = len(results.rounds.get(name, {}))
        lines += ["", f"{WORKLOADS[name].title_for(settings)} – {rounds} round{'' if rounds == 1 else 's'}"]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            cells = [row[0].ljust(max(widths[0], 10))]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
            lines.append("  ".join(cells).rstrip())
        if len(rows) == 1:
            lines.append("  no figures")
    budget = _budget_lines(results)
    if budget:
        lines += ["", "pinproxy's budget", *budget]
    if results.failures:
        lines += ["", "failed"]
        lines += [f"  {failure['workload']}, round {failure['round']}, {failure['peer']}: {failure['reason']}"
                  for failure in results.failures]
    return "\n".join(lines)


def _budget_lines(results: Results) -> list[str]:
    lines = []
    for budget in BUDGETS:
        value = budget.value(results)
        if value is None:
            continue
        verdict = "reached" if value <= budget.limit else "MISSED"
        if budget.is_ratio:
            has, may = f"{value:.2f} × nginx", f"{budget.limit:g}"
        else:
            has, may = cell(budget.figure, value), cell(budget.figure, budget.limit)
            if budget.figure.endswith("Bytes"):
                has, may = has + " MB", may + " MB"
        lines.append(f"  {budget.workload:<8} {budget.text:<20} {has:>14}  (≤ {may})  {verdict}")
    return lines


def machine() -> dict[str, object]:
    model = "unknown"
    with open("/proc/cpuinfo") as information:
        for line in information:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cores": os.cpu_count(), "processor": model, "kernel": platform.release(),
            "memoryBytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "loadAverageAtStart": os.getloadavg()[0]}


def document(results: Results, peers: list[str], settings: Settings, facts: dict[str, object]) -> dict[str, object]:
    described = {}
    for name in results.rounds:
        workload = WORKLOADS[name]
        described[name] = {"title": workload.title_for(settings), "peers": {
            peer: {
                "median": results.median(name, peer),
                "ratios": {reference: {figure: results.ratio(name, peer, figure, reference)
                                       for figure in workload.ratios} for reference in REFERENCES},
                "tls": results.tls.get(name, {}).get(peer),
            } for peer in peers if results.of(name, peer)}}
    budgets = []
    for budget in BUDGETS:
        value = budget.value(results)
        if value is not None:
            budgets.append({"workload": budget.workload, "figure": budget.figure, "ratioToNginx": budget.is_ratio,
                            "value": value, "limit": budget.limit, "reached": value <= budget.limit})
    return {"version": 2, **facts, "workloads": described, "budgets": budgets, "failures": results.failures,
            "rounds": results.rounds}


def resumed(path: Path, facts: dict[str, object]) -> Results:
    """The rounds of an earlier run of the same programs with the same settings."""
    value = json.loads(path.read_text())
    for key in ("versions", "binary", "settings"):
        if value[key] != facts[key]:
            raise BenchError(f"{path} has other {key} ({value[key]}, now {facts[key]}): name another file")
    results = Results()
    for workload, turns in value["rounds"].items():
        for turn, by_peer in turns.items():
            for peer, figures in by_peer.items():
                results.add(workload, int(turn), peer, figures)
        results.tls[workload] = {peer: described["tls"]
                                 for peer, described in value["workloads"][workload]["peers"].items()}
    return results


def write(path: Path, value: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
