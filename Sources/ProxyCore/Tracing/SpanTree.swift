// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// The spans of one request, by OpenTelemetry's semantic conventions for HTTP: one for the request as the client sees it (server), one
/// for each request to an origin (client), and below these the phases of a connection and the wait for the response.
struct SpanTree {
    private(set) var spans: [OTLPSpan] = []
    private let record: SpanRecord
    private let makeSpan: () -> UInt64

    /// - Parameter makeSpan: makes ids for spans that no other program was told of.
    static func spans(of record: SpanRecord, _ makeSpan: @escaping () -> UInt64) -> [OTLPSpan] {
        var tree = SpanTree(record, makeSpan)
        tree.addRequest()
        for hop in record.hops { tree.add(hop) }
        return tree.spans
    }

    private init(_ record: SpanRecord, _ makeSpan: @escaping () -> UInt64) {
        self.record = record
        self.makeSpan = makeSpan
    }

    // MARK: The request

    private mutating func addRequest() {
        if record.isRefresh { return addRefresh() }
        var span = OTLPSpan(
            trace: record.trace.traceID,
            span: record.span,
            parent: record.trace.parent,
            hasRemoteParent: record.trace.parent != 0,
            flags: record.trace.flags,
            state: record.trace.state,
            name: name,
            kind: .server,
            start: Self.nanoseconds(record.start),
            end: Self.nanoseconds(record.start &+ record.duration)
        )
        setMethod(of: &span)
        let url = URLParts(record.url)
        if !url.scheme.isEmpty {
            span.set("url.scheme", url.scheme)
            span.set("url.path", url.path)
            if !url.query.isEmpty { span.set("url.query", url.query) }
        }
        setServer(url, of: &span)
        let client = URLParts(authority: record.client)
        if let port = client.port {
            span.set("client.address", client.host)
            span.set("client.port", port)
        }
        setVersion(record.protocolVersion, of: &span)
        if record.status > 0 { span.set("http.response.status_code", record.status) }
        if record.bytesFromClient > 0 { span.set("http.request.body.size", record.bytesFromClient) }
        span.set("http.response.body.size", record.bytesToClient)
        if let cache = record.cache { span.set("pinproxy.cache", cache) }
        if let id = record.id {
            let name = String(decoding: id.name, as: UTF8.self).lowercased()
            span.attributes.append(("http.request.header.\(name)", .list(id.value)))
        }
        // A mistake of the client is none of the server.
        fail(&span, status: record.status, from: 500, error: record.error)
        spans.append(span)
    }

    /// A refresh has no client: its span is below that of the request that has caused it.
    private mutating func addRefresh() {
        var span = OTLPSpan(
            trace: record.trace.traceID,
            span: record.span,
            parent: record.trace.parent,
            flags: record.trace.flags,
            state: record.trace.state,
            name: "cache refresh",
            kind: .internal,
            start: Self.nanoseconds(record.start),
            end: Self.nanoseconds(record.start &+ record.duration)
        )
        if let cache = record.cache { span.set("pinproxy.cache", cache) }
        fail(&span, status: record.status, from: 500, error: record.error)
        spans.append(span)
    }

    /// The name of a span is its method: a path would be another name for each request.
    private var name: String { isKnownMethod ? String(decoding: record.method, as: UTF8.self) : "HTTP" }

