// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The client's part of digest access authentication (RFC 7616): reads a challenge, and makes `Authorization` for one
/// request.
///
/// A value: the caller counts the uses of a nonce and makes the client's nonce.
package struct DigestAuthentication: Equatable, Sendable {
    enum Algorithm: String, Sendable, CaseIterable {
        case md5 = "MD5"
        case md5Session = "MD5-sess"
        case sha256 = "SHA-256"
        case sha256Session = "SHA-256-sess"
        case sha512 = "SHA-512-256"
        case sha512Session = "SHA-512-256-sess"

        var digest: MessageDigest {
            switch self {
            case .md5, .md5Session: .md5
            case .sha256, .sha256Session: .sha256
            case .sha512, .sha512Session: .sha512Truncated
            }
        }

        var isSession: Bool { rawValue.hasSuffix("-sess") }

        /// Lower is better.
        var rank: Int {
            switch self {
            case .sha512, .sha512Session: 0
            case .sha256, .sha256Session: 1
            case .md5, .md5Session: 2
            }
        }
    }

    package let realm: String
    package private(set) var nonce: String
    let opaque: String?
    let algorithm: Algorithm
    /// Whether the challenge named `algorithm`; then it is sent back.
    let namesAlgorithm: Bool
    /// Whether the quality is `auth`; otherwise the form of RFC 2069 is used.
    let usesQuality: Bool
    let hashesUser: Bool
    let isStale: Bool

    /// - Returns: nil for another scheme, and for unsupported demands (`auth-int` alone, another hash).
    package init?(_ challenge: HTTPChallenge) {
        let parameters = challenge.parameters
        guard challenge.scheme == "digest", let realm = parameters["realm"], let nonce = parameters["nonce"] else {
            return nil
        }
        self.realm = realm
        self.nonce = nonce
        opaque = parameters["opaque"]
        let name = parameters["algorithm"]
        guard
            let algorithm = Algorithm.allCases.first(where: { $0.rawValue.lowercased() == name?.lowercased() })
                ?? (name == nil ? .md5 : nil)
        else { return nil }
        self.algorithm = algorithm
        namesAlgorithm = name != nil
        if let qualities = parameters["qop"] {
            let offered = qualities.lowercased().split { $0 == "," || $0 == " " || $0 == "\t" }
            guard offered.contains("auth") else { return nil }
            usesQuality = true
        } else {
            // The form of RFC 2069 has no counter against replay, and exists for MD5 alone.
            guard algorithm == .md5 else { return nil }
            usesQuality = false
        }
        hashesUser = parameters["userhash"]?.lowercased() == "true"
        isStale = parameters["stale"]?.lowercased() == "true"
    }

    func renewed(_ nonce: String) -> DigestAuthentication {
        var next = self
        next.nonce = nonce
        return next
    }

    /// The value of `Authorization` for one request.
    ///
    /// - Parameters:
    ///   - count: the number of this use of the nonce, from 1.
    ///   - clientNonce: new for each request.
    /// - Returns: nil when the user's name or the target cannot be sent.
    package func authorization(
        user: String,
        password: String,
        method: HTTPMethod,
        target: [UInt8],
        count: Int,
        clientNonce: String
    ) -> String? {
        let digest = algorithm.digest
        guard let uri = String(validating: target, as: UTF8.self), Self.isQuotable(uri), Self.isQuotable(nonce),
            Self.isQuotable(opaque ?? ""), Self.isQuotable(realm)
        else { return nil }
        var first = digest.hex("\(user):\(realm):\(password)")
        if algorithm.isSession { first = digest.hex("\(first):\(nonce):\(clientNonce)") }
        let second = digest.hex("\(method):\(uri)")
        let counter = String(count, radix: 16)
        let padded = String(repeating: "0", count: max(0, 8 - counter.count)) + counter
        let response =
            usesQuality
            ? digest.hex("\(first):\(nonce):\(padded):\(clientNonce):auth:\(second)")
            : digest.hex("\(first):\(nonce):\(second)")
        var parts: [String] = []
        if hashesUser {
            parts.append("username=\"\(digest.hex("\(user):\(realm)"))\"")
        } else if user.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) {
            parts.append("username=\(Self.quoted(user))")
        } else {
            parts.append("username*=UTF-8''\(Self.percentEncoded(user))")
        }
        parts.append("realm=\(Self.quoted(realm))")
        parts.append("uri=\(Self.quoted(uri))")
        if namesAlgorithm { parts.append("algorithm=\(algorithm.rawValue)") }
        parts.append("nonce=\(Self.quoted(nonce))")
        if usesQuality { parts += ["nc=\(padded)", "cnonce=\(Self.quoted(clientNonce))", "qop=auth"] }
        parts.append("response=\"\(response)\"")
        if let opaque { parts.append("opaque=\(Self.quoted(opaque))") }
        if hashesUser { parts.append("userhash=true") }
        return "Digest " + parts.joined(separator: ", ")
    }

    /// Line breaks would end the field, and cannot be quoted.
    private static func isQuotable(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }

    private static func quoted(_ text: String) -> String {
        var result = "\""
        for character in text.unicodeScalars {
            if character == "\"" || character == "\\" { result += "\\" }
            result.unicodeScalars.append(character)
        }
        return result + "\""
    }

    /// An `ext-value` without its prefix (RFC 8187, section 3.2).
    private static func percentEncoded(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            if ASCII.isLetter(byte) || ASCII.isDigit(byte) {
                result.unicodeScalars.append(UnicodeScalar(byte))
            } else {
                result += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
        return result
    }
}
