// SPDX-License-Identifier: Apache-2.0
/// Metrics in Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
///
/// A value that is written in the order of the calls. Metric and label names are constants of the program; label values
/// may hold anything, and are cut at 256 characters: no name of a host is longer.
struct ExpositionText {
    static let contentType: StaticString = "text/plain; version=0.0.4; charset=utf-8"

    enum Kind: String {
        case counter
        case gauge
        case histogram
        case summary
    }

    typealias Label = (name: StaticString, value: String)

    private(set) var text = ""
    private var name: StaticString = ""

    /// Begins a metric; the following samples belong to it.
    mutating func begin(_ name: StaticString, _ kind: Kind, _ help: String) {
        self.name = name
        text += "# HELP \(name) \(Self.escaped(help))\n# TYPE \(name) \(kind.rawValue)\n"
    }

    mutating func sample(_ value: Int, _ labels: Label...) {
        write("", labels, "\(value)")
    }

    /// Adds a sample of a time, in seconds.
    mutating func sample(microseconds: Int, _ labels: Label...) {
        write("", labels, Self.seconds(microseconds))
    }

    mutating func sample(_ flag: Bool, _ labels: Label...) {
        write("", labels, flag ? "1" : "0")
    }

    /// Adds a metric with one sample.
    mutating func add(_ name: StaticString, _ kind: Kind, _ help: String, _ value: Int) {
        begin(name, kind, help)
        sample(value)
    }

    /// Adds the samples of a histogram of times.
    ///
    /// - Parameters:
    ///   - bounds: upper bounds in microseconds, ascending.
    ///   - counts: observations by the first bound that includes them, then those beyond the last bound.
    ///   - sum: the sum of all observations, in microseconds.
    mutating func histogram(bounds: [Int64], counts: [Int], sum: Int) {
        var total = 0
        for (bound, count) in zip(bounds, counts) {
            total += count
            write("_bucket", [("le", Self.seconds(Int(bound)))], "\(total)")
        }
        total += counts.last ?? 0
        write("_bucket", [("le", "+Inf")], "\(total)")
        write("_sum", [], Self.seconds(sum))
        write("_count", [], "\(total)")
    }

    /// Adds the samples of a summary of times without quantiles.
    ///
    /// - Parameter sum: in microseconds.
    mutating func summary(count: Int, sum: Int) {
        write("_sum", [], Self.seconds(sum))
        write("_count", [], "\(count)")
    }

    private mutating func write(_ suffix: StaticString, _ labels: [Label], _ value: String) {
        text += "\(name)\(suffix)"
        if !labels.isEmpty {
            let pairs = labels.map { "\($0.name)=\"\(Self.escaped(Self.bounded($0.value), quotes: true))\"" }
            text += "{\(pairs.joined(separator: ","))}"
        }
        text += " \(value)\n"
    }

    private static let longestLabel = 256

    private static func bounded(_ value: String) -> String {
        // Most values are short, and are not copied.
        guard value.utf8.count > longestLabel, value.unicodeScalars.count > longestLabel else { return value }
        return String(String.UnicodeScalarView(value.unicodeScalars.prefix(longestLabel)))
    }

    private static func escaped(_ text: String, quotes: Bool = false) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// Microseconds in seconds, with as many decimals as are needed.
    static func seconds(_ microseconds: Int) -> String {
        let magnitude = microseconds.magnitude
        var text = "\(microseconds < 0 ? "-" : "")\(magnitude / 1_000_000)"
        let rest = magnitude % 1_000_000
        guard rest > 0 else { return text }
        let digits = "\(rest)"
        text += "." + String(repeating: "0", count: 6 - digits.utf8.count) + digits
        while text.utf8.last == UInt8(ascii: "0") { text.removeLast() }
        return text
    }
}
