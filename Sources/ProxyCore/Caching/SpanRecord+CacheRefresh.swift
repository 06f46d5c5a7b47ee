// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import SessionCore

extension SpanRecord {
    /// Copies what the spans of a refresh say, when a request of it is over.
    ///
    /// - Parameters:
    ///   - wallClock: the loop's, in microseconds since 1970.
    ///   - line: masks URLs.
    init(
        _ refresh: CacheRefresh,
        _ identity: RequestIdentity,
        in trace: TraceContext,
        _ task: LoopTask,
        _ outcome: CacheOutcome,
        wallClock: Int64,
        masking line: TaskLogLine
    ) {
        let target = refresh.target
        let url = Self.cut(refresh.logPrefix + line.masked(target.span))
        let hop = Hop(
            span: identity.span(sentWith: 0),
            url: url,
            origin: task.metrics.fetchStart,
            metrics: task.metrics.transaction
        )
        self.init(
            trace: trace,
            span: identity.span,
            id: nil,
            start: refresh.startTime,
            duration: max(0, wallClock - refresh.startTime),
            method: Array("GET".utf8),
            url: url,
            protocolVersion: 0,
            client: [],
            status: task.metrics.transaction.status,
            error: refresh.error?.code.rawValue,
            cache: outcome.rawValue,
            bytesFromClient: 0,
            bytesToClient: 0,
            isTunnel: false,
            hops: [hop],
            isRefresh: true
        )
    }
}
