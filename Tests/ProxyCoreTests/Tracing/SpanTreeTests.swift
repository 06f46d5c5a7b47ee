// SPDX-License-Identifier: Apache-2.0
import SessionCore
import Testing

@testable import ProxyCore

@Suite("The spans of a request")
struct SpanTreeTests {
    private static let trace = TraceContext(traceID: TraceContext.TraceID(high: 1, low: 2), parent: 3, flags: 3)

    private static func record(
        method: String = "GET",
        url: String = "https://a.example/path?q=1",
        status: Int = 200,
        error: String? = nil,
        isTunnel: Bool = false,
        hops: [SpanRecord.Hop] = [],
        isRefresh: Bool = false
    ) -> SpanRecord {
        SpanRecord(
            trace: trace,
            span: 4,
            id: (Array("X-Request-Id".utf8), Array("mine".utf8)),
            start: 1_000_000,
            duration: 5000,
            method: Array(method.utf8),
            url: Array(url.utf8),
            protocolVersion: 20,
            client: Array("[2001:db8::1]:4711".utf8),
            status: status,
            error: error,
            cache: "miss",
            bytesFromClient: 0,
            bytesToClient: 9,
            isTunnel: isTunnel,
            hops: hops,
            isRefresh: isRefresh
        )
    }

    private static func metrics(_ change: (inout TransactionMetrics) -> Void = { _ in }) -> TransactionMetrics {
        var metrics = TransactionMetrics()
        metrics.fetchStart = 0
        metrics.domainLookupStart = 10
        metrics.domainLookupEnd = 20
        metrics.connectStart = 20
        metrics.secureConnectionStart = 30
        metrics.secureConnectionEnd = 40
        metrics.connectEnd = 41
        metrics.requestStart = 42
        metrics.requestEnd = 43
        metrics.responseStart = 60
        metrics.responseEnd = 70
        metrics.status = 200
        metrics.protocolVersion = 11
        change(&metrics)
        return metrics
    }

    private func spans(_ record: SpanRecord) -> [OTLPSpan] {
        var last: UInt64 = 100
        return SpanTree.spans(of: record) {
            last += 1
            return last
        }
    }

    private func text(_ span: OTLPSpan, _ key: String) -> String? {
        switch span.attributes.first(where: { $0.key == key })?.value {
        case .text(let bytes), .list(let bytes): String(decoding: bytes, as: UTF8.self)
        case .number(let number): "\(number)"
        case .flag(let flag): "\(flag)"
        case nil: nil
        }
    }

    @Test("a refresh is an internal span above its request")
    func refresh() {
        let hop = SpanRecord.Hop(
            span: 5,
            url: Array("https://a.example/path".utf8),
            origin: 1_000_000,
            metrics: Self.metrics()
        )
        let all = spans(Self.record(hops: [hop], isRefresh: true))
        #expect(all[0].kind == .internal && all[0].name == "cache refresh")
        #expect(all[0].span == 4 && all[0].parent == 3 && !all[0].hasRemoteParent && !all[0].hasFailed)
        #expect(all[0].attributes.map(\.key) == ["pinproxy.cache"])
        #expect(all[1].kind == .client && all[1].name == "GET" && all[1].span == 5 && all[1].parent == 4)
        #expect(spans(Self.record(status: 0, error: "connect_failed", isRefresh: true))[0].hasFailed)
    }

    @Test("a stored response is one span of kind server, with the conventions' attributes")
    func server() {
        let all = spans(Self.record())
        #expect(all.count == 1)
        let span = all[0]
        #expect(span.kind == .server && span.name == "GET" && span.span == 4 && span.parent == 3)
        #expect(span.hasRemoteParent && !span.hasFailed)
        #expect(span.start == 1_000_000_000 && span.end == 1_005_000_000)
        for (key, value) in [
            ("http.request.method", "GET"), ("url.scheme", "https"), ("url.path", "/path"), ("url.query", "q=1"),
            ("server.address", "a.example"), ("server.port", "443"), ("client.address", "2001:db8::1"),
            ("client.port", "4711"), ("network.protocol.version", "2"), ("http.response.status_code", "200"),
            ("pinproxy.cache", "miss"), ("http.request.header.x-request-id", "mine"),
        ] {
            #expect(text(span, key) == value, "\(key)")
        }
        #expect(text(span, "error.type") == nil)
    }

