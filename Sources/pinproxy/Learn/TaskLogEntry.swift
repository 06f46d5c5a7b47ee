// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

/// The part of a task log line about a server. A log may contain anything: a line that differs from the documentation
/// is foreign and not used.
struct TaskLogEntry {
    enum Line {
        case task(TaskLogEntry)
        /// A line without a server: another event, or a request refused before there was a connection.
        case irrelevant
        /// JSON that is not a line of a task log.
        case foreign
        case notJSON
    }

    /// A time such as `2026-11-21T06:00:00.123Z`; the texts sort in the order of the times.
    var time: String
    var server: ServerAddress
    /// Whether the server was reached over TLS.
    var isSecure: Bool
    var verdict: TrustEvaluation.Verdict?
    /// The keys that the server presented on a new connection, its own first; nil on a reused connection.
    var offeredPins: [PublicKeyPin]?
    /// The code of the failure, which has only lower-case letters and underscores.
    var error: String?

    /// The largest number of certificates in a chain.
    private static let longestChain = 32

    static func read(_ line: [UInt8]) -> Line {
        let document = JSONDocument(bytes: line, file: "")
        guard document.issues.isEmpty, let root = document.root else { return .notJSON }
        guard let members = root.members, let event = members["event"]?.string else { return .foreign }
        guard event == "task" else { return .irrelevant }
        guard let time = members["time"]?.string, isTime(time) else { return .foreign }
        guard let list = members["transactions"] else { return .irrelevant }
        guard case .array(let transactions) = list.content, let last = transactions.last?.members,
            let url = last["url"]?.string
        else { return .foreign }
        // The verdict belongs to the server of the last transaction, not to earlier redirects.
        guard let (isSecure, server) = server(of: url) else {
            return members["method"]?.string == "CONNECT" ? .irrelevant : .foreign
        }
        var entry = TaskLogEntry(time: time, server: server, isSecure: isSecure)
        if let pinning = members["pinning"] {
            guard let word = pinning.members?["verdict"]?.string, let verdict = TrustEvaluation.Verdict(rawValue: word)
            else { return .foreign }
            entry.verdict = verdict
        }
        if let offered = last["offeredPins"] {
            guard let pins = pins(offered) else { return .foreign }
            entry.offeredPins = pins
        }
        if let error = members["error"] {
            guard let code = error.string, code.utf8.count <= 64, code.utf8.allSatisfy(isCodeLetter) else {
                return .foreign
            }
            entry.error = code
        }
        return .task(entry)
    }

    private static func isCodeLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "_")
    }

    /// Whether a text has the log's form of a time; other forms of RFC 3339 are not accepted.
    private static func isTime(_ text: String) -> Bool {
        let form = Array("0000-00-00T00:00:00.000Z".utf8)
        let bytes = Array(text.utf8)
        return bytes.count == form.count
            && zip(bytes, form).allSatisfy { byte, sample in
                sample == UInt8(ascii: "0") ? (48...57).contains(byte) : byte == sample
            }
    }

    /// The server of an absolute URL. A URL with user information is not accepted, because its host is easily misread.
    private static func server(of url: String) -> (isSecure: Bool, ServerAddress)? {
        let isSecure = url.hasPrefix("https://")
        guard isSecure || url.hasPrefix("http://") else { return nil }
        let rest = url.utf8.dropFirst(isSecure ? 8 : 7)
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        guard let authority = String(rest[..<(end ?? rest.endIndex)]), !authority.utf8.contains(UInt8(ascii: "@")),
            let address = try? ServerAddress(authority)
        else { return nil }
        return (isSecure, address)
    }

    private static func pins(_ value: DocumentValue) -> [PublicKeyPin]? {
        guard case .array(let elements) = value.content, (1...longestChain).contains(elements.count) else { return nil }
        var pins: [PublicKeyPin] = []
        for element in elements {
            guard let text = element.string, text.hasPrefix("sha256/"), let pin = try? PublicKeyPin(text) else {
                return nil
            }
            pins.append(pin)
        }
        return pins
    }
}

extension DocumentValue {
    fileprivate var string: String? {
        if case .string(let text) = content { text } else { nil }
    }

    /// The members of an object; their names are distinct in a document without issues.
    fileprivate var members: [String: DocumentValue]? {
        guard case .object(let members) = content else { return nil }
        return Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
    }
}
