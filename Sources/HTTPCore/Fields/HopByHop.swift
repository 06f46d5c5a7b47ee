// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// The hop-by-hop fields, which belong to one connection and are not forwarded (rule 44; RFC 9110 7.6.1).
extension HeaderFields {
    /// Whether the field at `index` is not forwarded. TE is one of these: if `acceptsTrailers`, a new `TE: trailers` is
    /// made.
    ///
    /// A Connection field removes only names that this program does not know: a Connection that names Host,
    /// Content-Length, Authorization, Forwarded or another end-to-end field is an attempt to hide it from the next
    /// recipient.
    package func isHopByHop(at index: Int, _ options: ConnectionOptions) -> Bool {
        switch id(at: index) {
        case .connection, .keepAlive, .proxyConnection, .proxyAuthorization, .proxyAuthenticate,
            .proxyAuthenticationInfo, .te, .transferEncoding, .upgrade, .http2Settings:
            return true
        case .other: break
        default: return false
        }
        let name = name(at: index)
        if name.hasPrefixIgnoringCase("proxy-") { return true }
        guard options.namesFields, !name.hasPrefixIgnoringCase("x-forwarded-") else { return false }
        return isNamedInConnection(name)
    }

    /// Writes the fields that are forwarded, each with its CRLF; neighbours are copied together.
    ///
    /// - Parameter omitted: is not written either.
    package func serializeEndToEnd(
        _ options: ConnectionOptions,
        omitting omitted: FieldName? = nil,
        into buffer: inout ByteBuffer
    ) {
        if isContiguous, !names.intersects(Self.perhapsHopByHop), omitted.map(names.contains) != true {
            return buffer.append(storage.bytes(0..<storage.count))
        }
        let perhaps = Self.perhapsHopByHop
        var lines = 0..<0
        for index in entries.indices {
            let entry = entries[index]
            if entry.id == omitted || perhaps.contains(entry.id) && isHopByHop(at: index, options) { continue }
            let line = entry.line
            if line.lowerBound == lines.upperBound {
                lines = lines.lowerBound..<line.upperBound
            } else {
                buffer.append(storage.bytes(lines))
                lines = line
            }
        }
        buffer.append(storage.bytes(lines))
    }

    /// The names that `isHopByHop` may be true for. For others it need not be asked.
    package static let perhapsHopByHop: FieldNameSet = [
        .connection, .keepAlive, .proxyConnection, .proxyAuthorization, .proxyAuthenticate, .proxyAuthenticationInfo,
        .te, .transferEncoding, .upgrade, .http2Settings, .other,
    ]

    private func isNamedInConnection(_ name: borrowing Span<UInt8>) -> Bool {
        var found = first(.connection)
        while let index = found {
            let value = value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                if value.extracting(range).equalsIgnoringCase(name) { return true }
            }
            found = next(.connection, after: index)
        }
        return false
    }

    /// Takes a name out of the Connection fields: a field of this name is then no field of the connection.
    package mutating func removeFromConnection(_ name: borrowing Span<UInt8>) {
        guard isNamedInConnection(name) else { return }
        var kept: [UInt8] = []
        while let index = first(.connection) {
            let value = Array(copying: value(at: index))
            var members = ListMembers()
            while let range = members.next(in: value.span) {
                if value.span.extracting(range).equalsIgnoringCase(name) { continue }
                kept += kept.isEmpty ? value[range] : Array(", ".utf8) + value[range]
            }
            remove(at: index)
        }
        let connection: StaticString = "Connection"
        if !kept.isEmpty { append(name: connection.bytes, value: kept.span) }
    }

    /// Whether TE has the member `trailers` (RFC 9110 10.1.4).
    package var acceptsTrailers: Bool { hasMember("trailers", of: .te) }

    /// Whether a field of that name has `member` in its list, ignoring parameters.
    package func hasMember(_ member: StaticString, of id: FieldName) -> Bool {
        var found = first(id)
        while let index = found {
            let value = value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                let text = value.extracting(range)
                let end = text.firstIndex(of: ASCII.semicolon) ?? text.count
                if text.extracting(text.trimmingBlanks(0..<end)).equalsIgnoringCase(member) { return true }
            }
            found = next(id, after: index)
        }
        return false
    }
}