    @Test("a request to an origin is a client span with its phases below")
    func client() {
        let hop = SpanRecord.Hop(
            span: 5,
            url: Array("https://a.example/".utf8),
            origin: 1_000_100,
            metrics: Self.metrics()
        )
        let all = spans(Self.record(hops: [hop]))
        #expect(all.map(\.name) == ["GET", "GET", "name lookup", "connect", "TLS handshake", "wait for response"])
        #expect(all.map(\.kind) == [.server, .client, .internal, .internal, .internal, .internal])
        #expect(all.map(\.parent) == [3, 4, 5, 5, 102, 5])
        #expect(all.map(\.span) == [4, 5, 101, 102, 103, 104])
        #expect(all[1].start == 1_000_100_000 && all[1].end == 1_000_170_000)
        #expect(all[4].start == 1_000_130_000 && all[4].end == 1_000_140_000)
        #expect(all[5].start == 1_000_143_000 && all[5].end == 1_000_160_000)
        #expect(text(all[1], "url.full") == "https://a.example/")
        #expect(text(all[1], "network.protocol.version") == "1.1")
        #expect(all.allSatisfy { !$0.hasFailed && $0.trace == Self.trace.traceID })
    }

    @Test("a phase that was cut off ends with its request, and both have failed")
    func cutOff() {
        let metrics = Self.metrics {
            $0.connectEnd = TransactionMetrics.absent
            $0.secureConnectionEnd = TransactionMetrics.absent
            $0.requestEnd = TransactionMetrics.absent
            $0.responseStart = TransactionMetrics.absent
            $0.responseEnd = TransactionMetrics.absent
            $0.status = 0
        }
        let hop = SpanRecord.Hop(span: 0, url: [], origin: 1_000_000, metrics: metrics)
        let all = spans(Self.record(status: 502, error: "pin_mismatch", hops: [hop]))
        #expect(all.map(\.name) == ["GET", "GET", "name lookup", "connect", "TLS handshake"])
        #expect(all.map(\.hasFailed) == [true, true, false, true, true])
        #expect(all[4].end == 1_005_000_000 && all[1].span == 101)
        #expect(text(all[0], "error.type") == "pin_mismatch" && text(all[1], "error.type") == "pin_mismatch")
    }

    @Test(
        "a 4xx status is an error of the client span alone",
        arguments: [(404, false, true), (500, true, true), (302, false, false)]
    )
    func failures(status: Int, server: Bool, client: Bool) {
        let hop = SpanRecord.Hop(span: 5, url: [], origin: 0, metrics: Self.metrics { $0.status = status })
        let all = spans(Self.record(status: status, hops: [hop]))
        #expect(all[0].hasFailed == server && all[1].hasFailed == client)
        #expect(text(all[1], "error.type") == (client ? "\(status)" : nil))
    }

    @Test("other methods share a name, and a tunnel has one of its own")
    func names() {
        let other = spans(Self.record(method: "BREW"))[0]
        #expect(other.name == "HTTP" && text(other, "http.request.method") == "_OTHER")
        #expect(text(other, "http.request.method_original") == "BREW")
        let hop = SpanRecord.Hop(span: 0, url: Array("a.example:8443".utf8), origin: 0, metrics: Self.metrics())
        let tunnel = spans(Self.record(method: "CONNECT", url: "a.example:8443", isTunnel: true, hops: [hop]))
        #expect(tunnel[0].name == "CONNECT" && tunnel[1].name == "tunnel")
        #expect(text(tunnel[1], "server.port") == "8443" && text(tunnel[1], "url.full") == nil)
    }

    @Test(
        "the parts of URLs and authorities",
        arguments: [
            ("https://a.example", "https", "a.example", 443, "", ""),
            ("http://a.example:81/b/c?d?e", "http", "a.example", 81, "/b/c", "d?e"),
            ("http://[::1]:8/?", "http", "::1", 8, "/", ""), ("https://[::1]/x", "https", "::1", 443, "/x", ""),
            ("a.example:443", "", "a.example", 443, "", ""),
        ]
    )
    func parts(url: String, scheme: String, host: String, port: Int, path: String, query: String) {
        let parts = URLParts(Array(url.utf8))
        #expect(parts.scheme == Array(scheme.utf8) && parts.host == Array(host.utf8) && parts.port == port)
        #expect(parts.path == Array(path.utf8) && parts.query == Array(query.utf8))
    }

    @Test("text that is no URL has no scheme, path or query")
    func noParts() {
        #expect(URLParts(Array("/path?q".utf8)) == URLParts([]))
        #expect(URLParts([]).host == [] && URLParts(Array("a:b".utf8)).port == nil)
        #expect(URLParts(Array("a:99999".utf8)).port == nil)
    }
}
