// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The checks that need all fields: Host, framing, connection, expectations.
extension RequestHead {
    /// - Parameter strictHost: whether a Host that differs from the target's authority is refused.
    mutating func conclude(strictHost: Bool) -> RequestFault? {
        if let fault = concludeHost(isStrict: strictHost) { return fault }
        if let fault = concludeFraming() { return fault }
        connection = ConnectionOptions(fields)
        if connection.isTooLong { return .connectionTooLong }
        keepAlive = connection.persists(minorVersion: minorVersion)
        wantsUpgrade = connection.upgrade && minorVersion >= 1 && fields.contains(.upgrade)
        if isWebSocketURL, !wantsUpgrade { return .schemeUnsupported }
        if !credentialsRange.isEmpty, !fields.contains(.authorization) {
            fields.append(.authorization, Array(storage[credentialsRange]).span)
        }
        if let fault = concludeExpectation() { return fault }
        return method == .trace ? .methodTrace : nil
    }

    private mutating func concludeHost(isStrict: Bool) -> RequestFault? {
        guard let index = fields.first(.host) else { return minorVersion == 0 ? nil : .hostMissing }
        if fields.next(.host, after: index) != nil { return .hostRepeated }
        // Usually the client writes the target's authority once more.
        if form == .absolute, fields.value(at: index).equals(storage.span.extracting(rawAuthorityRange)) { return nil }
        let start = storage.count
        fields.appendValue(at: index, to: &storage)
        let range = start..<storage.count

        let authority: Authority
        switch Authority.parse(storage.span.extracting(range)) {
        case .success(let found): authority = found
        case .failure(.userinfo): return .userinfo
        case .failure(.malformed): return .hostFieldInvalid
        case .failure(.port): return .portInvalid
        }
        let written = start..<start &+ authority.host.upperBound
        let kind: Host.Kind
        let normal: Range<Int>
        do {
            (kind, normal) = try Host.normalize(written, of: &storage)
        } catch {
            return error == .ambiguousNumber ? .hostAmbiguousNumber : .hostFieldInvalid
        }

        switch form {
        case .origin, .asterisk:
            hostKind = kind
            explicitPort = authority.port
            rawHostRange = written
            hostRange = normal
            return nil
        case .absolute, .authority:
            // The target takes precedence, and replaces the client's Host (rule 20): nobody reads that one. Many clients
            // omit the port in the Host of a CONNECT.
            let isSamePort =
                form == .absolute
                ? authority.port ?? scheme?.defaultPort == port
                : authority.port == nil || authority.port == explicitPort
            let isSame =
                isSamePort && kind == hostKind
                && storage.span.extracting(normal).equals(storage.span.extracting(hostRange))
            storage.removeLast(storage.count - start)
            if isSame { return nil }
            if isStrict { return .hostDiffers }
            fields.set(.host, Array(storage[rawAuthorityRange]).span)
            return nil
        }
    }

    private mutating func concludeFraming() -> RequestFault? {
        let length = fields.first(.contentLength)
        if let coding = fields.first(.transferEncoding) {
            if minorVersion == 0 { return .transferEncodingInVersion10 }
            if length != nil { return .lengthAndTransferEncoding }
            if fields.next(.transferEncoding, after: coding) != nil { return .transferEncodingRepeated }
            switch FramingFields.transferEncoding(fields.value(at: coding)) {
            case .chunked: framing = .chunked
            case .finalNotChunked: return .transferEncodingNotChunked
            case .unknown: return .transferCodingUnknown
            case .invalid: return .transferEncodingInvalid
            }
        } else if let length {
            if fields.next(.contentLength, after: length) != nil { return .contentLengthRepeated }
            switch FramingFields.contentLength(fields.value(at: length)) {
            case .value(let count): framing = .length(count)
            case .invalid: return .contentLengthInvalid
            case .list: return .contentLengthRepeated
            case .leadingZero: return .contentLengthLeadingZero
            case .overflow: return .contentLengthOverflow
            }
        }
        return nil
    }

    private mutating func concludeExpectation() -> RequestFault? {
        var found = fields.first(.expect)
        while let index = found {
            var members = ListMembers()
            while let member = members.next(in: fields.value(at: index)) {
                // A list may have empty members, and those alone.
                if member.isEmpty { continue }
                guard fields.value(at: index).extracting(member).equalsIgnoringCase("100-continue") else {
                    return .expectationUnknown
                }
                // A client of HTTP/1.0 does not understand 100, and a client without a body does not wait for it (RFC 9110
                // 10.1.1).
                if minorVersion >= 1, framing.hasBody { expectsContinue = true }
            }
            found = fields.next(.expect, after: index)
        }
        return nil
    }
}
