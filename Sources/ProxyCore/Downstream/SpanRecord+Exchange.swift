// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

extension SpanRecord {
    /// Copies what the spans of a request say, when it is over.
    ///
    /// - Parameters:
    ///   - task: the last one; nil when the request was refused before there was one.
    ///   - now: the loop's time in nanoseconds.
    ///   - line: masks URLs.
    init(
        _ exchange: Exchange,
        _ identity: RequestIdentity,
        in trace: TraceContext,
        _ task: LoopTask?,
        client: [UInt8],
        now: UInt64,
        masking line: TaskLogLine
    ) {
        let record = exchange.hooks?.record
        let followed = record?.hasFollowed == true ? record : nil
        let url = Self.url(of: exchange.head, on: exchange.route, line)
        var hops: [Hop] = []
        for (number, one) in (followed?.earlier ?? []).enumerated() {
            // A redirect of the cache was no request to an origin.
            guard let metrics = one.metrics else { continue }
            let url = Self.cut(one.prefix + line.masked(one.target.span))
            hops.append(Hop(span: identity.span(sentWith: number), url: url, origin: one.fetchStart, metrics: metrics))
        }
        if let metrics = task?.metrics {
            let number = followed?.earlier.count ?? 0
            let target = followed.map { $0.url?.target ?? [] }
            let last = followed.flatMap { one in target.map { Self.cut(one.prefix + line.masked($0.span)) } }
            hops.append(
                Hop(
                    span: identity.span(sentWith: number),
                    url: last ?? url,
                    origin: metrics.fetchStart,
                    metrics: metrics.transaction
                )
            )
        }
        self.init(
            trace: trace,
            span: identity.span,
            id: identity.idField,
            start: exchange.life.startedWall,
            duration: Int64((now &- exchange.life.startedAt) / 1000),
            method: Self.text(of: exchange.head.method),
            url: url,
            protocolVersion: exchange.head.majorVersion == 2 ? 20 : 10 + Int(exchange.head.minorVersion),
            client: client,
            status: exchange.writer.hasBegun ? exchange.writer.status : 0,
            error: exchange.life.problem?.code.rawValue,
            cache: exchange.cacheOutcome?.rawValue,
            bytesFromClient: exchange.bytesToOrigin,
            bytesToClient: exchange.bytesToClient,
            isTunnel: exchange.head.method == .connect,
            hops: hops
        )
    }

    private static func text(of method: HTTPMethod) -> [UInt8] {
        if case .other(let bytes) = method { return bytes.count <= 64 ? bytes : Array(bytes.prefix(64)) }
        return Array("\(method.knownText)".utf8)
    }

    /// The URL of the client's request, as the task log has it.
    private static func url(of head: borrowing RequestHead, on route: Route?, _ line: TaskLogLine) -> [UInt8] {
        guard let route else { return cut(line.masked(head.rawTarget)) }
        // The authority is the whole target of CONNECT, and of OPTIONS for a server (RFC 9110, section 7.1).
        let isOfServer = head.method == .connect || head.target.count == 1 && head.target[0] == UInt8(ascii: "*")
        return isOfServer ? route.logPrefix : cut(route.logPrefix + line.masked(head.target))
    }

    static func cut(_ url: [UInt8]) -> [UInt8] {
        url.count <= mostURLBytes ? url : Array(url.prefix(mostURLBytes))
    }
}
