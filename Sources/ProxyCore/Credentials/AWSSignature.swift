// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore
package import ProxyConfiguration
import ServerTrust

/// Signature Version 4 of AWS, in the field `Authorization`
/// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
///
/// A value: from the parts of a request to the fields that are added to it.
package struct AWSSignature: Sendable {
    /// The part of the body that is signed.
    package enum Payload: Sendable {
        /// Its SHA-256.
        case digest([UInt8])
        /// Nothing (`UNSIGNED-PAYLOAD`), which S3 takes over TLS.
        case unsigned
        /// The value of the client's own `X-Amz-Content-SHA256`, which is sent on: 64 hexadecimal digits, `UNSIGNED-PAYLOAD`, or
        /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`.
        case named([UInt8])

        /// The SHA-256 of no body.
        package static let empty = Payload.digest(SecretDigest.sha256([]))

        /// The payload of a request whose client has signed one already; nil for signatures of each chunk, which are made with
        /// the client's own key and cannot be taken over.
        package init?(ofClient value: borrowing Span<UInt8>) {
            let isDigest =
                value.count == 64
                && (0..<64).allSatisfy { ASCII.hexadecimalValue(value[$0]) != nil }
            guard isDigest || value.equals("UNSIGNED-PAYLOAD") || value.equals("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            else { return nil }
            self = .named([UInt8](copying: value))
        }

        /// The text in the canonical request and in `X-Amz-Content-SHA256`.
        var text: [UInt8] {
            switch self {
            case .digest(let digest): AWSSignature.hexadecimal(digest)
            case .unsigned: Array("UNSIGNED-PAYLOAD".utf8)
            case .named(let value): value
            }
        }
    }

    /// The number of bytes of a signature, at the end of the value of `Authorization`.
    static let count = 64

    package let canonicalRequest: [UInt8]
    package let stringToSign: [UInt8]
    /// The value of `Authorization`.
    package let authorization: [UInt8]

    /// Signs a request as it goes out.
    ///
    /// - Parameters:
    ///   - target: path and query, as in the request line.
    ///   - fields: those that are signed; `host` and `x-amz-date` have to be among them. Several lines of one name are one list.
    ///   - time: of `X-Amz-Date`, as `amzDate` gives it.
    ///   - normalizesPath: whether dot segments and empty segments are removed and the path is encoded once more, as every
    ///     service but S3 does. S3 encodes the name that the path stands for.
    package init(
        method: borrowing Span<UInt8>,
        target: borrowing Span<UInt8>,
        fields: borrowing HeaderFields,
        payload: Payload,
        keys: AWSKeys,
        scope: AWSScope,
        time: [UInt8],
        normalizesPath: Bool
    ) {
        let mark = target.firstIndex(of: UInt8(ascii: "?"))
        let path = [UInt8](copying: target.extracting(0..<(mark ?? target.count)))
        let query = mark.map { [UInt8](copying: target.extracting(($0 + 1)..<target.count)) } ?? []
        let (lines, names) = Self.canonicalFields(fields)

        var request = [UInt8](copying: method)
        request.append(Self.newline)
        let canonical = normalizesPath ? Self.normalized(path) : Self.decoded(path[...], plusIsSpace: false)
        request += Self.encoded(canonical, keeping: UInt8(ascii: "/"))
        request.append(Self.newline)
        request += Self.canonicalQuery(query)
        request.append(Self.newline)
        request += lines
        request.append(Self.newline)
        request += names
        request.append(Self.newline)
        request += payload.text
        canonicalRequest = request

        let date = Array(time.prefix(8))
        let parts = [date, Array(scope.region.utf8), Array(scope.service.utf8), Array("aws4_request".utf8)]
        let scopeText = Array(parts.joined(separator: [UInt8(ascii: "/")]))
        var text = Array("AWS4-HMAC-SHA256\n".utf8)
        text += time
        text.append(Self.newline)
        text += scopeText
        text.append(Self.newline)
        text += Self.hexadecimal(SecretDigest.sha256(request))
        stringToSign = text

        var key = Array("AWS4".utf8)
        key.append(keys.secret.bytes)
        for part in parts {
            let next = SecretDigest.hmac(part.span, key: key.span)
            key.wipe()
            key = next
        }
        let signature = SecretDigest.hmac(text.span, key: key.span)
        key.wipe()

        var authorization = Array("AWS4-HMAC-SHA256 Credential=".utf8)
        authorization.append(keys.identifier.bytes)
        authorization.append(UInt8(ascii: "/"))
        authorization += scopeText
        authorization += Array(", SignedHeaders=".utf8)
        authorization += names
        authorization += Array(", Signature=".utf8)
        authorization += Self.hexadecimal(signature)
        self.authorization = authorization
    }

    /// `20150830T123600Z`.
    ///
    /// - Parameter date: seconds since 1970.
    package static func amzDate(_ date: Int64) -> [UInt8] {
        Timestamp.text(unixSeconds: date).utf8.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: ":") }
    }

    // MARK: Canonical form

    private static let newline = UInt8(ascii: "\n")

    private static func canonicalFields(_ fields: borrowing HeaderFields) -> (lines: [UInt8], names: [UInt8]) {
        var order: [[UInt8]] = []
        var values: [[UInt8]: [UInt8]] = [:]
        for index in 0..<fields.count {
            let name = [UInt8](copying: fields.name(at: index)).map(ASCII.lowercased)
            let value = trimmed(fields.value(at: index))
            if let former = values[name] {
                values[name] = former + [UInt8(ascii: ",")] + value
            } else {
                order.append(name)
                values[name] = value
            }
        }
        order.sort { $0.lexicographicallyPrecedes($1) }
        var lines: [UInt8] = []
        for name in order {
            lines += name
            lines.append(UInt8(ascii: ":"))
            lines += values[name] ?? []
            lines.append(newline)
        }
        return (lines, Array(order.joined(separator: [UInt8(ascii: ";")])))
    }

    /// Without white space at the ends, and with one space for several inside.
    private static func trimmed(_ value: borrowing Span<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        var isSpace = false
        for index in 0..<value.count {
            let byte = value[index]
            if byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") {
                isSpace = true
                continue
            }
            if isSpace, !text.isEmpty { text.append(UInt8(ascii: " ")) }
            isSpace = false
            text.append(byte)
        }
        return text
    }

    /// The parameters in the order of their encoded names and values.
    private static func canonicalQuery(_ query: [UInt8]) -> [UInt8] {
        var pairs: [(name: [UInt8], value: [UInt8])] = []
        for part in query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: true) {
            let mark = part.firstIndex(of: UInt8(ascii: "="))
            let name = part[..<(mark ?? part.endIndex)]
            let value = mark.map { part[part.index(after: $0)...] } ?? []
            pairs.append((encoded(decoded(name)), encoded(decoded(value))))
        }
        pairs.sort { one, other in
            one.name == other.name
                ? one.value.lexicographicallyPrecedes(other.value) : one.name.lexicographicallyPrecedes(other.name)
        }
        return Array(
            pairs.map { $0.name + [UInt8(ascii: "=")] + $0.value }.joined(separator: [UInt8(ascii: "&")])
        )
    }

    /// Percent-encoding decoded.
    ///
    /// - Parameter plusIsSpace: as in a query.
    private static func decoded(_ text: ArraySlice<UInt8>, plusIsSpace: Bool = true) -> [UInt8] {
        var bytes: [UInt8] = []
        var position = text.startIndex
        while position < text.endIndex {
            if text[position] == UInt8(ascii: "%"), position + 2 < text.endIndex,
                let high = ASCII.hexadecimalValue(text[position + 1]),
                let low = ASCII.hexadecimalValue(text[position + 2])
            {
                bytes.append(high << 4 | low)
                position += 3
            } else {
                bytes.append(plusIsSpace && text[position] == UInt8(ascii: "+") ? UInt8(ascii: " ") : text[position])
                position += 1
            }
        }
        return bytes
    }

    /// Everything but unreserved characters percent-encoded, with capital letters.
    private static func encoded(_ bytes: [UInt8], keeping kept: UInt8? = nil) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count)
        for byte in bytes {
            if ASCII.isUnreserved(byte) || byte == kept {
                text.append(byte)
            } else {
                text.append(UInt8(ascii: "%"))
                text.append(ASCII.hexDigit(byte >> 4))
                text.append(ASCII.hexDigit(byte & 15))
            }
        }
        return text
    }

    /// Without dot segments (RFC 3986, section 5.2.4) and empty ones; a slash at the end stays.
    private static func normalized(_ path: [UInt8]) -> [UInt8] {
        var segments: [ArraySlice<UInt8>] = []
        let parts = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true)
        for part in parts {
            switch Array(part) {
            case [UInt8(ascii: ".")]: break
            case [UInt8(ascii: "."), UInt8(ascii: ".")]: _ = segments.popLast()
            default: segments.append(part)
            }
        }
        var text = [UInt8(ascii: "/")] + segments.joined(separator: [UInt8(ascii: "/")])
        if path.last == UInt8(ascii: "/"), !segments.isEmpty { text.append(UInt8(ascii: "/")) }
        return text
    }

    fileprivate static func hexadecimal(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            text.append(ASCII.lowercased(ASCII.hexDigit(byte >> 4)))
            text.append(ASCII.lowercased(ASCII.hexDigit(byte & 15)))
        }
        return text
    }
}

extension AWSScope {
    /// Whether requests are signed as those for S3: the path is encoded once, and a field says what of the body is signed. S3 Tables,
    /// Vectors and Files (`s3tables` and so on) are services like all others.
    var isS3: Bool { ["s3", "s3express", "s3-outposts", "s3-object-lambda"].contains(service) }
}
