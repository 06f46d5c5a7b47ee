import IOCore
import ServerTrust

/// Judges what the clients of one worker present, and remembers for a while who was right.
///
/// `@unchecked Sendable` because it is touched by its loop's thread alone: the verifier's thread only carries it back there.
final class ClientAuthenticator: @unchecked Sendable {
    enum Verdict: Equatable, Sendable {
        /// Who it is.
        case accepted(user: [UInt8])
        case refused
        /// Too many are waiting to be verified.
        case busy
    }

    private struct Known {
        var user: [UInt8]
        var until: UInt64
    }

    /// A password that was right is not hashed again for this long, unless the user's hash is another by then.
    private static let rememberedFor = TimeSpan.seconds(300)
    private static let mostRemembered = 4096
    /// libcrypt takes no more (CRYPT_MAX_PASSPHRASE_SIZE).
    private static let longestPassword = 511

    private let loop: EventLoop
    private let verifier: PasswordVerifier
    private let key = DigestKey()
    /// By the digest of what was presented: the passwords themselves are not kept.
    private var known: [[UInt8]: Known] = [:]
    /// Those who wait for the same password are answered together.
    private var waiting: [[UInt8]: [(Verdict) -> Void]] = [:]

    init(loop: EventLoop, verifier: PasswordVerifier) {
        self.loop = loop
        self.verifier = verifier
    }

    /// - Parameter then: called later on the loop when the answer is `nil`.
    /// - Returns: the verdict, if it can be given at once.
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
        // A user who is not there takes as long as one who is.
        let verified = hash ?? passwords.stand(inFor: user)
        // The key is made of the hash, not of the file: a verdict outlives a reload that leaves the user unchanged.
        let counts = withUnsafeBytes(of: (hash != nil, UInt64(user.count), UInt64(password.count))) { Array($0) }
        let digest = key.digest(counts + user + password + Array(verified.utf8))
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
