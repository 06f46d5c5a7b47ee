// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
package import ServerTrust
import StrictJSON

/// The output of a credential's source: its secret, and when it ends.
package struct CredentialOutput: Sendable {
    package enum Secret: Sendable {
        /// A token, key or password.
        case token(SecretBytes)
        case keys(AWSKeys)
    }

    /// The form of the output of a source.
    package enum Form: Sendable {
        /// One line that is the value, whatever it looks like: files and variables.
        case plain
        /// One line, `{"token": …, "expires": …}` or an ExecCredential of Kubernetes (client.authentication.k8s.io): commands.
        case plainOrJSON
        /// The response of a token server (RFC 6749, section 5.1).
        case tokenResponse
        /// The JSON of AWS's `credential_process`.
        case keys
    }

    package let secret: Secret
    /// Seconds since 1970; nil where the source names no end.
    package let end: Int64?

    /// The least number of bytes of a value: a shorter one could be guessed, and text that holds it by chance would be masked.
    package static let leastBytes = 8
    /// The largest number of bytes that a source may give.
    package static let mostBytes = 64 << 10

    /// - Parameters:
    ///   - bytes: everything that the source gave.
    ///   - prefix: what is sent before the value. A value that begins with it already would be sent with two.
    ///   - now: seconds since 1970.
    package init(
        _ bytes: [UInt8],
        as form: Form,
        prefix: [UInt8] = [],
        now: Int64
    ) throws(CredentialFault) {
        guard bytes.count <= Self.mostBytes else { throw Self.fault("more than \(Self.mostBytes >> 10) KB") }
        switch form {
        case .plain:
            secret = .token(try Self.token(Self.line(bytes), prefix))
            end = nil
        case .plainOrJSON:
            guard bytes.first(where: { !Self.isWhiteSpace($0) }) == UInt8(ascii: "{") else {
                secret = .token(try Self.token(Self.line(bytes), prefix))
                end = nil
                return
            }
            let object = try Self.object(bytes)
            // An ExecCredential has both below `status`.
            let isExecCredential = object.has("status")
            let holder = isExecCredential ? try Self.member("status", of: object) : object
            secret = .token(try Self.token(Self.text("token", of: holder), prefix))
            end = try Self.date(isExecCredential ? "expirationTimestamp" : "expires", of: holder, now: now)
        case .tokenResponse:
            let object = try Self.object(bytes)
            if object.has("token_type"), try Self.text("token_type", of: object).map(ASCII.lowercased) != Self.bearer {
                throw Self.fault("\"token_type\" is not \"Bearer\"")
            }
            secret = .token(try Self.token(Self.text("access_token", of: object), prefix))
            end = Self.lifetime("expires_in", of: object).map { now.addingSaturated($0) }
        case .keys:
            let object = try Self.object(bytes)
            secret = .keys(
                AWSKeys(
                    identifier: SecretBytes(try Self.token(of: "AccessKeyId", in: object)),
                    secret: SecretBytes(try Self.token(of: "SecretAccessKey", in: object)),
                    session: object.has("SessionToken")
                        ? SecretBytes(try Self.token(of: "SessionToken", in: object)) : nil
                )
            )
            end = try Self.date("Expiration", of: object, now: now)
        }
    }

    // MARK: The value

    private static func token(_ bytes: [UInt8], _ prefix: [UInt8]) throws(CredentialFault) -> SecretBytes {
        try check(bytes, "the value")
        if !prefix.isEmpty, bytes.count >= prefix.count,
            bytes.span.extracting(0..<prefix.count).equalsIgnoringCase(prefix.span)
        {
            throw fault("the value begins with its prefix already, and would be sent with two")
        }
        return SecretBytes(bytes)
    }

    private static func token(of name: String, in object: JSONMembers) throws(CredentialFault) -> [UInt8] {
        let bytes = try text(name, of: object)
        try check(bytes, "\"\(name)\"")
        return bytes
    }

    private static func check(_ bytes: [UInt8], _ what: String) throws(CredentialFault) {
        guard !bytes.isEmpty else { throw fault("\(what) is empty") }
        // A space may be inside, as in two parameters of a scheme.
        for byte in bytes where byte < 0x20 || byte >= 0x7F {
            throw fault("\(what) holds a line break, another control character, or one that is not ASCII")
        }
        guard bytes.first != UInt8(ascii: " "), bytes.last != UInt8(ascii: " ") else {
            throw fault("\(what) has white space at an end")
        }
        guard bytes.count >= leastBytes else { throw fault("\(what) is shorter than \(leastBytes) bytes") }
    }

    /// Without the newline that editors and `echo` write.
    private static func line(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.last == UInt8(ascii: "\n") else { return bytes }
        let line = bytes.dropLast()
        return Array(line.last == UInt8(ascii: "\r") ? line.dropLast() : line)
    }

    private static func fault(_ message: String) -> CredentialFault { CredentialFault(.output, message) }

    // MARK: JSON

    /// The `error` of a token server's refusal (RFC 6749, section 5.2), if it is one of those that the RFC names.
    static func errorCode(in bytes: [UInt8]) -> String? {
        let known = [
            "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
            "invalid_scope",
        ]
        guard let object = try? object(bytes), let code = try? text("error", of: object) else { return nil }
        return known.first { $0.utf8.elementsEqual(code) }
    }

    private static let bearer = Array("bearer".utf8)

    private static func isWhiteSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }

    /// The texts of the parser's issues may quote the text, and are not shown.
    private static func object(_ bytes: [UInt8]) throws(CredentialFault) -> JSONMembers {
        guard UTF8Check.firstFault(in: bytes) == nil else { throw fault("not UTF-8") }
        let document = JSONDocument(bytes: bytes, file: "")
        guard document.issues.isEmpty, case .object(let members)? = document.root?.content else {
            throw fault("not a JSON object")
        }
        return JSONMembers(members)
    }

    private static func member(_ name: String, of object: JSONMembers) throws(CredentialFault) -> JSONMembers {
        guard case .object(let members)? = object[name] else { throw fault("\"\(name)\" is no object") }
        return JSONMembers(members)
    }

    private static func text(_ name: String, of object: JSONMembers) throws(CredentialFault) -> [UInt8] {
        switch object[name] {
        case .string(let text): return Array(text.utf8)
        case nil: throw fault("\"\(name)\" is missing")
        default: throw fault("\"\(name)\" is no string")
        }
    }

    /// An end that the source names. One that has passed is a fault: the value would be refused.
    private static func date(_ name: String, of object: JSONMembers, now: Int64) throws(CredentialFault) -> Int64? {
        guard object.has(name) else { return nil }
        guard let date = Timestamp.parse(try text(name, of: object)) else {
            throw fault("\"\(name)\" is no time of RFC 3339, such as 2027-01-31T12:00:00Z")
        }
        guard date > now else {
            throw fault("\"\(name)\" has passed: the source gave an old value, or a clock is wrong")
        }
        return date
    }

    /// Seconds from now. What is no number, or not above zero, names no end: servers write 0 for tokens without one. Some write
    /// the number as a string.
    private static func lifetime(_ name: String, of object: JSONMembers) -> Int64? {
        let written: String
        switch object[name] {
        case .number(let text), .string(let text): written = text
        default: return nil
        }
        let digits = written.utf8.prefix { ASCII.isDigit($0) }
        let rest = written.utf8.dropFirst(digits.count)
        let isFraction = rest.first == UInt8(ascii: ".") && rest.dropFirst().allSatisfy { ASCII.isDigit($0) }
        guard !digits.isEmpty, rest.isEmpty || isFraction else { return nil }
        // More digits than a number has: a time that never comes.
        let number = Int64(String(decoding: Array(digits), as: UTF8.self)) ?? .max
        return number > 0 ? number : nil
    }
}

