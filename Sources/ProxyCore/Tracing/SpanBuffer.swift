// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The sampled requests of one worker that were over in this turn of its loop: they are handed over together, so that a request takes no
/// lock. Belongs to the thread of its worker.
final class SpanBuffer: EndOfTurnHandler {
    private let traces: TraceExport
    private unowned let loop: EventLoop
    private var records: [SpanRecord] = []

    /// So many are handed over before the turn ends.
    private static let most = 64

    init(_ traces: TraceExport, _ loop: EventLoop) {
        self.traces = traces
        self.loop = loop
    }

    /// Adds the spans of a request that is over; where no collector is named they are not recorded.
    ///
    /// - Parameter make: makes the record; called at once.
    func add(_ make: () -> SpanRecord) {
        guard traces.isWanted else { return }
        records.append(make())
        if records.count == Self.most { flush() } else { loop.atEndOfTurn(self) }
    }

    override func turnEnds() { flush() }

    /// Hands over what is here.
    func flush() {
        guard !records.isEmpty else { return }
        traces.add(records)
        records.removeAll(keepingCapacity: true)
    }
}
