// SPDX-License-Identifier: Apache-2.0
import Testing

/// One rule of the wire as the proxy keeps it: what is sent, and the statuses of the answers.
struct WireRule: Sendable, CustomTestStringConvertible {
    let number: Int
    let name: String
    /// Bytes from the client, as Latin-1 so that any byte can be written, and the status that answers them.
    let cases: [(bytes: [UInt8], status: Int)]

    var testDescription: String { "rule \(number): \(name)" }

    /// A row of a table: the index of rules finds it by its number and name.
    static func rule(_ number: Int, _ name: String, _ cases: [(String, Int)]) -> WireRule {
        WireRule(number: number, name: name, cases: cases.map { (latin1($0.0), $0.1) })
    }

    static func latin1(_ text: String) -> [UInt8] { text.unicodeScalars.map { UInt8($0.value) } }
}
