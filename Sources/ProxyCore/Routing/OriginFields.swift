import HTTPCore

/// The fields of a client's request as they go to the origin.
enum OriginFields {
    /// End-to-end fields in their order, then Via (RFC 9110, section 7.6). Host and framing are the session's to make.
    ///
    /// - Parameters:
    ///   - via: this proxy's own member, as `ViaField.value` makes it.
    ///   - keepsExpectation: the origin is to say whether the body may come.
    static func make(
        from head: borrowing RequestHead,
        via: [UInt8],
        keepsExpectation: Bool = false
    ) -> HTTPFields {
        var fields = HTTPFields()
        for index in 0..<head.fields.count {
            let id = head.fields.id(at: index)
            switch id {
            case .host, .contentLength: continue
            case .expect where !keepsExpectation: continue
            case .maxForwards where head.method == .options:
                // RFC 9110, section 7.6.2; the one that arrives with 0 goes no further than here.
                if let left = head.maxForwards, left > 0 {
                    fields.append(.maxForwards, decimal: left - 1)
                    continue
                }
            default: break
            }
            if head.fields.isHopByHop(at: index, head.connection) { continue }
            fields.append(contentsOf: head.fields, at: index)
        }
        // Trailers go on to HTTP/1.1 clients; TE is for one connection, and made anew (RFC 9110, section 10.1.4).
        if head.minorVersion >= 1, head.fields.acceptsTrailers {
            fields.append(.te, "trailers")
            fields.append(.connection, "TE")
        }
        fields.append(.via, via.span)
        return fields
    }

    /// Whether a Via field names this process (rule 45).
    static func comesFromUs(_ fields: borrowing HTTPFields, pseudonym: [UInt8]) -> Bool {
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
