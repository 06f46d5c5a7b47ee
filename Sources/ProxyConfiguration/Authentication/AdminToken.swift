// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import ServerTrust

/// The secret of operators for the admin listener, of the file `admin.tokenFile`. Only its digest is kept.
package struct AdminToken: Equatable, Sendable {
    private let digest: [UInt8]

    /// A random token of fewer characters than this can be guessed.
    static let shortest = 32
    /// The field with the token fits into a head.
    static let longest = 512

    /// Reads the contents of a token file: the token alone on its only line.
    package init(_ bytes: [UInt8]) throws(Fault) {
        digest = SecretDigest.sha256(try Self.text(bytes))
    }

    /// The token itself, for a client of the listener.
    package static func text(_ bytes: [UInt8]) throws(Fault) -> [UInt8] {
        var text = bytes[...]
        while let last = text.last, last == 10 || last == 13 { text.removeLast() }
        guard text.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw Fault(message: "not one line of visible ASCII characters without spaces")
        }
        guard (shortest...longest).contains(text.count) else {
            throw Fault(message: "a token of \(text.count) characters: \(shortest) to \(longest) are needed")
        }
        return Array(text)
    }

    /// Whether a request's Authorization has the token: as a bearer token (RFC 6750), or as the password of any user
    /// (RFC 7617), which browsers ask for.
    package func admits(_ fields: borrowing HeaderFields) -> Bool {
        switch PresentedCredentials(fields, in: .authorization) {
        case .bearer(let token): SecretDigest.areEqual(digest, SecretDigest.sha256(token))
        case .basic(_, let password): SecretDigest.areEqual(digest, SecretDigest.sha256(password))
        case .none: false
        }
    }

    /// The reason why a file has no token.
    package struct Fault: Error, Equatable {
        package var message: String
        /// The remedy, for a person.
        package var remedy: String { "make one: openssl rand -hex 32 > FILE, and chmod 640 FILE" }
    }
}
