// SPDX-License-Identifier: Apache-2.0
/// The exchanges of one loop that are not used now: each serves one request after another, of whatever connection.
final class ExchangePool {
    private let services: WorkerServices
    private var idle: [Exchange] = []
    private static let mostIdle = 256

    init(_ services: WorkerServices) { self.services = services }

    func borrow(for stream: ExchangeStream) -> Exchange {
        guard let exchange = idle.popLast() else { return Exchange(services: services, stream: stream) }
        exchange.attach(stream)
        return exchange
    }

    func giveBack(_ exchange: Exchange) {
        exchange.detach()
        if idle.count < Self.mostIdle { idle.append(exchange) }
        services.restSoon()
    }

    /// Frees those that are idle.
    func removeAll() { idle = [] }
}