/// The members of an object, found by the bytes of their names.
private struct JSONMembers {
    private let members: [DocumentValue.Member]

    init(_ members: [DocumentValue.Member]) { self.members = members }

    /// Nil for a name that is missing, and for `null`.
    subscript(_ name: String) -> DocumentValue.Content? {
        guard let member = members.first(where: { $0.name.utf8.elementsEqual(name.utf8) }) else { return nil }
        if case .null = member.value.content { return nil }
        return member.value.content
    }

    func has(_ name: String) -> Bool { self[name] != nil }
}

extension CredentialOutput: CustomStringConvertible {
    package var description: String { "(secret)" }
}

/// The keys that requests to AWS are signed with.
package struct AWSKeys: Sendable {
    /// The name of the key, which is in every signed request.
    package let identifier: SecretBytes
    package let secret: SecretBytes
    /// The token of temporary keys, which is sent with each request.
    package let session: SecretBytes?

    package init(identifier: SecretBytes, secret: SecretBytes, session: SecretBytes? = nil) {
        self.identifier = identifier
        self.secret = secret
        self.session = session
    }
}

extension CredentialDefinition {
    /// Reads what the source gave.
    ///
    /// - Parameter date: seconds since 1970.
    /// - Returns: the value, and its end from the source or `ttl`.
    func read(_ bytes: [UInt8], at date: Int64) throws(CredentialFault) -> (CredentialOutput, end: Int64?) {
        let prefix = Array((basicUser == nil ? prefix : "").utf8)
        let output = try CredentialOutput(bytes, as: source.form, prefix: prefix, now: date)
        return (output, output.end ?? ttl.map { date.addingSaturated(Int64($0.count / 1000)) })
    }
}

extension CredentialSource {
    /// The form of the output of a source of this kind.
    var form: CredentialOutput.Form {
        switch self {
        case .file, .env: .plain
        case .command: .plainOrJSON
        case .oauth2: .tokenResponse
        case .awsSigV4: .keys
        }
    }
}
