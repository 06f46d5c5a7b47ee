// SPDX-License-Identifier: Apache-2.0
/// A client's request that holds memory, and can be closed when that is short.
protocol MemoryHolder: AnyObject {
    /// When something moved last, in nanoseconds of the loop's clock.
    var movedAt: UInt64 { get }

    /// Closes the request, unless it is over.
    func giveUpIdle()
}
