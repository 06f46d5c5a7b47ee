// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// One JSON object of a log.
package struct LogLine {
    package let text: String
    package let members: [String: Any]

    /// Nil when the text is not a JSON object.
    package init?(_ text: String) {
        guard let members = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
            return nil
        }
        self.text = text
        self.members = members
    }

    /// The complete lines of a log with a text in them. What follows the last line feed may be a part of a line.
    ///
    /// By memchr(3): it is asked again whenever a proxy writes, and tests are built without optimisation.
    package static func texts(in log: String, with text: String) -> [String] {
        var log = log
        var text = text
        return text.withUTF8 { text in
            log.withUTF8 { log in
                var lines: [String] = []
                guard var start = log.baseAddress else { return lines }
                let end = start + log.count
                while let feed = memchr(start, 0x0A, end - start) {
                    let count = UnsafePointer(feed.assumingMemoryBound(to: UInt8.self)) - start
                    let line = UnsafeBufferPointer(start: start, count: count)
                    if contains(line, text) { lines.append(String(decoding: line, as: UTF8.self)) }
                    start += count + 1
                }
                return lines
            }
        }
    }

    private static func contains(_ line: UnsafeBufferPointer<UInt8>, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let first = text.first, var start = line.baseAddress else { return text.isEmpty }
        let end = start + line.count
        while end - start >= text.count, let found = memchr(start, Int32(first), end - start - text.count + 1) {
            if memcmp(found, text.baseAddress!, text.count) == 0 { return true }
            start = UnsafePointer(found.assumingMemoryBound(to: UInt8.self)) + 1
        }
        return false
    }

    package subscript(name: String) -> Any? { members[name] }
    package func string(_ name: String) -> String? { members[name] as? String }
    package func integer(_ name: String) -> Int? { (members[name] as? NSNumber)?.intValue }
    package func number(_ name: String) -> Double? { (members[name] as? NSNumber)?.doubleValue }
    package func object(_ name: String) -> [String: Any]? { members[name] as? [String: Any] }

    /// The transactions of a task's line.
    package var transactions: [[String: Any]] { members["transactions"] as? [[String: Any]] ?? [] }
}

extension HTTPMessage {
    /// The members of a problem document; empty for other bodies.
    package var problem: [String: Any] {
        guard self["Content-Type"] == "application/problem+json" else { return [:] }
        return (try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]) ?? [:]
    }

    /// The stable code of a problem document.
    package var problemCode: String? { problem["error"] as? String }
}
