// SPDX-License-Identifier: Apache-2.0
/// Decides when received bytes are passed to the disk, and when the origin has to wait for it.
///
/// A value that counts. A piece is passed on as soon as the last one has been written, so that little is pending while
/// the disk keeps up, and pieces get larger when it does not.
package struct WriteFlow: Equatable {
    package static let pieceSize = 256 << 10
    /// The limit of bytes in memory, at which the origin is paused.
    package static let highWater = 1 << 20
    package static let lowWater = 512 << 10

    /// Bytes that are collected, and not yet passed to the disk.
    package private(set) var pending = 0
    /// Bytes that have been passed to the disk, and are not written yet.
    package private(set) var inFlight = 0
    package private(set) var written = 0
    package private(set) var isPaused = false

    package init() {}

    package struct Step: Equatable {
        /// Pass the collected bytes to the disk.
        package var flushes = false
        /// Pause or resume the origin.
        package var pauses = false
        package var resumes = false
    }

    package mutating func didReceive(_ count: Int) -> Step {
        pending += count
        var step = Step(flushes: inFlight == 0 || pending >= Self.pieceSize)
        if step.flushes { flush() }
        if !isPaused, pending + inFlight > Self.highWater {
            isPaused = true
            step.pauses = true
        }
        return step
    }

    package mutating func didWrite(_ count: Int) -> Step {
        inFlight -= count
        written += count
        var step = Step(flushes: inFlight == 0 && pending > 0)
        if step.flushes { flush() }
        if isPaused, pending + inFlight < Self.lowWater {
            isPaused = false
            step.resumes = true
        }
        return step
    }

    /// Passes all collected bytes to the disk.
    package mutating func flush() {
        inFlight += pending
        pending = 0
    }
}
