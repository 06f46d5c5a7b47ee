// SPDX-License-Identifier: Apache-2.0
import IOCore
import ProxyConfiguration
import Synchronization

/// Takes the spans of sampled requests to the collector that the configuration names. Its thread starts with the first such configuration;
/// a reload with another collector sends what waits to the former one.
package final class TraceExport: Sendable {
    private struct State {
        var current: SpanExporter?
        /// Replaced ones, until their threads have ended.
        var leaving: [SpanExporter] = []
        /// Of those that are gone.
        var figures = SpanFigures()
        var isStopped = false

        mutating func forgetEnded() {
            // One look at each: a thread that ends behind it is joined the next time.
            leaving.removeAll { exporter in
                guard exporter.hasEnded else { return false }
                exporter.join()
                figures = figures + exporter.figures
                return true
            }
        }
    }

    private let settings: TraceSettings
    private let state = Locked(State())
    /// Whether there is a current exporter.
    private let hasCollector = Atomic<Bool>(false)

    package init(snapshot: PolicySnapshot, settings: TraceSettings = TraceSettings()) {
        self.settings = settings
        replace(snapshot)
    }

    deinit { stop() }

    /// Uses another policy from now on.
    package func replace(_ snapshot: PolicySnapshot) {
        let collector = snapshot.configuration.tracing?.collector
        state.withLock { state in
            guard !state.isStopped else { return }
            defer { hasCollector.store(state.current != nil, ordering: .relaxed) }
            state.forgetEnded()
            if let current = state.current {
                if current.collector == collector { return current.replace(snapshot) }
                current.startStopping()
                state.leaving.append(current)
                state.current = nil
            }
            guard let collector else { return }
            // Without a thread there are no spans; the system that has none left has other troubles.
            state.current = try? SpanExporter(collector, snapshot, settings)
        }
    }

    /// Whether records are wanted: a collector is named.
    var isWanted: Bool { hasCollector.load(ordering: .relaxed) }

    /// Adds requests that are over.
    func add(_ records: [SpanRecord]) { state.withLock { $0.current }?.add(records) }

    /// Nil where there never was a collector.
    package var figures: SpanFigures? {
        state.withLock { state in
            state.forgetEnded()
            let exporters = state.leaving + [state.current].compactMap { $0 }
            if exporters.isEmpty, state.figures == SpanFigures() { return nil }
            return exporters.reduce(state.figures) { $0 + $1.figures }
        }
    }

    /// Sends what waits, for a short time, and ends the threads. Blocks until they have ended.
    package func stop() {
        let exporters = state.withLock { state in
            state.isStopped = true
            let all = state.leaving + [state.current].compactMap { $0 }
            state.leaving = []
            state.current = nil
            return all
        }
        for exporter in exporters { exporter.startStopping() }
        for exporter in exporters { exporter.join() }
    }
}
