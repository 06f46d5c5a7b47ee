/// When bytes that have come are handed to the disk, and when the origin has to wait for it.
///
/// A value: it counts. One piece after the other is handed over as soon as the last has been written, so that little is
/// on the way while the disk keeps up, and large pieces are while it does not.
package struct WriteFlow: Equatable {
    package static let pieceSize = 256 << 10
    /// So much may wait in memory.
    package static let highWater = 1 << 20
    package static let lowWater = 512 << 10

    /// Collected, not handed over.
    package private(set) var pending = 0
    /// Handed over, not written.
    package private(set) var inFlight = 0
    package private(set) var written = 0
    package private(set) var isPaused = false

    package init() {}

    package struct Step: Equatable {
        /// Hand over what is collected.
        package var flushes = false
        /// The origin's side: hold it back, or let it go on.
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

    /// Everything has to go now.
    package mutating func flush() {
        inFlight += pending
        pending = 0
    }
}
