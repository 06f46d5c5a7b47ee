// SPDX-License-Identifier: Apache-2.0
package import ProxyConfiguration
package import ServerTrust

/// The bounds of fetching revocation lists. Times are milliseconds.
package struct ListFetchLimits: Sendable {
    /// The bytes of one list.
    package var listBytes = 32 << 20
    /// The lists that are fetched at once.
    package var atOnce = 2
    /// The lists that are known at once: those that are held, and those that could not be fetched.
    package var known = 512
    /// The wait after a first failure; it doubles with each further one, up to `every`. A connection that waits for the list has
    /// it fetched again after this time at the latest.
    package var retry: Int64 = 60_000
    /// The least time between two fetches of a list.
    package var least: Int64 = 60_000
    /// The redirects of one fetch.
    package var redirects = 3
    /// The time for all of a list, unless `timeouts.total` says less.
    package var total = Milliseconds(300_000)
    /// A list that no handshake has used for so long is dropped, in seconds.
    package var unused: Int64 = 7 * 24 * 3600
    /// What is held in memory, and in the folder.
    package var held = RevocationListStore.Limits()

    package init() {}
}
