// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The parameters of permessage-deflate on a connection (RFC 7692, section 7).
package struct PermessageDeflate: Equatable, Sendable {
    /// The client begins each message without what it has sent before.
    package var clientNoContextTakeover = false
    /// The same of the server.
    package var serverNoContextTakeover = false
    /// The base-2 logarithm of the client's window, from 8 to 15.
    package var clientMaxWindowBits = 15
    /// The same of the server's.
    package var serverMaxWindowBits = 15

    package init(
        clientNoContextTakeover: Bool = false,
        serverNoContextTakeover: Bool = false,
        clientMaxWindowBits: Int = 15,
        serverMaxWindowBits: Int = 15
    ) {
        self.clientNoContextTakeover = clientNoContextTakeover
        self.serverNoContextTakeover = serverNoContextTakeover
        self.clientMaxWindowBits = clientMaxWindowBits
        self.serverMaxWindowBits = serverMaxWindowBits
    }

    package static let name = "permessage-deflate"
    static let windowBits = 8...15
}

/// What a client offers (RFC 7692, section 7.1).
package struct PermessageDeflateOffer: Equatable, Sendable {
    /// The client will not refer to what it has sent before.
    package var clientNoContextTakeover = false
    /// The server must not.
    package var serverNoContextTakeover = false
    /// The largest window that the client uses; nil: the server cannot ask for a smaller one.
    package var clientMaxWindowBits: Int? = 15
    /// The largest window that the server may use; nil: it decides.
    package var serverMaxWindowBits: Int?

    package init(
        clientNoContextTakeover: Bool = false,
        serverNoContextTakeover: Bool = false,
        clientMaxWindowBits: Int? = 15,
        serverMaxWindowBits: Int? = nil
    ) {
        self.clientNoContextTakeover = clientNoContextTakeover
        self.serverNoContextTakeover = serverNoContextTakeover
        self.clientMaxWindowBits = clientMaxWindowBits
        self.serverMaxWindowBits = serverMaxWindowBits
    }

    /// The value of Sec-WebSocket-Extensions.
    package var text: String {
        var text = PermessageDeflate.name
        if serverNoContextTakeover { text += "; server_no_context_takeover" }
        if clientNoContextTakeover { text += "; client_no_context_takeover" }
        if let serverMaxWindowBits { text += "; server_max_window_bits=\(serverMaxWindowBits)" }
        if let clientMaxWindowBits {
            text += "; client_max_window_bits"
            if clientMaxWindowBits < 15 { text += "=\(clientMaxWindowBits)" }
        }
        return text
    }

    /// What a server's response makes of the offer.
    ///
    /// - Returns: nil for a response that does not fit the offer (RFC 7692, section 7.1): the connection fails.
    package func agreement(_ response: WebSocketExtension) -> PermessageDeflate? {
        guard response.name == PermessageDeflate.name, let read = ReadParameters(response) else { return nil }
        var agreed = PermessageDeflate()
        agreed.clientNoContextTakeover = read.clientNoContextTakeover || clientNoContextTakeover
        agreed.serverNoContextTakeover = read.serverNoContextTakeover
        if serverNoContextTakeover, !read.serverNoContextTakeover { return nil }
        if case .bits(let bits) = read.serverMaxWindowBits { agreed.serverMaxWindowBits = bits }
        if case .noValue = read.serverMaxWindowBits { return nil }
        if let serverMaxWindowBits, agreed.serverMaxWindowBits > serverMaxWindowBits { return nil }
        agreed.clientMaxWindowBits = clientMaxWindowBits ?? 15
        switch read.clientMaxWindowBits {
        case .absent: break
        case .noValue: return nil
        case .bits(let bits):
            guard clientMaxWindowBits != nil else { return nil }
            agreed.clientMaxWindowBits = min(bits, agreed.clientMaxWindowBits)
        }
        return agreed
    }

    /// Reads an offer, as a server does.
    ///
    /// - Returns: nil for another extension, and for parameters that are not those of RFC 7692: such an offer is declined.
    package init?(_ offer: WebSocketExtension) {
        guard offer.name == PermessageDeflate.name, let read = ReadParameters(offer) else { return nil }
        clientNoContextTakeover = read.clientNoContextTakeover
        serverNoContextTakeover = read.serverNoContextTakeover
        switch read.clientMaxWindowBits {
        case .absent: clientMaxWindowBits = nil
        case .noValue: clientMaxWindowBits = 15
        case .bits(let bits): clientMaxWindowBits = bits
        }
        switch read.serverMaxWindowBits {
        case .absent: serverMaxWindowBits = nil
        case .noValue: return nil
        case .bits(let bits): serverMaxWindowBits = bits
        }
    }

    /// What a server that takes any offer makes of it.
    ///
    /// - Parameter wanted: what the server would like; of the client it asks for as much as the offer lets it.
    package func accepted(wanting wanted: PermessageDeflate = PermessageDeflate()) -> PermessageDeflate {
        var agreed = wanted
        if serverNoContextTakeover { agreed.serverNoContextTakeover = true }
        if clientNoContextTakeover { agreed.clientNoContextTakeover = true }
        agreed.serverMaxWindowBits = min(wanted.serverMaxWindowBits, serverMaxWindowBits ?? 15)
        agreed.clientMaxWindowBits = clientMaxWindowBits.map { min(wanted.clientMaxWindowBits, $0) } ?? 15
        return agreed
    }

    /// The value of Sec-WebSocket-Extensions in the response with which a server accepts the offer.
    package func response(_ agreed: PermessageDeflate) -> String {
        var text = PermessageDeflate.name
        if agreed.serverNoContextTakeover { text += "; server_no_context_takeover" }
        if agreed.clientNoContextTakeover { text += "; client_no_context_takeover" }
        if agreed.serverMaxWindowBits < 15 || serverMaxWindowBits != nil {
            text += "; server_max_window_bits=\(agreed.serverMaxWindowBits)"
        }
        if agreed.clientMaxWindowBits < 15, clientMaxWindowBits != nil {
            text += "; client_max_window_bits=\(agreed.clientMaxWindowBits)"
        }
        return text
    }
}

