// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import TestSupport
import Testing

@testable import ProxyCore

@Suite("What other programs know a request by")
struct IdentityRulesTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    private func make(sample: Double? = nil, field: String? = nil, numbers: [UInt64] = []) -> IdentityRules? {
        var configuration = Configuration()
        if let sample {
            var tracing = TracingConfiguration()
            tracing.sample = sample
            configuration.tracing = tracing
        }
        configuration.requestID = field.map { RequestIDConfiguration(field: $0) }
        let pool = numbers.isEmpty ? RandomPool() : RandomPool { _ in numbers.reversed() }
        return IdentityRules(configuration, pool: pool)
    }

    private func head(_ fields: String) throws -> RequestHead {
        var parser = RequestParser()
        var head = RequestHead()
        let text = Array("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\(fields)\r\n".utf8)
        try #require(parser.parse(text.span, into: &head).outcome == .complete)
        return head
    }

    private func sent(_ identity: RequestIdentity, _ fields: String) throws -> [String] {
        var sent = OriginFields.make(from: try head(fields), mark: .via(Array("1.1 us".utf8)))
        identity.write(to: &sent)
        return sent.list.map { "\($0.name): \($0.value)" }
    }

    private func logged(_ identity: RequestIdentity) -> String {
        var line = ByteBuffer()
        identity.writeMembers(to: &line)
        return line.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("without both settings requests have no identity")
    func off() { #expect(make() == nil) }

    @Test("a follower is below the request in its trace, and replaces its span alone")
    func follower() throws {
        let rules = try #require(make(sample: 0, field: "X-Request-Id", numbers: [1, 2, 3, 4]))
        let context = "traceparent: 00-\(Self.trace)-00f067aa0ba902b7-01\r\ntracestate: a=1\r\nX-Request-Id: mine\r\n"
        let cause = rules.identify(try head(context))
        var fields = HeaderFields()
        cause.write(to: &fields)
        let follower = cause.follower()
        #expect(follower.span == 3 && follower.trace?.parent == 1 && follower.trace?.isSampled == true)
        follower.write(inPlaceOf: cause, to: &fields)
        let expected = [
            "tracestate: a=1", "X-Request-Id: mine", "traceparent: 00-\(Self.trace)-0000000000000004-01",
        ]
        #expect(fields.list.map { "\($0.name): \($0.value)" } == expected)
        // Once more changes nothing, and neither does a value of the configuration, or none.
        follower.write(inPlaceOf: cause, to: &fields)
        #expect(fields.list.map { "\($0.name): \($0.value)" } == expected)
        for text in ["", "traceparent: own\r\n"] {
            var others = try head(text).fields
            follower.write(inPlaceOf: cause, to: &others)
            #expect(others.list.filter { $0.name == "traceparent" }.map(\.value) == (text.isEmpty ? [] : ["own"]))
        }
        #expect(logged(follower).contains("\"spanId\":\"0000000000000003\""))
        let untraced = try #require(make(field: "X-Request-Id")).identify(try head("X-Request-Id: mine\r\n"))
        #expect(untraced.follower().trace == nil && untraced.follower().id == Array("mine".utf8))
    }

    @Test("the trace of a client is continued, its fields in any spelling are replaced")
    func continued() throws {
        let rules = try #require(make(sample: 0, numbers: [1, 2, 3]))
        let fields = """
            Traceparent: 00-\(Self.trace)-00f067aa0ba902b7-01\r
            trace_state: x\r
            TRACESTATE: a=1\r
            X-Request-Id: mine\r

            """
        let identity = rules.identify(try head(fields))
        #expect(identity.span == 1)
        #expect(identity.trace?.parent == 0x00f0_67aa_0ba9_02b7)
        #expect(
            try sent(identity, fields).suffix(4) == [
                "X-Request-Id: mine", "Via: 1.1 us", "traceparent: 00-\(Self.trace)-0000000000000002-01",
                "tracestate: a=1",
            ]
        )
        #expect(logged(identity) == #","traceId":"\#(Self.trace)","spanId":"0000000000000001""#)
    }

    @Test("a request without a trace begins one, sampled by its random bits")
    func begun() throws {
        let invalid = "traceparent: 00-\(Self.trace)-00f067aa0ba902b7-01-x\r\ntracestate: a=1\r\n"
        let half = UInt64(1) << 55
        for (share, low, flags) in [
            (1, 1, "03"), (0, (UInt64(1) << 56) - 1, "02"), (0.5, half, "03"), (0.5, half - 1, "02"),
            (0.5, half - 1 | 1 << 63, "02"),
        ] {
            let rules = try #require(make(sample: share, numbers: [7, low, 8, 9]))
            let identity = rules.identify(try head(invalid))
            let context = try sent(identity, invalid).last
            let digits = String(low, radix: 16)
            let padded = String(repeating: "0", count: 16 - digits.count) + digits
            #expect(context == "traceparent: 00-0000000000000007\(padded)-0000000000000009-\(flags)")
        }
    }

    @Test("each hop has a span of its own, unless the field was removed")
    func hops() throws {
        let rules = try #require(make(sample: 1, numbers: [1, 2, 3, 4, 5]))
        let identity = rules.identify(try head(""))
        var fields = HeaderFields()
        identity.write(to: &fields)
        identity.write(to: &fields)
        identity.renew(hop: 1, in: &fields)
        #expect(fields.list.map(\.value) == ["00-00000000000000010000000000000002-0000000000000005-03"])
        #expect(identity.hops == [4, 5])
        fields = HeaderFields()
        identity.renew(hop: 1, in: &fields)
        #expect(fields.isEmpty)
        // The rules of a host have set another one.
        let (name, value) = (Array("traceparent".utf8), Array("theirs".utf8))
        fields.append(name: name.span, value: value.span)
        identity.renew(hop: 1, in: &fields)
        #expect(fields.list.map(\.value) == ["theirs"])
    }

    @Test(
        "the id of a client goes on when it is one sane value",
        arguments: [
            "a", "7b0c2a4e-5d1f-4f0e-9c55-7b1d6a0f3f60", "Root=1-6/7:8@9_~+.", String(repeating: "x", count: 128),
        ]
    )
    func clientsID(value: String) throws {
        let rules = try #require(make(field: "X-Request-Id"))
        let fields = "x-request-id: \(value)\r\n"
        let identity = rules.identify(try head(fields))
        #expect(try sent(identity, fields).suffix(1) == ["X-Request-Id: \(value)"])
    }

    @Test(
        "any other value gives a new id",
        arguments: [
            "", "X-Request-Id:\r\n", "X-Request-Id: a b\r\n", "X-Request-Id: a\"\r\n", "X-Request-Id: \"a\r\n",
            "X-Request-Id: \u{e9}\r\n",
            "X-Request-Id: a\r\nx-request-id: a\r\n", "X-Request-Id: a,b\r\n",
            "X-Request-Id: \(String(repeating: "x", count: 129))\r\n", "X_Request_Id: a\r\n",
        ]
    )
    func newID(fields: String) throws {
        let rules = try #require(make(field: "X-Request-Id", numbers: [0xab, 1]))
        let identity = rules.identify(try head(fields))
        let sent = try sent(identity, fields).filter { $0.lowercased().contains("request") }
        #expect(sent == ["X-Request-Id: 00000000000000ab0000000000000001"])
        #expect(logged(identity) == #","requestId":"00000000000000ab0000000000000001""#)
    }

    @Test("numbers come from the system, and none is zero")
    func numbers() {
        var pool = RandomPool()
        #expect(Set((0..<1000).map { _ in pool.next() }).count == 1000)
        var zeros = RandomPool { _ in [5, 0] }
        #expect((0..<2).map { _ in zeros.next() } == [5, 5])
    }
}
