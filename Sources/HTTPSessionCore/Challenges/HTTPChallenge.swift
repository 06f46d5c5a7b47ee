// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// One challenge of a `WWW-Authenticate` field (RFC 9110, section 11.6.1).
package struct HTTPChallenge: Equatable, Sendable {
    /// The scheme's name in lower case.
    package var scheme: String
    /// Parameters with names in lower case, and values without quotes and escapes.
    package var parameters: [String: String] = [:]
    /// The token that replaces parameters.
    var token: String?

    /// The challenges of all these fields, in order. An unreadable challenge ends the list of its field; the ones
    /// before it count.
    static func challenges(in fields: borrowing HeaderFields) -> [HTTPChallenge] {
        var all: [HTTPChallenge] = []
        var found = fields.first(.wwwAuthenticate)
        while let index = found {
            var value: [UInt8] = []
            fields.appendValue(at: index, to: &value)
            all += list(value)
            found = fields.next(.wwwAuthenticate, after: index)
        }
        return all
    }

    /// The challenges of one field.
    package static func list(_ value: [UInt8]) -> [HTTPChallenge] {
        var all: [HTTPChallenge] = []
        var reader = ChallengeReader(bytes: value)
        while let challenge = reader.next() { all.append(challenge) }
        return all
    }
}

/// Reads the list, in which commas separate challenges as well as the parameters of each.
private struct ChallengeReader {
    let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    private var byte: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipBlanks() {
        while let byte, ASCII.isBlank(byte) { position += 1 }
    }

    private mutating func skipSeparators() {
        while let byte, ASCII.isBlank(byte) || byte == UInt8(ascii: ",") { position += 1 }
    }

    private mutating func token() -> String? {
        let start = position
        while let byte, ASCII.isToken(byte) { position += 1 }
        return position > start ? String(decoding: bytes[start..<position], as: UTF8.self) : nil
    }

    mutating func next() -> HTTPChallenge? {
        skipSeparators()
        guard let scheme = token() else { return nil }
        var challenge = HTTPChallenge(scheme: scheme.lowercased())
        guard let byte, ASCII.isBlank(byte) else {
            return self.byte == nil || self.byte == UInt8(ascii: ",") ? challenge : stop()
        }
        skipBlanks()
        if let token = token68() {
            challenge.token = token
            return challenge
        }
        while let parameter = parameter() {
            guard challenge.parameters.updateValue(parameter.value, forKey: parameter.name) == nil else {
                return stop()
            }
            skipBlanks()
            guard self.byte == nil || self.byte == UInt8(ascii: ",") else { return stop() }
            skipSeparators()
        }
        return isBroken ? nil : challenge
    }

    private var isBroken = false

    private mutating func stop() -> HTTPChallenge? {
        isBroken = true
        position = bytes.count
        return nil
    }

    /// Reads a `token68`; nil when there is none.
    private mutating func token68() -> String? {
        let start = position
        while let byte, ASCII.isLetter(byte) || ASCII.isDigit(byte) || Self.marks.contains(byte) { position += 1 }
        let end = position
        while byte == UInt8(ascii: "=") { position += 1 }
        let text = bytes[start..<position]
        skipBlanks()
        guard end > start, byte == nil || byte == UInt8(ascii: ",") else {
            position = start
            return nil
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static let marks = Array("-._~+/".utf8)

    /// Reads `name=value`; nil, and nothing is consumed, at the beginning of the next challenge.
    private mutating func parameter() -> (name: String, value: String)? {
        let start = position
        guard let name = token() else { return nil }
        skipBlanks()
        guard byte == UInt8(ascii: "=") else {
            position = start
            return nil
        }
        position += 1
        skipBlanks()
        let value = byte == UInt8(ascii: "\"") ? quoted() : token()
        guard let value else {
            _ = stop()
            return nil
        }
        return (name.lowercased(), value)
    }

    private mutating func quoted() -> String? {
        position += 1
        var text: [UInt8] = []
        while let byte {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return String(validating: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let escaped = self.byte else { return nil }
                position += 1
                text.append(escaped)
            default: text.append(byte)
            }
        }
        return nil
    }
}
