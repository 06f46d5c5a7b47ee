// SPDX-License-Identifier: Apache-2.0
import COpenSSL
package import HTTPCore
import IOCore

/// The opening handshake of a client (RFC 6455, section 4.1), as a value: the fields of the request, and what a response makes of
/// them. Over HTTP/2 (RFC 8441, section 5) the key, `Upgrade` and `Connection` are not sent, and the response has nothing in their
/// place.
package struct WebSocketOffer: Sendable {
    /// The subprotocols, the best first.
    package let protocols: [String]
    /// nil: no compression is offered.
    package let deflate: PermessageDeflateOffer?
    /// Sec-WebSocket-Key.
    package let key: [UInt8]

    /// What both sides have agreed on.
    package struct Agreement: Equatable, Sendable {
        /// nil: the server has chosen none.
        package var subprotocol: String?
        package var deflate: PermessageDeflate?

        package init(subprotocol: String? = nil, deflate: PermessageDeflate? = nil) {
            self.subprotocol = subprotocol
            self.deflate = deflate
        }
    }

    /// Why a response is no agreement.
    package struct Refusal: Error, Equatable, Sendable {
        /// For people.
        package let reason: String
    }

    /// - Parameter key: nil for a random one, as each connection needs.
    package init(protocols: [String] = [], deflate: PermessageDeflateOffer? = nil, key: [UInt8]? = nil) {
        self.protocols = protocols
        self.deflate = deflate
        self.key = key ?? Self.randomKey()
    }

    /// Whether texts are subprotocols that may be offered: tokens, and none twice (RFC 6455, section 4.1).
    package static func areValid(_ protocols: [String]) -> Bool {
        protocols.allSatisfy { HeaderFields.isValidName(Array($0.utf8).span) }
            && Set(protocols).count == protocols.count
    }

    private static func randomKey() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return WebSocketKey.base64((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Adds the fields of the request to those of the program.
    package func addFields(to fields: inout HeaderFields) {
        fields.append(.upgrade, "websocket")
        fields.append(.connection, "Upgrade")
        fields.append(WebSocketField.key, key)
        fields.append(WebSocketField.version, Array("13".utf8))
        if !protocols.isEmpty {
            fields.append(WebSocketField.subprotocol, Array(protocols.joined(separator: ", ").utf8))
        }
        if let deflate { fields.append(WebSocketField.extensions, Array(deflate.text.utf8)) }
    }

    /// Checks the response: 101 of HTTP/1.1, or 200 of HTTP/2.
    package func agreement(_ head: borrowing ResponseHead) -> Result<Agreement, Refusal> {
        let isStream = head.majorVersion == 2
        guard head.status == (isStream ? 200 : 101) else { return refuse("it has the status \(head.status)") }
        if !isStream, let reason = faultOfSwitch(head.fields) { return refuse(reason) }
        var agreement = Agreement()
        if head.fields.count(named: WebSocketField.subprotocol) > 0 {
            guard let chosen = head.fields.onlyValue(of: WebSocketField.subprotocol), protocols.contains(chosen) else {
                return refuse("it chooses a subprotocol that was not offered")
            }
            agreement.subprotocol = chosen
        }
        guard let extensions = WebSocketExtension.list(head.fields) else {
            return refuse("Sec-WebSocket-Extensions cannot be read")
        }
        guard !extensions.isEmpty else { return .success(agreement) }
        guard extensions.count == 1, let deflate, let agreed = deflate.agreement(extensions[0]) else {
            return refuse("it uses an extension, or a parameter, that was not offered")
        }
        agreement.deflate = agreed
        return .success(agreement)
    }

    /// What a response of HTTP/1.1 lacks besides its status.
    private func faultOfSwitch(_ fields: borrowing HeaderFields) -> String? {
        guard fields.hasOnly("websocket", of: .upgrade) else { return "Upgrade is not websocket" }
        guard fields.hasMember("upgrade", of: .connection) else { return "Connection is not Upgrade" }
        let expected = WebSocketKey.accept(key)
        guard let accept = fields.onlyValue(of: WebSocketField.accept), Array(accept.utf8) == expected else {
            return "Sec-WebSocket-Accept is not what belongs to the key"
        }
        return nil
    }

    private func refuse(_ reason: String) -> Result<Agreement, Refusal> { .failure(Refusal(reason: reason)) }
}

/// The opening handshake as a server sees it (RFC 6455, section 4.2).
package struct WebSocketRequest: Sendable {
    /// Sec-WebSocket-Key.
    package let key: [UInt8]
    /// What the client offers, the best first.
    package let protocols: [String]
    /// The offers of permessage-deflate, in order.
    package let offers: [PermessageDeflateOffer]

    /// - Returns: nil for a request that is no such handshake, or another version's.
    package init?(_ fields: borrowing HeaderFields) {
        guard fields.hasMember("websocket", of: .upgrade), fields.hasMember("upgrade", of: .connection),
            fields.onlyValue(of: WebSocketField.version) == "13",
            let key = fields.onlyValue(of: WebSocketField.key), WebSocketKey.isValid(Array(key.utf8)),
            let extensions = WebSocketExtension.list(fields)
        else { return nil }
        self.key = Array(key.utf8)
        protocols = fields.list(of: WebSocketField.subprotocol)
        offers = extensions.compactMap { PermessageDeflateOffer($0) }
    }

    /// The fields of the response, beside what the program adds.
    ///
    /// - Parameters:
    ///   - subprotocol: one of `protocols`; nil for none.
    ///   - extensions: the value of Sec-WebSocket-Extensions; nil for none.
    package func addFields(subprotocol: String?, extensions: String?, to fields: inout HeaderFields) {
        fields.append(.upgrade, "websocket")
        fields.append(.connection, "Upgrade")
        fields.append(WebSocketField.accept, WebSocketKey.accept(key))
        if let subprotocol { fields.append(WebSocketField.subprotocol, Array(subprotocol.utf8)) }
        if let extensions { fields.append(WebSocketField.extensions, Array(extensions.utf8)) }
    }
}

/// The names of the fields of the handshake.
package enum WebSocketField {
    static let key: StaticString = "Sec-WebSocket-Key"
    static let accept: StaticString = "Sec-WebSocket-Accept"
    static let version: StaticString = "Sec-WebSocket-Version"
    static let subprotocol: StaticString = "Sec-WebSocket-Protocol"
    static let extensions: StaticString = "Sec-WebSocket-Extensions"

    /// A field of the handshake that a program has set itself; nil without one.
    package static func first(in fields: borrowing HeaderFields) -> String? {
        for index in 0..<fields.count where fields.name(at: index).hasPrefixIgnoringCase("sec-websocket-") {
            return String(copying: fields.name(at: index))
        }
        return nil
    }
}

/// Sec-WebSocket-Key and what belongs to it.
package enum WebSocketKey {
    private static let guid = Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)

    /// The value of Sec-WebSocket-Accept (RFC 6455, section 4.2.2). SHA-1 protects nothing here: it shows that the server has read
    /// the key.
    package static func accept(_ key: [UInt8]) -> [UInt8] {
        let text = key + guid
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(text, text.count, &digest, &count, EVP_sha1(), nil) == 1 else { return [] }
        return base64(Array(digest.prefix(Int(count))))
    }

    /// Whether a text is sixteen bytes in Base64.
    static func isValid(_ key: [UInt8]) -> Bool {
        key.count == 24 && key[22] == UInt8(ascii: "=") && key[23] == UInt8(ascii: "=")
            && key[..<22].allSatisfy { isBase64($0) }
    }

    private static func isBase64(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"):
            true
        default: false
        }
    }

    static func base64(_ bytes: [UInt8]) -> [UInt8] {
        // With a zero at its end.
        var text = [UInt8](repeating: 0, count: (bytes.count + 2) / 3 * 4 + 1)
        let count = EVP_EncodeBlock(&text, bytes, Int32(bytes.count))
        return Array(text.prefix(Int(count)))
    }
}

