// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// Makes `Authorization` for one protection space, with a credential and the scheme that the server asked for. Belongs
/// to the loop.
final class Authorizer {
    let space: ProtectionSpace
    let credential: Credential
    /// Only for Digest.
    private var digest: DigestAuthentication?
    /// The number of uses of the nonce.
    private var count = 0
    /// Paths with this prefix get Basic without a challenge (RFC 7617, section 2.2).
    private let folder: [UInt8]

    /// - Parameter target: the target of the request that got the 401.
    init(_ space: ProtectionSpace, _ credential: Credential, digest: DigestAuthentication?, target: [UInt8]) {
        self.space = space
        self.credential = credential
        self.digest = digest
        let path = target.prefix { $0 != UInt8(ascii: "?") }
        folder = Array(path.prefix(through: path.lastIndex(of: UInt8(ascii: "/")) ?? path.startIndex))
    }

    /// Whether the server is expected to send the same challenge for a target.
    func covers(_ target: [UInt8]) -> Bool {
        space.authenticationMethod == .httpDigest || target.starts(with: folder)
    }

    /// The value of `Authorization` for one request; nil when the credential cannot be sent.
    func authorization(method: HTTPMethod, target: [UInt8]) -> String? {
        switch credential.kind {
        case .bearer(let token):
            return "Bearer \(token)"
        case .password(let user, let password):
            guard let digest else {
                // RFC 7617, section 2: a colon separates the two.
                return user.utf8.contains(UInt8(ascii: ":"))
                    ? nil : "Basic \(Base64.encode(Array("\(user):\(password)".utf8)))"
            }
            count += 1
            let random = (0..<2).map { _ in String(UInt64.random(in: 0 ... .max), radix: 16) }.joined()
            return digest.authorization(
                user: user,
                password: password,
                method: method,
                target: target,
                count: count,
                clientNonce: random
            )
        case .identity, .serverTrust:
            return nil
        }
    }

    /// Takes over the nonce that the server names for the next requests (RFC 7616, section 3.5).
    func updateNonce(from fields: borrowing HeaderFields) {
        guard let digest, let index = fields.first(named: Array("Authentication-Info".utf8).span) else { return }
        var value = Array("Digest ".utf8)
        fields.appendValue(at: index, to: &value)
        guard let nonce = HTTPChallenge.list(value).first?.parameters["nextnonce"], nonce != digest.nonce else {
            return
        }
        self.digest = digest.renewed(nonce)
        count = 0
    }
}

/// An authentication scheme that a 401 offers and this library supports.
struct OfferedAuthentication {
    let space: ProtectionSpace
    let digest: DigestAuthentication?

    static func list(_ head: borrowing ResponseHead, at origin: Origin) -> [OfferedAuthentication] {
        let all = HTTPChallenge.challenges(in: head.fields).compactMap { challenge -> (Int, OfferedAuthentication)? in
            let realm = challenge.parameters["realm"]
            switch challenge.scheme {
            case "digest":
                guard let digest = DigestAuthentication(challenge) else { return nil }
                let space = ProtectionSpace(origin, realm: realm, .httpDigest)
                return (digest.algorithm.rank, OfferedAuthentication(space: space, digest: digest))
            case "bearer":
                return (10, OfferedAuthentication(space: ProtectionSpace(origin, realm: realm, .bearer), digest: nil))
            case "basic":
                // A challenge without a realm is not valid (RFC 7617, section 2).
                guard realm != nil else { return nil }
                let space = ProtectionSpace(origin, realm: realm, .httpBasic)
                return (20, OfferedAuthentication(space: space, digest: nil))
            default:
                return nil
            }
        }
        // Schemes of equal rank stay in the server's order.
        return all.enumerated().sorted { ($0.element.0, $0.offset) < ($1.element.0, $1.offset) }.map(\.element.1)
    }
}
