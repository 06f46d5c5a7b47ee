// SPDX-License-Identifier: Apache-2.0
import IOCore
import ProxyConfiguration
import ServerTrust

/// Verifies the credentials of one worker's clients, and remembers successful verifications for a while.
///
/// `@unchecked Sendable` because it is touched by its loop's thread alone: the verifier's thread only carries it back
/// there.
final class ClientAuthenticator: @unchecked Sendable {
    enum Verdict: Equatable, Sendable {
        /// The credentials are valid.
        case accepted(user: [UInt8])
        case refused
        /// Too many verifications are waiting.
        case busy
    }

    private struct Known {
        var user: [UInt8]
        var until: UInt64
    }

    /// How long a verified password is not hashed again, unless the user's hash has changed.
    private static let rememberedFor = TimeSpan.seconds(300)
    private static let mostRemembered = 4096
    /// The limit of libcrypt (CRYPT_MAX_PASSPHRASE_SIZE).
    private static let longestPassword = 511

    private let loop: EventLoop
    private let verifier: PasswordVerifier
    private let key = DigestKey()
    /// Verified credentials by their digest; the passwords themselves are not stored.
    private var known: [[UInt8]: Known] = [:]
    /// Requests that wait for the verification of the same password.
    private var waiting: [[UInt8]: [(Verdict) -> Void]] = [:]

    init(loop: EventLoop, verifier: PasswordVerifier) {
        self.loop = loop
        self.verifier = verifier
    }

    /// - Parameter then: called later on the loop if `nil` is returned.
    /// - Returns: the verdict, if it is known at once.
    func verify(
        _ presented: PresentedCredentials,
        _ credentials: ClientCredentials,
        then: @escaping (Verdict) -> Void
    ) -> Verdict? {
        switch presented {
        case .none:
            return .refused
        case .bearer(let token):
            return credentials.tokens?.name(of: token).map { .accepted(user: $0) } ?? .refused
        case .basic(let user, let password):
            if let token = credentials.configuration.runToken, token.admits(user, password) {
                return .accepted(user: user)
            }
            guard let passwords = credentials.passwords, password.count <= Self.longestPassword else { return .refused }
            return verify(user, password, passwords, then)
        }
    }

    private func verify(
        _ user: [UInt8],
        _ password: [UInt8],
        _ passwords: PasswordFile,
        _ then: @escaping (Verdict) -> Void
    ) -> Verdict? {
        let hash = passwords.hashes[user]
        // An unknown user takes as long as a known one.
        let verified = hash ?? passwords.stand(inFor: user)
        // The key contains the hash, not the file: a verdict stays valid across a reload that leaves the user
        // unchanged.
        // One number after another: the memory of a tuple has padding, whose bytes may be different each time.
        var text: [UInt8] = [hash == nil ? 0 : 1]
        for count in [user.count, password.count] { withUnsafeBytes(of: UInt64(count)) { text += $0 } }
        let digest = key.digest(text + user + password + Array(verified.utf8))
        if let known = known[digest], known.until > loop.now { return .accepted(user: known.user) }
        if waiting[digest] != nil {
            waiting[digest]?.append(then)
            return nil
        }
        let isStarted = verifier.verify(password, verified) { [self] isRight in
            loop.submit { [self] in conclude(digest, isRight && hash != nil ? .accepted(user: user) : .refused) }
        }
        guard isStarted else { return .busy }
        waiting[digest] = [then]
        return nil
    }

    private func conclude(_ digest: [UInt8], _ verdict: Verdict) {
        if case .accepted(let user) = verdict {
            if known.count >= Self.mostRemembered { known = known.filter { $0.value.until > loop.now } }
            if known.count >= Self.mostRemembered { known = [:] }
            known[digest] = Known(user: user, until: loop.now + Self.rememberedFor.nanoseconds)
        }
        for then in waiting.removeValue(forKey: digest) ?? [] { then(verdict) }
    }
}