/// The parameters of an offer or a response, each at most once and none that is not known.
private struct ReadParameters {
    enum Window {
        case absent
        case noValue
        case bits(Int)
    }

    var clientNoContextTakeover = false
    var serverNoContextTakeover = false
    var clientMaxWindowBits = Window.absent
    var serverMaxWindowBits = Window.absent

    init?(_ given: WebSocketExtension) {
        var seen: Set<String> = []
        for (name, value) in given.parameters {
            guard seen.insert(name).inserted else { return nil }
            switch name {
            case "client_no_context_takeover":
                guard value == nil else { return nil }
                clientNoContextTakeover = true
            case "server_no_context_takeover":
                guard value == nil else { return nil }
                serverNoContextTakeover = true
            case "client_max_window_bits":
                guard let window = Self.window(value) else { return nil }
                clientMaxWindowBits = window
            case "server_max_window_bits":
                guard let window = Self.window(value) else { return nil }
                serverMaxWindowBits = window
            default: return nil
            }
        }
    }

    private static func window(_ value: String?) -> Window? {
        guard let value else { return .noValue }
        // A decimal number without zeros in front.
        guard value.utf8.count <= 2, value.utf8.first != UInt8(ascii: "0"), let bits = Int(value),
            PermessageDeflate.windowBits.contains(bits)
        else { return nil }
        return .bits(bits)
    }
}

/// One member of Sec-WebSocket-Extensions (RFC 6455, section 9.1).
package struct WebSocketExtension: Sendable {
    package let name: String
    /// In order; a value in quotes is without them.
    package let parameters: [(name: String, value: String?)]

    /// More of them are no offer that a program makes, and are refused.
    private static let memberLimit = 32

    /// The members of all fields of that name.
    ///
    /// - Returns: nil for a value that does not follow the grammar.
    package static func list(_ fields: borrowing HeaderFields) -> [WebSocketExtension]? {
        let name = Array("Sec-WebSocket-Extensions".utf8)
        var found: [WebSocketExtension] = []
        for index in 0..<fields.count where fields.name(at: index).equalsIgnoringCase(name.span) {
            let value = fields.value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                // Empty members do not count (RFC 9110, section 5.6.1).
                guard !range.isEmpty else { continue }
                guard found.count < memberLimit, let member = WebSocketExtension(value.extracting(range)) else {
                    return nil
                }
                found.append(member)
            }
        }
        return found
    }

    private init?(_ text: borrowing Span<UInt8>) {
        var parts: [[UInt8]] = []
        var start = 0
        var isQuoted = false
        for index in 0...text.count {
            let isEnd = index == text.count
            if !isEnd, text[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
            guard isEnd || text[index] == UInt8(ascii: ";") && !isQuoted else { continue }
            parts.append(Array(copying: text.extracting(text.trimmingBlanks(start..<index))))
            start = index + 1
        }
        guard !isQuoted, parts.count <= Self.memberLimit, let name = Self.token(parts[0][...]) else { return nil }
        self.name = name
        var read: [(name: String, value: String?)] = []
        for part in parts.dropFirst() {
            guard let sign = part.firstIndex(of: UInt8(ascii: "=")) else {
                guard let name = Self.token(part[...]) else { return nil }
                read.append((name, nil))
                continue
            }
            var value = part[(sign + 1)...]
            if value.count >= 2, value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\"") {
                value = value.dropFirst().dropLast()
            }
            guard let name = Self.token(part[..<sign]), let text = Self.token(value) else { return nil }
            read.append((name, text))
        }
        parameters = read
    }

    private static func token(_ bytes: ArraySlice<UInt8>) -> String? {
        let bytes = Array(bytes)
        return HeaderFields.isValidName(bytes.span) ? String(decoding: bytes, as: UTF8.self) : nil
    }
}
