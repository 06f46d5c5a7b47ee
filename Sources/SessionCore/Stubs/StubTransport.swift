// SPDX-License-Identifier: Apache-2.0
/// Carries the requests of a session in the place of connections: an origin in memory, for tests of programs. Nothing is looked
/// up, dialled or evaluated then, and no byte leaves the process.
///
/// Only `HTTPSessionStubs` makes one: a program that does not import that product has no way to it.
package struct StubTransport: Sendable {
    /// Called on the loop, once for each request that would go to an origin: those after redirects and retries, too.
    let begin: @Sendable (StubExchange) -> Void

    /// - Parameter begin: called on the loop; it calls `accept` or `fail` of the exchange, now or later.
    package init(_ begin: @escaping @Sendable (StubExchange) -> Void) { self.begin = begin }
}
