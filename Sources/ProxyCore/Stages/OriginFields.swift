// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The fields of a client's request in the form for the origin.
enum OriginFields {
    /// This proxy's name in a request, by which it finds a loop.
    struct Mark {
        fileprivate let field: PreparedField

        init(for head: borrowing RequestHead, on route: Route, _ services: WorkerServices) {
            field = services.marks.field(for: head, addsVia: route.addsVia)
        }

        private init(_ field: PreparedField) { self.field = field }

        /// - Parameter member: of Via, as `ViaField.value` makes it (RFC 9110, section 7.6.3).
        static func via(_ member: [UInt8]) -> Mark { Mark(RequestMarks.via(member)) }

        static func cdnLoop(_ pseudonym: [UInt8]) -> Mark { Mark(RequestMarks.cdnLoop(pseudonym)) }
    }

    /// Copies the end-to-end fields in their order, then adds this proxy's mark (RFC 9110, section 7.6). The session adds
    /// Host and framing.
    ///
    /// - Parameters:
    ///   - keepsExpectation: whether the origin decides about the body (`Expect: 100-continue`).
    ///   - rewriter: gives the origin its own URLs.
    static func make(
        from head: borrowing RequestHead,
        mark: Mark,
        keepsExpectation: Bool = false,
        rewriter: RequestRewriter? = nil
    ) -> HeaderFields {
        var fields = HeaderFields()
        write(from: head, mark: mark, keepsExpectation: keepsExpectation, rewriter: rewriter, to: &fields)
        return fields
    }

    /// The same into `fields`, which is empty and may have memory.
    static func write(
        from head: borrowing RequestHead,
        mark: Mark,
        keepsExpectation: Bool,
        rewriter: RequestRewriter? = nil,
        to fields: inout HeaderFields
    ) {
        // The mark, and TE with Connection, beside the client's.
        fields.reserveCapacity(count: head.fields.count + 3, bytes: head.byteCount + 128)
        for index in 0..<head.fields.count {
            let id = head.fields.id(at: index)
            switch id {
            case .host, .contentLength: continue
            case .expect:
                // In the one form that all servers know: some take no list, and no second line.
                if keepsExpectation, !fields.contains(.expect) { fields.append(.expect, "100-continue") }
                continue
            case .maxForwards where head.method == .options:
                // RFC 9110, section 7.6.2. A request that arrives with 0 is not forwarded.
                if let left = head.maxForwards, left > 0 {
                    fields.append(.maxForwards, decimal: left - 1)
                    continue
                }
            default: break
            }
            if head.fields.isHopByHop(at: index, head.connection) { continue }
            if let rewriter, rewriter.rewrite(id, at: index, of: head.fields, to: &fields) { continue }
            fields.append(contentsOf: head.fields, at: index)
        }
        // Trailers are forwarded to HTTP/1.1 clients. TE belongs to one connection and is made for each (RFC 9110,
        // section 10.1.4).
        if head.fields.contains(.te), head.minorVersion >= 1, head.fields.acceptsTrailers {
            fields.append(.te, "trailers")
            fields.append(.connection, "TE")
        }
        fields.append(mark.field)
    }

    /// Whether a request has this process's name already (rule 45): a redirect may have led it from a host with Via to one without.
    static func comesFromUs(_ fields: borrowing HeaderFields, pseudonym: [UInt8]) -> Bool {
        var found = fields.first(.via)
        while let index = found {
            if holds(fields.value(at: index), pseudonym) { return true }
            found = fields.next(.via, after: index)
        }
        for index in 0..<fields.count where fields.id(at: index) == .other {
            if fields.name(at: index).equalsIgnoringCase(RequestMarks.cdnLoop.bytes),
                holds(fields.value(at: index), pseudonym)
            {
                return true
            }
        }
        return false
    }

    private static func holds(_ value: borrowing Span<UInt8>, _ pseudonym: [UInt8]) -> Bool {
        guard value.count >= pseudonym.count else { return false }
        for start in 0...(value.count - pseudonym.count)
        where value.extracting(start..<(start + pseudonym.count)).equals(pseudonym.span) {
            return true
        }
        return false
    }
}
