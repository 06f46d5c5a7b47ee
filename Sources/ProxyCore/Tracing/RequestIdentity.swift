// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration

/// Trace, spans and id of one request, as other programs know it. The identity stays the same when the request starts again after a
/// reload.
final class RequestIdentity {
    /// nil where `tracing` is off.
    let trace: TraceContext?
    /// The span of the request itself; 0 without a trace.
    let span: UInt64
    /// The spans of what is sent to origins, one for each hop of redirects.
    private(set) var hops: [UInt64] = []
    /// nil without `requestID`.
    let id: [UInt8]?
    private let own: IdentityFields

    init(_ own: IdentityFields, trace: TraceContext?, span: UInt64, id: [UInt8]?) {
        self.own = own
        self.trace = trace
        self.span = span
        self.id = id
    }

    /// The span of a hop; 0 is the client's own request.
    private func span(ofHop hop: Int) -> UInt64 {
        while hops.count <= hop { hops.append(own.makeNumber()) }
        return hops[hop]
    }

    /// The field of the id and its value; nil without `requestID`.
    var idField: (name: [UInt8], value: [UInt8])? {
        guard let id, let name = own.idName else { return nil }
        return (name, id)
    }

    /// The span that the origin of a hop was told of; 0 if it was told of none, as behind a tunnel.
    func span(sentWith hop: Int) -> UInt64 { hop < hops.count ? hops[hop] : 0 }

    // MARK: Fields

    /// Writes the fields of the request to an origin, in place of the client's.
    func write(to fields: inout HeaderFields) {
        own.ofRequests.removeNames(from: &fields)
        if let trace {
            append(trace.value(span: span(ofHop: 0)), TraceContext.parentName, to: &fields)
            if !trace.state.isEmpty { append(trace.state, TraceContext.stateName, to: &fields) }
        }
        if let id, let name = own.idName { fields.append(name: name.span, value: id.span) }
    }

    /// Gives the request of a redirect's hop its own span, unless the rules of its host have removed the field, or set it.
    func renew(hop: Int, in fields: inout HeaderFields) {
        guard let trace, let index = fields.first(named: TraceContext.parentName.bytes),
            fields.value(at: index).equals(trace.value(span: span(ofHop: 0)).span)
        else { return }
        fields.remove(at: index)
        append(trace.value(span: span(ofHop: hop)), TraceContext.parentName, to: &fields)
    }

    /// The identity of a request that this one has caused, and that nobody waits for: of the same trace and id, with spans of its own.
    func follower() -> RequestIdentity {
        var context = trace.map { TraceContext(traceID: $0.traceID, parent: span, flags: $0.flags) }
        if let trace { context?.state = trace.state }
        return RequestIdentity(own, trace: context, span: context == nil ? 0 : own.makeNumber(), id: id)
    }

    /// Writes the span of a hop of this request in place of the one of another request, unless the rules of the host have removed the
    /// field, or set it.
    func write(inPlaceOf other: RequestIdentity, to fields: inout HeaderFields) {
        guard let trace, let index = fields.first(named: TraceContext.parentName.bytes) else { return }
        for span in other.hops {
            let value = trace.value(span: span)
            guard fields.value(at: index).equals(value.span) else { continue }
            fields.remove(at: index)
            return append(trace.value(span: self.span(ofHop: 0)), TraceContext.parentName, to: &fields)
        }
    }

    /// Removes the fields from trailers, where some servers look for them, too.
    func removeNames(from trailers: inout HeaderFields) { own.ofRequests.removeNames(from: &trailers) }

    private func append(_ value: [UInt8], _ name: StaticString, to fields: inout HeaderFields) {
        fields.append(name: name.bytes, value: value.span)
    }

    /// The head of a response with the id of this request: a stored response has that of another one.
    func marked(_ head: borrowing ResponseHead) -> ResponseHead {
        var marked = copy head
        guard let id, let name = own.idName else { return marked }
        marked.changeFields { fields in
            own.ofResponses.removeNames(from: &fields)
            // An origin that names the field in Connection would take it from the client.
            fields.removeFromConnection(name.span)
            fields.append(name: name.span, value: id.span)
        }
        return marked
    }

    /// A 1xx head without the field: the id is in the response that follows.
    func unmarked(_ head: borrowing ResponseHead) -> ResponseHead {
        var unmarked = copy head
        if id != nil { unmarked.changeFields { own.ofResponses.removeNames(from: &$0) } }
        return unmarked
    }

    /// Trailers of a response without the field, which some clients would add to the head's.
    func unmarked(_ trailers: borrowing HeaderFields) -> HeaderFields {
        var unmarked = copy trailers
        if id != nil { own.ofResponses.removeNames(from: &unmarked) }
        return unmarked
    }

    /// Writes the id into the head of a response of the proxy's own.
    func write<Output: HeadOutput & ~Copyable>(to output: inout Output) {
        if let id, let name = own.idName { output.append(name: name.span, id) }
    }

    // MARK: Log

    /// Writes members of a line of the task log. Its name is its own: a buffer takes heads, too.
    func writeMembers(to line: inout ByteBuffer) {
        if let trace {
            var text: [UInt8] = []
            text.append(trace.traceID)
            line.append(",\"traceId\":\"")
            line.append(text)
            text.removeAll(keepingCapacity: true)
            text.append(hexadecimal: span)
            line.append("\",\"spanId\":\"")
            line.append(text)
            line.append("\"")
        }
        if let id {
            // An id has nothing that JSON escapes.
            line.append(",\"requestId\":\"")
            line.append(id)
            line.append("\"")
        }
    }
}
