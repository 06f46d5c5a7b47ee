// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Random numbers of the system (getentropy(3)) in stock, for identifiers: one system call each would cost more than the rest of
/// tracing. Belongs to one thread.
struct RandomPool {
    private var stock: [UInt64] = []
    private let refill: (Int) -> [UInt64]

    /// Numbers that are fetched at once: 256 bytes, which getentropy(3) gives in one call.
    private static let count = 32

    /// - Parameter refill: makes so many numbers.
    init(refill: @escaping (Int) -> [UInt64] = RandomPool.system) { self.refill = refill }

    /// A number that is not zero.
    mutating func next() -> UInt64 {
        while true {
            if stock.isEmpty { stock = refill(Self.count) }
            let number = stock.removeLast()
            if number != 0 { return number }
        }
    }

    static func system(_ count: Int) -> [UInt64] {
        var numbers = [UInt64](repeating: 0, count: count)
        let result = numbers.withUnsafeMutableBytes { getentropy($0.baseAddress!, $0.count) }
        // Without random numbers TLS does not work either.
        precondition(result == 0, "the system gives no random numbers")
        return numbers
    }
}
