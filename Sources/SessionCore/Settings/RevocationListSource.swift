// SPDX-License-Identifier: Apache-2.0
package import ServerTrust

/// What fetches revocation lists for sessions of any thread.
package struct RevocationListSource: Sendable {
    /// The lists that are held, which handshakes look at.
    package let store: RevocationListStore
    /// Has lists fetched, from any thread. The completion is called once, on any thread, when they are held (nil) or will not be
    /// soon, with the reason; it may be called from within the call.
    package let obtain:
        @Sendable (_ needs: [RevocationListNeed], _ completion: @escaping @Sendable (_ fault: String?) -> Void) -> Void

    package init(
        store: RevocationListStore,
        obtain: @escaping @Sendable ([RevocationListNeed], @escaping @Sendable (String?) -> Void) -> Void
    ) {
        self.store = store
        self.obtain = obtain
    }
}
