// SPDX-License-Identifier: Apache-2.0
import HTTPCore

@testable import ProxyCore

/// The fields of a client that continue a trace.
enum TraceProperties {
    /// The input is lines of a request's head. A context that is read keeps to its bounds, and is read as the same one from the fields
    /// that are written for it.
    static func contexts(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let context = read(bytes) else { return }
        guard context.parent != 0, context.traceID.high | context.traceID.low != 0, context.flags <= 3 else {
            throw FuzzFinding("a context that no program may send: \(context)")
        }
        let members = context.state.split(separator: UInt8(ascii: ",")).count
        guard context.state.count <= TraceState.mostBytes, members <= TraceState.mostMembers else {
            throw FuzzFinding("a state of \(context.state.count) bytes and \(members) members")
        }
        var fields = Array("traceparent: ".utf8) + context.value(span: context.parent)
        if !context.state.isEmpty { fields += Array("\r\ntracestate: ".utf8) + context.state }
        let again = read(fields)
        guard again == context else { throw FuzzFinding("\(context) is read again as \(String(describing: again))") }
    }

    private static func read(_ fields: [UInt8]) -> TraceContext? {
        var parser = RequestParser()
        var head = RequestHead()
        let text = Array("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n".utf8) + fields + Array("\r\n\r\n".utf8)
        guard parser.parse(text.span, into: &head).outcome == .complete else { return nil }
        return TraceContext.read(head.fields)
    }
}
