// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The credentials that sessions propose by default, by protection space, in memory alone.
///
/// `@unchecked Sendable`: `credentials` is accessed with `lock` held.
public final class CredentialStorage: @unchecked Sendable {
    private let lock = PosixLock()
    private var credentials: [ProtectionSpace: Credential] = [:]

    /// An empty storage. Several sessions may share one.
    public init() {}

    /// Sets the credential of a space.
    ///
    /// - Parameters:
    ///   - credential: nil to remove it. A credential of another kind than the space's is never proposed.
    ///   - space: a space without a realm stands for every realm that has no credential of its own.
    public func setDefaultCredential(_ credential: Credential?, for space: ProtectionSpace) {
        lock.withLock { credentials[space] = credential }
    }

    /// The credential of a space, or that of the same origin for all realms.
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

    /// Removes every credential. A session goes on sending credentials to a server that has accepted them.
    public func removeAll() {
        lock.withLock { credentials.removeAll() }
    }

    /// The spaces that have a credential.
    public var spaces: [ProtectionSpace] { lock.withLock { Array(credentials.keys) } }
}
