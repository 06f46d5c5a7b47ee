// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// The token of one run of `pinproxy exec`: its program has it in the URL of its proxy, as the password of a user, so that no other
/// user of the machine can use the listener. Only its digest is kept.
package struct RunToken: Hashable, Sendable {
    /// The user that the program's requests are made as.
    let name: [UInt8]
    private let digest: [UInt8]
    /// The user of this machine whose processes need no token, for programs that cannot send one; nil: each needs it.
    let localUser: UInt32?

    /// - Parameters:
    ///   - name: one without a fault (`faultOfName`).
    ///   - token: random, and long: a fast digest protects it.
    package init(name: String, token: String, localUser: UInt32?) {
        self.name = Array(name.utf8)
        digest = SecretDigest.sha256(Array(token.utf8))
        self.localUser = localUser
    }

    /// Why a text cannot be the name of a user; nil when it can.
    package static func faultOfName(_ text: String) -> String? {
        let name = Array(text.utf8)
        guard SecretLines.isName(name), !name.contains(UInt8(ascii: ":")) else {
            return "a name has no control characters and no colon"
        }
        return SecretLines.collision(of: name, on: 0)?.message
    }

    package func admits(_ user: [UInt8], _ password: [UInt8]) -> Bool {
        user == name && SecretDigest.areEqual(digest, SecretDigest.sha256(password))
    }
}
