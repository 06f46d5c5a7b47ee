// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyCore

@Suite("The trace context of a request")
struct TraceContextTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let parent = "00f067aa0ba902b7"
    private static let usual = "00-\(trace)-\(parent)-01"

    static func fields(_ lines: [(String, String)]) -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in lines {
            let (name, value) = (Array(name.utf8), Array(value.utf8))
            fields.append(name: name.span, value: value.span)
        }
        return fields
    }

    private func parse(_ lines: (String, String)...) -> TraceContext? { TraceContext.read(Self.fields(lines)) }

    private func passedState(_ values: String...) -> String? {
        let lines = [("traceparent", Self.usual)] + values.map { ("tracestate", $0) }
        return TraceContext.read(Self.fields(lines)).map { String(decoding: $0.state, as: UTF8.self) }
    }

    @Test("a valid context is continued with another span")
    func continued() throws {
        let context = try #require(parse(("TraceParent", Self.usual)))
        #expect(context.traceID == TraceContext.TraceID(high: 0x4bf9_2f35_77b3_4da6, low: 0xa3ce_929d_0e0e_4736))
        #expect(context.parent == 0x00f0_67aa_0ba9_02b7)
        #expect(context.isSampled)
        #expect(parse(("traceparent", "00-\(Self.trace)-\(Self.parent)-02"))?.isSampled == false)
        let written = String(decoding: context.value(span: 0xab), as: UTF8.self)
        #expect(written == "00-\(Self.trace)-00000000000000ab-01")
    }

    @Test(
        "unknown flags and later versions are read as this version and this flags",
        arguments: [
            ("00-\(trace)-\(parent)-00", "00"), ("00-\(trace)-\(parent)-03", "03"), ("00-\(trace)-\(parent)-ff", "03"),
            ("00-\(trace)-\(parent)-fe", "02"), ("01-\(trace)-\(parent)-01", "01"),
            ("cc-\(trace)-\(parent)-01-what-comes", "01"), ("fe-\(trace)-\(parent)-00-", "00"),
        ]
    )
    func unknown(value: String, flags: String) throws {
        let context = try #require(parse(("traceparent", value)))
        #expect(String(decoding: context.value(span: 1), as: UTF8.self).hasSuffix("-0000000000000001-\(flags)"))
    }

    @Test("half of a trace's id may be zero", arguments: ["4bf92f3577b34da6", "0000000000000000"])
    func halfOfTrace(high: String) {
        let low = high.hasPrefix("0") ? "a3ce929d0e0e4736" : "0000000000000000"
        #expect(parse(("traceparent", "00-\(high)\(low)-\(Self.parent)-01")) != nil)
    }

    @Test(
        "what is not a valid context is no context",
        arguments: [
            "", "00", "ff-\(trace)-\(parent)-01", "00-\(trace)-\(parent)-01-", "00-\(trace)-\(parent)-01-x",
            "00-\(trace)-\(parent)-0", "00-\(trace)-\(parent)-0g", "00-\(trace)-\(parent)01",
            "00-\(trace)-0000000000000000-01", "00-00000000000000000000000000000000-\(parent)-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-\(parent)-01", "0x-\(trace)-\(parent)-01", "FE-\(trace)-\(parent)-01",
            "00_\(trace)-\(parent)-01", "00-\(trace)_\(parent)-01", "00-\(trace)-\(parent)_01",
            "01-\(trace)-\(parent)-01x", "\(usual), \(usual)", "00-\(trace)-\(parent)--1",
        ]
    )
    func invalid(value: String) { #expect(parse(("traceparent", value)) == nil) }

    @Test("two contexts in one request are none, whichever they are")
    func two() {
        #expect(parse(("traceparent", Self.usual), ("Traceparent", Self.usual)) == nil)
        #expect(parse(("traceparent", Self.usual), ("traceparent", "x")) == nil)
        #expect(parse(("tracestate", "a=1")) == nil)
    }

    @Test(
        "the state of other systems goes on in its order, in one field",
        arguments: [
            (["a=1"], "a=1"), (["a=1,b=2", "c=3"], "a=1,b=2,c=3"), (["a=1 ,\t b=2\t,,"], "a=1,b=2"), ([""], ""),
            (["0tenant@sys=x y"], "0tenant@sys=x y"), (["a_-*/@b=!~"], "a_-*/@b=!~"),
        ]
    )
    func state(values: [String], expected: String) {
        let lines = [("traceparent", Self.usual)] + values.map { ("tracestate", $0) }
        #expect(TraceContext.read(Self.fields(lines)).map { String(decoding: $0.state, as: UTF8.self) } == expected)
        let spelled = [("traceparent", Self.usual)] + values.map { ("TraceState", $0) }
        #expect(TraceContext.read(Self.fields(spelled)).map { String(decoding: $0.state, as: UTF8.self) } == expected)
    }

    @Test(
        "a state that is not valid is dropped whole, and the context is not",
        arguments: [
            ["a=1,a=2"], ["a=1", "a=1"], ["A=1"], ["a"], ["=1"], ["a="], ["a=1=2"], ["_a=1"], ["a=\u{e9}"], ["a b=1"],
            ["A=1,b=2"], ["A=1", "b=2"],
            [String(repeating: "a", count: 257) + "=1"], ["a=" + String(repeating: "1", count: 257)],
        ]
    )
    func invalidState(values: [String]) {
        let lines = [("traceparent", Self.usual), ("tracestate", "z=1")] + values.map { ("tracestate", $0) }
        let context = TraceContext.read(Self.fields(lines))
        #expect(context != nil && context?.state == [])
    }

    @Test("a state has at most 32 members and 512 bytes")
    func longState() {
        let members = (0..<32).map { "k\($0)=1" }
        #expect(passedState(members.joined(separator: ",")) == members.joined(separator: ","))
        #expect(passedState((members + ["z=1"]).joined(separator: ",")) == "")
        let long = "a=" + String(repeating: "1", count: 253)
        let rest = "b=" + String(repeating: "1", count: 254)
        #expect(passedState(long, rest) == "\(long),\(rest)")
        #expect(passedState(long, rest + "1") == "")
        let (key, value) = (String(repeating: "a", count: 256), String(repeating: "1", count: 256))
        #expect(passedState("\(key)=1") == "\(key)=1" && passedState("a=\(value)") == "a=\(value)")
    }
}
