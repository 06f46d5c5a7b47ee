import IOCore

/// The credentials that sessions propose by themselves, by protection space, in memory alone.
///
/// `@unchecked Sendable`: `credentials` is behind `lock`.
public final class CredentialStorage: @unchecked Sendable {
    private let lock = PosixLock()
    private var credentials: [ProtectionSpace: Credential] = [:]

    /// An empty storage. Several sessions may share one.
    public init() {}

    /// What is proposed for that space, in place of what was.
    ///
    /// - Parameters:
    ///   - credential: nil to forget it. One that cannot answer the space's question is never proposed.
    ///   - space: without a realm, it stands for every realm that has none of its own.
    public func setDefaultCredential(_ credential: Credential?, for space: ProtectionSpace) {
        lock.withLock { credentials[space] = credential }
    }

    /// What is proposed for that space: its own, or else that of the same place under any realm.
    public func defaultCredential(for space: ProtectionSpace) -> Credential? {
        lock.withLock {
            var anyRealm = space
            if credentials[space] == nil {
                anyRealm = ProtectionSpace(
                    scheme: space.scheme,
                    host: space.host,
                    port: space.port,
                    authenticationMethod: space.authenticationMethod
                )
            }
            let found = credentials[anyRealm]
            return found.flatMap { $0.answers(space.authenticationMethod) ? $0 : nil }
        }
    }

    /// Forgets every credential. What a session has been let in with, it goes on sending to that server.
    public func removeAll() {
        lock.withLock { credentials.removeAll() }
    }

    /// The spaces that have a credential.
    public var spaces: [ProtectionSpace] { lock.withLock { Array(credentials.keys) } }
}
