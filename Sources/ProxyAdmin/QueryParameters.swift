// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The query of a request to the admin listener: names with their values, both percent-encoded.
struct QueryParameters {
    private(set) var all: [(name: String, value: String)] = []

    /// - Returns: nil when something is not percent-encoded UTF-8.
    init?(of target: borrowing Span<UInt8>) {
        guard let mark = target.firstIndex(of: UInt8(ascii: "?")) else { return }
        var start = mark + 1
        while start < target.count {
            let end = target.firstIndex(of: UInt8(ascii: "&"), from: start) ?? target.count
            let pair = target.extracting(start..<end)
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.count
            guard let name = Self.decoded(pair.extracting(0..<equals)),
                let value = Self.decoded(pair.extracting(min(equals + 1, pair.count)..<pair.count))
            else { return nil }
            all.append((name, value))
            start = end + 1
        }
    }

    private static func decoded(_ text: borrowing Span<UInt8>) -> String? {
        var bytes: [UInt8] = []
        var index = 0
        while index < text.count {
            if text[index] == UInt8(ascii: "%") {
                guard index + 2 < text.count, let upper = ASCII.hexadecimalValue(text[index + 1]),
                    let lower = ASCII.hexadecimalValue(text[index + 2])
                else { return nil }
                bytes.append(upper << 4 | lower)
                index += 3
            } else {
                bytes.append(text[index])
                index += 1
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
