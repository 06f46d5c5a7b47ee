import HTTPCore

/// The fields of a client's request in the form for the origin.
enum OriginFields {
    /// Copies the end-to-end fields in their order, then adds Via (RFC 9110, section 7.6). The session adds Host and
    /// framing.
    ///
    /// - Parameters:
    ///   - via: this proxy's own member, as `ViaField.value` makes it; empty for none.
    ///   - keepsExpectation: whether the origin decides about the body (`Expect: 100-continue`).
    ///   - rewriter: gives the origin its own URLs.
    static func make(
        from head: borrowing RequestHead,
        via: [UInt8],
        keepsExpectation: Bool = false,
        rewriter: RequestRewriter? = nil
    ) -> HeaderFields {
        var fields = HeaderFields()
        write(from: head, via: via, keepsExpectation: keepsExpectation, rewriter: rewriter, to: &fields)
        return fields
    }

    /// The same into `fields`, which is empty and may have memory.
    static func write(
        from head: borrowing RequestHead,
        via: [UInt8],
        keepsExpectation: Bool,
        rewriter: RequestRewriter? = nil,
        to fields: inout HeaderFields
    ) {
        // Via, and TE with Connection, beside the client's.
        fields.reserveCapacity(count: head.fields.count + 3, bytes: head.byteCount + via.count + 64)
        for index in 0..<head.fields.count {
            let id = head.fields.id(at: index)
            switch id {
            case .host, .contentLength: continue
            case .expect where !keepsExpectation: continue
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
        if head.minorVersion >= 1, head.fields.acceptsTrailers {
            fields.append(.te, "trailers")
            fields.append(.connection, "TE")
        }
        if !via.isEmpty { fields.append(.via, via.span) }
    }

    /// Whether a Via field names this process (rule 45).
    static func comesFromUs(_ fields: borrowing HeaderFields, pseudonym: [UInt8]) -> Bool {
        var place = fields.first(.via)
        while let index = place {
            let value = fields.value(at: index)
            let last = value.count - pseudonym.count
            if last >= 0 {
                for start in 0...last where value.extracting(start..<(start + pseudonym.count)).equals(pseudonym.span) {
                    return true
                }
            }
            place = fields.next(.via, after: index)
        }
        return false
    }
}
