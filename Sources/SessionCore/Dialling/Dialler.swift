// SPDX-License-Identifier: Apache-2.0
import IOCore

/// What the dials of a session have in common. Belongs to the loop's thread.
final class Dialler {
    let loop: EventLoop
    let names: NameResolver
    var failedAddresses = FailedAddresses()
    private let socks: SOCKSDialler
    private var dials: [ObjectIdentifier: AddressDial] = [:]

    init(loop: EventLoop, names: NameResolver) {
        self.loop = loop
        self.names = names
        socks = SOCKSDialler(loop: loop)
    }

    deinit { close() }

    /// - Parameter didEnd: called once, from the loop and never from within `start`; not after `cancel`.
    func makeDial(
        to address: SocketAddress,
        for endpoint: Endpoint,
        didEnd: @escaping (AddressDial, AddressDial.Outcome) -> Void
    ) -> AddressDial {
        endpoint.hasSOCKSProxy
            ? SOCKSDial(address, for: endpoint, socks: socks, didEnd: didEnd)
            : TCPDial(address, for: endpoint, loop: loop, didEnd: didEnd)
    }

    /// - Returns: the failure of a dial that has ended at once, of which nobody is told.
    func start(_ dial: AddressDial) -> DialFailure? {
        if let failure = dial.start() { return failure }
        dials[ObjectIdentifier(dial)] = dial
        return nil
    }

    /// Ends a dial, and tells nobody.
    func cancel(_ dial: AddressDial) {
        forget(dial)
        dial.stop()
    }

    /// A dial has ended.
    func forget(_ dial: AddressDial) { dials[ObjectIdentifier(dial)] = nil }

    /// Ends all dials, and tells nobody.
    func close() {
        // First, because the withdrawal of a dial could otherwise start the lookup of the next name.
        names.close()
        for dial in Array(dials.values) { cancel(dial) }
        socks.close()
    }
}
