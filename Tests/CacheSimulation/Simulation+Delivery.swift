// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import SessionCore

/// The stage of an exchange: what becomes of the origin's response, and of its receiver.
extension Simulation {
    /// The stage does with the origin's response what the cache has decided.
    func stage(_ exchange: SimulatedExchange, does step: CacheTransaction.Step) throws {
        switch step {
        case .relay:
            let isStoring = exchange.transaction.isStoring
            try require(exchange, exchange.delivery.relay(isStoring: isStoring), !exchange.isBackground)
        case .respondWhileReceiving(let response): exchange.delivery.serve(response.head.body)
        case .respond, .forward, .gatewayTimeout, .pass:
            exchange.delivery.drop(followedBy: step)
            let isAgain = exchange.phase == .asked
            try require(exchange, exchange.delivery.asksAgain(afterFailure: false), isAgain)
            try require(exchange, exchange.delivery.receive(exchange.body.utf8.count), .drop)
            guard case .followedBy(let next) = exchange.delivery.originDidEnd(nil) else {
                throw Difference(description: "\(exchange.text): nothing follows the dropped response")
            }
            try require(exchange, Self.outcome(next), exchange.expected)
            if isAgain { exchange.delivery.ask() }
        }
    }

    /// A piece of the origin's body: for the cache wherever it is received.
    func receive(_ piece: [UInt8], _ exchange: SimulatedExchange) throws {
        let use = exchange.delivery.receive(piece.count)
        if exchange.isBackground {
            try require(exchange, use, exchange.entry == nil ? .drop : .store)
        } else {
            let isServed = exchange.readings.contains { $0.number == exchange.number }
            try require(exchange, use, isServed || exchange.isLeft ? .store : .relay)
        }
        if use != .drop { exchange.transaction.didReceiveBody(piece.span) }
    }

    /// The client of an exchange goes.
    ///
    /// - Returns: whether the response is received on, because others read it, or little of what is stored is missing.
    func goesOn(without exchange: SimulatedExchange) throws -> Bool {
        guard !exchange.isBackground else { return false }
        exchange.readings.removeAll { $0.number == exchange.number }
        let finishes = exchange.delivery.isReceiving && exchange.delivery.isWorthFinishing(exchange.transaction)
        let isStored = exchange.entry != nil && exchange.length != nil
        try require(exchange, finishes, exchange.phase == .relaying && (isStored || !exchange.readings.isEmpty))
        exchange.delivery.leave(finishes: finishes)
        exchange.isLeft = finishes
        if finishes { count("received without a client") }
        return finishes
    }

    /// A stored body goes to its receiver, in pieces by chance.
    func deliver(_ exchange: SimulatedExchange, _ response: CacheTransaction.Response) throws {
        guard !exchange.isBackground else { return }
        if case .growing = response.body { return }
        exchange.delivery.serve(response.head.body)
        var sent = response.head.body.lowerBound
        var step = CacheDelivery.Next.nothing
        while step != .end {
            try require(exchange, exchange.delivery.beginSending(), true)
            step = exchange.delivery.next { traffic.pick([1, 7, 1000]) }
            if case .piece(let range) = step {
                try require(exchange, range.lowerBound, sent)
                sent = range.upperBound
                exchange.delivery.didSend(range.count)
            }
            exchange.delivery.endSending()
        }
        try require(exchange, sent, response.head.body.upperBound)
    }
}
