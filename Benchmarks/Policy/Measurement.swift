// SPDX-License-Identifier: Apache-2.0
import Glibc

/// CPU time of this thread, which a busy machine disturbs least.
enum Measurement {
    /// Nanoseconds of CPU time that one call of `body` takes, over `count` calls.
    static func nanoseconds(_ count: Int, _ body: () -> Void) -> Double {
        let start = threadTime()
        for _ in 0..<count { body() }
        return Double(threadTime() - start) / Double(count)
    }

    private static func threadTime() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    static func median(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}

/// Columns for people: the first to the left, the others to the right.
enum Table {
    static func print(_ rows: [[String]]) {
        let widths = (0..<(rows.first?.count ?? 0)).map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let cells = zip(row, widths).enumerated().map { column, cell in
                let space = String(repeating: " ", count: cell.1 - cell.0.count)
                return column == 0 ? cell.0 + space : space + cell.0
            }
            Swift.print("  " + cells.joined(separator: "   "))
        }
    }

    /// With one digit behind the point.
    static func number(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10).\(abs(tenths) % 10)"
    }
}
