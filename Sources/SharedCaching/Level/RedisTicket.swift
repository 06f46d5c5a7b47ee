// SPDX-License-Identifier: Apache-2.0
import HTTPCaching

/// The state of a URI in Redis before its origin was asked. It is used once.
final class RedisTicket: SharedTicket {
    /// Its request selects the response's place among the variants.
    let question: SharedQuestion
    let names: SharedNames
    let generation: [UInt8]
    /// Of the latest known purge.
    let number: Int
    /// In nanoseconds of the loop's clock.
    let madeAt: UInt64
    /// Of the lease that this machine has, or may have.
    let token: [UInt8]?
    var isUsed = false

    /// A generation is kept at least so long behind the look-up, in seconds; what comes later is not stored.
    static let validity = 600

    init(
        _ question: SharedQuestion,
        _ names: SharedNames,
        generation: [UInt8],
        number: Int,
        madeAt: UInt64,
        token: [UInt8]?
    ) {
        self.question = question
        self.names = names
        self.generation = generation
        self.number = number
        self.madeAt = madeAt
        self.token = token
    }
}
