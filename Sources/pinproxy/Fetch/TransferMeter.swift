// SPDX-License-Identifier: Apache-2.0
import HTTPSessionCore

/// The progress, rate and remaining time of a transfer, as one line of text.
struct TransferMeter {
    /// The time for measuring the rate, in seconds: a longer one is steadier, a shorter one more current.
    private static let window = 5.0
    private static let barWidth = 24

    /// Times in seconds with the bytes at that time; the oldest first.
    private var samples: [(time: Double, bytes: Int64)] = []

    /// - Parameter time: seconds of any clock that does not go back.
    mutating func add(_ bytes: Int64, at time: Double) {
        samples.append((time, bytes))
        // The newest sample before the window is kept, so that the rate covers the whole window.
        while samples.count > 2, samples[1].time <= time - Self.window { samples.removeFirst() }
    }

    /// Bytes per second; nil while there are too few samples.
    var rate: Double? {
        guard let first = samples.first, let last = samples.last, last.time - first.time >= 0.2 else { return nil }
        return Double(last.bytes - first.bytes) / (last.time - first.time)
    }

    /// `[=======>         ]  42 %   12.3 of 29.1 MB   4.2 MB/s   0:04 left`
    func line(_ progress: TaskProgress) -> String {
        var words: [String] = []
        let fraction = progress.fraction.map { min(max($0, 0), 1) }
        if let fraction {
            let filled = Int(fraction * Double(Self.barWidth))
            let head = filled < Self.barWidth ? ">" : ""
            let bar = String(repeating: "=", count: filled) + head
            let percent = "\(Int(fraction * 100))"
            let padding = String(repeating: " ", count: 3 - percent.count)
            words.append("[\(bar)\(String(repeating: " ", count: Self.barWidth - bar.count))] \(padding)\(percent) %")
        }
        let done = Self.size(progress.completedBytes)
        words.append(progress.totalBytes.map { "\(done) of \(Self.size($0))" } ?? done)
        if let rate {
            words.append("\(Self.size(Int64(rate)))/s")
            if let total = progress.totalBytes, rate >= 1 {
                words.append("\(Self.time(Double(total - progress.completedBytes) / rate)) left")
            }
        }
        return words.joined(separator: "   ")
    }

    /// A size such as `12.3 MB`, of 1,000,000 bytes each.
    static func size(_ bytes: Int64) -> String {
        let units = ["kB", "MB", "GB", "TB"]
        guard bytes >= 1000 else { return "\(bytes) B" }
        var value = Double(bytes) / 1000
        var unit = 0
        // A value that would be rounded to 1000 is shown as 1 of the next unit.
        while value >= 999.95, unit < units.count - 1 {
            value /= 1000
            unit += 1
        }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) \(units[unit])"
    }

    /// `1:02:03`, `0:04`.
    static func time(_ seconds: Double) -> String {
        guard seconds < 359_999 else { return "over 99 h" }
        let whole = Int(max(seconds, 0).rounded(.up))
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60)
        return hours > 0 ? "\(hours):\(two(minutes)):\(two(rest))" : "\(minutes):\(two(rest))"
    }
}