    private var isKnownMethod: Bool {
        let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]
        return known.contains { $0.utf8.elementsEqual(record.method) }
    }

    private func setMethod(of span: inout OTLPSpan) {
        if isKnownMethod { return span.set("http.request.method", record.method) }
        span.set("http.request.method", "_OTHER")
        if !record.method.isEmpty { span.set("http.request.method_original", record.method) }
    }

    private func setServer(_ url: URLParts, of span: inout OTLPSpan) {
        guard !url.host.isEmpty else { return }
        span.set("server.address", url.host)
        if let port = url.port { span.set("server.port", port) }
    }

    private func setVersion(_ version: Int, of span: inout OTLPSpan) {
        switch version {
        case 10: span.set("network.protocol.version", "1.0")
        case 11: span.set("network.protocol.version", "1.1")
        case 20: span.set("network.protocol.version", "2")
        default: break
        }
    }

    private func fail(_ span: inout OTLPSpan, status: Int, from least: Int, error: String?) {
        span.hasFailed = status >= least || (error != nil && status < 400)
        if let error { span.set("error.type", error) } else if span.hasFailed { span.set("error.type", "\(status)") }
    }

    // MARK: Requests to origins

    private mutating func add(_ hop: SpanRecord.Hop) {
        let metrics = hop.metrics
        let isLast = hop.metrics.responseEnd == TransactionMetrics.absent
        let end = isLast ? record.start &+ record.duration : hop.origin &+ metrics.responseEnd
        let start = hop.origin &+ max(0, metrics.fetchStart)
        var span = OTLPSpan(
            trace: record.trace.traceID,
            span: hop.span == 0 ? makeSpan() : hop.span,
            parent: record.span,
            flags: record.trace.flags,
            state: record.trace.state,
            name: record.isTunnel ? "tunnel" : name,
            kind: .client,
            start: Self.nanoseconds(start),
            end: Self.nanoseconds(max(start, end))
        )
        let url = URLParts(hop.url)
        if !record.isTunnel {
            setMethod(of: &span)
            span.set("url.full", hop.url)
            setVersion(metrics.protocolVersion, of: &span)
            if metrics.status > 0 { span.set("http.response.status_code", metrics.status) }
            span.set("http.request.body.size", Int(metrics.requestBodyBytesSent))
            span.set("http.response.body.size", Int(metrics.responseBodyBytesReceived))
        }
        setServer(url, of: &span)
        if let peer = hop.peer {
            let address = URLParts(authority: peer.address)
            span.set("network.peer.address", address.host)
            if let port = address.port { span.set("network.peer.port", port) }
            if peer.tlsVersion.starts(with: Array("TLSv".utf8)) {
                span.set("tls.protocol.version", Array(peer.tlsVersion.dropFirst(4)))
            }
            if !peer.cipher.isEmpty { span.set("tls.cipher", peer.cipher) }
            if let verdict = peer.verdict { span.set("pinproxy.pinning.verdict", verdict) }
        }
        span.attributes.append(("pinproxy.connection.reused", .flag(metrics.isReusedConnection)))
        fail(&span, status: metrics.status, from: 400, error: metrics.status == 0 ? record.error : nil)
        spans.append(span)
        addPhases(of: hop, below: span)
    }

    private mutating func addPhases(of hop: SpanRecord.Hop, below span: OTLPSpan) {
        let metrics = hop.metrics
        let parent = span.span
        add("name lookup", metrics.domainLookupStart, metrics.domainLookupEnd, hop, span, parent)
        if let connect = add("connect", metrics.connectStart, metrics.connectEnd, hop, span, parent) {
            let (start, end) = (metrics.proxySecureConnectionStart, metrics.proxySecureConnectionEnd)
            add("TLS handshake with proxy", start, end, hop, span, connect)
            add("TLS handshake", metrics.secureConnectionStart, metrics.secureConnectionEnd, hop, span, connect)
        }
        // A response may begin before the request is complete: then there was no wait.
        if metrics.requestEnd <= metrics.responseStart || metrics.responseStart == TransactionMetrics.absent {
            add("wait for response", metrics.requestEnd, metrics.responseStart, hop, span, parent)
        }
    }

    /// Adds a phase that happened; one without an end was cut off with its request.
    ///
    /// - Returns: its id.
    @discardableResult
    private mutating func add(
        _ name: String,
        _ start: Int64,
        _ end: Int64,
        _ hop: SpanRecord.Hop,
        _ request: OTLPSpan,
        _ parent: UInt64
    ) -> UInt64? {
        guard start != TransactionMetrics.absent else { return nil }
        let isWhole = end != TransactionMetrics.absent
        let begin = Self.nanoseconds(hop.origin &+ start)
        let phase = OTLPSpan(
            trace: request.trace,
            span: makeSpan(),
            parent: parent,
            flags: request.flags,
            name: name,
            kind: .internal,
            start: begin,
            end: max(begin, isWhole ? Self.nanoseconds(hop.origin &+ end) : request.end),
            hasFailed: !isWhole
        )
        spans.append(phase)
        return phase.span
    }

    private static func nanoseconds(_ microseconds: Int64) -> UInt64 { UInt64(max(0, microseconds)) &* 1000 }
}

/// The parts of a URL of the task log, or of an authority.
struct URLParts: Equatable {
    private(set) var scheme: [UInt8] = []
    private(set) var host: [UInt8] = []
    /// The usual one of the scheme where the URL has none.
    private(set) var port: Int?
    private(set) var path: [UInt8] = []
    private(set) var query: [UInt8] = []

    init(_ url: [UInt8]) {
        guard let colon = url.firstIndex(of: UInt8(ascii: ":")), url[(colon + 1)...].starts(with: Array("//".utf8))
        else {
            // The URL of a request without a route is its target.
            self.init(authority: url.first == UInt8(ascii: "/") ? [] : url)
            return
        }
        let behind = url[(colon + 3)...]
        let end = behind.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? url.endIndex
        self.init(authority: Array(behind[..<end]))
        scheme = Array(url[..<colon])
        if port == nil { port = scheme == Array("https".utf8) ? 443 : 80 }
        let mark = url[end...].firstIndex(of: UInt8(ascii: "?")) ?? url.endIndex
        path = Array(url[end..<mark])
        query = Array(url[mark...].dropFirst())
    }

    /// - Parameter authority: a host, an address in brackets, with or without a port.
    init(authority: [UInt8]) {
        host = authority
        if let colon = authority.lastIndex(of: UInt8(ascii: ":")),
            let number = UInt16(String(decoding: authority[(colon + 1)...], as: UTF8.self))
        {
            host = Array(authority[..<colon])
            port = Int(number)
        }
        if host.first == UInt8(ascii: "["), host.last == UInt8(ascii: "]") {
            host = Array(host.dropFirst().dropLast())
        }
    }
}
