// SPDX-License-Identifier: Apache-2.0
import HTTPCaching

/// One of the machines: its cache, and what the model knows of it.
final class SimulatedMachine {
    /// Its place among the others.
    let number: Int
    let cache: ResponseCache
    let disk: DiskStore?
    var stored: ModelStore
    var flights = ModelFlights()
    var doubted: Set<String> = []
    /// When a connection to an origin last failed, by the loop's clock.
    var failed: [String: UInt64] = [:]

    /// - Parameter stored: what is left of the machine before a crash; nil: nothing.
    init(_ number: Int, _ cache: ResponseCache, _ disk: DiskStore?, smallBody: Int, after stored: ModelStore? = nil) {
        self.number = number
        self.cache = cache
        self.disk = disk
        // Which keys share a counter depends on the hash, which is another one in each process.
        let store = cache.store
        self.stored =
            stored
            ?? ModelStore(
                hasDisk: disk != nil,
                smallBody: smallBody,
                counter: { store.epochIndex(of: SimulatedExchange.key($0, 0)) }
            )
    }
}
