// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The stored fields of a response (RFC 9111 3.1), and their update by a later response (3.2).
enum StorableFields {
    /// Fields that each use makes anew.
    private static let ownFields: FieldNameSet = [.age, .contentLength, .proxyStatus, .trailer]

    /// Fields that a later response must not change, because the stored body depends on them, or they are its own.
    private static let fixed: FieldNameSet = [.contentEncoding, .contentRange, .etag, .contentLength, .age]

    /// All fields, unknown ones included, except those of one connection or one proxy, and those that `private` (in a
    /// shared cache) and `no-cache` name.
    static func kept(of response: HeaderFields, _ control: CacheControl, _ options: CacheOptions) -> HeaderFields {
        let connection = ConnectionOptions(response)
        var kept = HeaderFields()
        // Stored fields stay long: their memory is no larger than they are.
        var bytes = 0
        for index in 0..<response.count { bytes += response.line(at: index).count }
        kept.reserveCapacity(count: response.count, bytes: bytes)
        let withheld = names(control.noCache) + (options.isShared ? names(control.isPrivate) : [])
        for index in 0..<response.count {
            if ownFields.contains(response.id(at: index)) || response.isHopByHop(at: index, connection) { continue }
            if !withheld.isEmpty, isNamed(response.name(at: index), withheld) { continue }
            kept.append(contentsOf: response, at: index)
        }
        return kept
    }

    private static func names(_ scope: CacheControl.Scope?) -> [[UInt8]] {
        guard case .fields(let names)? = scope else { return [] }
        return names.map { Array($0.utf8) }
    }

    private static func isNamed(_ name: borrowing Span<UInt8>, _ names: [[UInt8]]) -> Bool {
        for other in names where name.equalsIgnoringCase(other.span) { return true }
        return false
    }

    /// The stored fields after an update by a 304 or a HEAD: each new field replaces all fields of its name (3.2),
    /// except those that the stored body depends on.
    static func updated(
        _ stored: HeaderFields,
        by response: HeaderFields,
        _ control: CacheControl,
        _ options: CacheOptions
    ) -> HeaderFields {
        var provided = kept(of: response, control, options)
        // As in a response: other users must not get one user's cookie.
        if options.isShared, !GoverningControl(response, options).isForAll { provided.remove(.setCookie) }
        // Content-MD5 (RFC 2616 14.15) goes with the body, too.
        func isFixed(_ fields: HeaderFields, _ index: Int) -> Bool {
            fixed.contains(fields.id(at: index)) || fields.name(at: index).equalsIgnoringCase("content-md5")
        }
        var updated = HeaderFields()
        for index in 0..<stored.count {
            let isReplaced = provided.first(named: stored.name(at: index)) != nil && !isFixed(stored, index)
            if !isReplaced { updated.append(contentsOf: stored, at: index) }
        }
        for index in 0..<provided.count where !isFixed(provided, index) {
            updated.append(contentsOf: provided, at: index)
        }
        return updated
    }
}