extension HeaderFields {
    /// Adds a field of the handshake, whose name and value are known to be valid.
    mutating func append(_ name: StaticString, _ value: [UInt8]) {
        append(name: name.bytes, value: value.span)
    }

    func count(named name: StaticString) -> Int {
        var count = 0
        for index in 0..<self.count where self.name(at: index).equalsIgnoringCase(name) { count += 1 }
        return count
    }

    /// The value of a name that stands once, without white space around it; nil otherwise.
    func onlyValue(of name: StaticString) -> String? {
        var found: String?
        for index in 0..<count where self.name(at: index).equalsIgnoringCase(name) {
            guard found == nil else { return nil }
            let value = value(at: index)
            found = String(copying: value.extracting(value.trimmingBlanks(0..<value.count)))
        }
        return found
    }

    /// The members of all fields of a name.
    func list(of name: StaticString) -> [String] {
        var found: [String] = []
        for index in 0..<count where self.name(at: index).equalsIgnoringCase(name) {
            let value = value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                if !range.isEmpty { found.append(String(copying: value.extracting(range))) }
            }
        }
        return found
    }

    /// Whether all members of a field's list are that one, and there is at least one.
    func hasOnly(_ member: StaticString, of id: FieldName) -> Bool {
        var hasAny = false
        var found = first(id)
        while let index = found {
            let value = value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                guard value.extracting(range).equalsIgnoringCase(member) else { return false }
                hasAny = true
            }
            found = next(id, after: index)
        }
        return hasAny
    }
}
