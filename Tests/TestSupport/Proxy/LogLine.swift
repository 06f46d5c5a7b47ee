// SPDX-License-Identifier: Apache-2.0
import Foundation

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
