// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// The fields that sign a request to AWS: from the request as it goes out, and the keys.
struct AWSFields {
    private static let contentDigest: StaticString = "X-Amz-Content-SHA256"
    /// The fields that a client has written that signs for itself, apart from the digest of its body, which the server compares.
    static let ofClient = ["X-Amz-Date", "X-Amz-Security-Token"]

    /// Whether a signature has to hold the digest of a body of which the client has not said one.
    static func needsBody(_ fields: borrowing HeaderFields, _ scope: AWSScope) -> Bool {
        // S3 takes bodies that are not signed, over TLS.
        !scope.isS3 && fields.first(named: contentDigest.bytes) == nil
    }

    /// Whether the client signs each chunk of its body with its own key: such a body cannot be signed with another.
    static func signsChunks(_ fields: borrowing HeaderFields) -> Bool {
        guard let index = fields.first(named: contentDigest.bytes) else { return false }
        return AWSSignature.Payload(ofClient: fields.value(at: index)) == nil
    }

    /// Whether a query holds what AWS takes for a signature of the client's own keys, or for a part of one: a server that prefers it
    /// would take the request for another account's.
    ///
    /// - Parameter target: path and query in origin form.
    static func hasSignature(inQueryOf target: borrowing Span<UInt8>) -> Bool {
        guard let mark = target.firstIndex(of: UInt8(ascii: "?")) else { return false }
        var name: [UInt8] = []
        var isName = true
        var position = mark + 1
        while position < target.count {
            let byte = target[position]
            if byte == UInt8(ascii: "&") || byte == UInt8(ascii: ";") {
                if ofSignature.contains(name) { return true }
                name = []
                isName = true
            } else if byte == UInt8(ascii: "=") {
                isName = false
            } else if isName, name.count <= longestOfSignature {
                if byte == UInt8(ascii: "%"), position + 2 < target.count,
                    let high = ASCII.hexadecimalValue(target[position + 1]),
                    let low = ASCII.hexadecimalValue(target[position + 2])
                {
                    name.append(ASCII.lowercased(high << 4 | low))
                    position += 2
                } else {
                    name.append(ASCII.lowercased(byte))
                }
            }
            position += 1
        }
        return ofSignature.contains(name)
    }

    /// Parameters of a query that carry a signature or keys, of Version 4 and of Version 2; in lower case.
    private static let ofSignature = [
        "x-amz-algorithm", "x-amz-credential", "x-amz-signature", "x-amz-security-token", "awsaccesskeyid",
    ].map { Array($0.utf8) }
    private static let longestOfSignature = ofSignature.map(\.count).max() ?? 0

    /// - Parameters:
    ///   - digest: SHA-256 of the body, where `needsBody`.
    ///   - now: seconds since 1970.
    /// - Returns: the signature, with which whoever has it could send the request once more for some minutes.
    @discardableResult
    static func append(
        to fields: inout HeaderFields,
        _ keys: AWSKeys,
        _ scope: AWSScope,
        of request: borrowing SessionRequest,
        digest: [UInt8]?,
        at now: Int64
    ) -> SecretBytes {
        let time = AWSSignature.amzDate(now)
        fields.append(name: ("X-Amz-Date" as StaticString).bytes, value: time.span)
        if let session = keys.session {
            fields.append(name: ("X-Amz-Security-Token" as StaticString).bytes, value: session.bytes)
        }
        let payload: AWSSignature.Payload
        if let index = request.fields.first(named: contentDigest.bytes) {
            payload = AWSSignature.Payload(ofClient: request.fields.value(at: index)) ?? .unsigned
        } else if scope.isS3 {
            payload = request.bodyLength.hasBody ? .unsigned : .empty
            let text = payload.text
            fields.append(name: contentDigest.bytes, value: text.span)
        } else {
            payload = digest.map { .digest($0) } ?? .empty
        }
        var signed = HeaderFields()
        // As `Host` is sent.
        let endpoint = request.endpoint
        let host = Array((endpoint.port == 443 ? endpoint.host.authorityText : endpoint.authorityText).utf8)
        signed.append(.host, host.span)
        for index in 0..<request.fields.count where isSigned(request.fields.name(at: index)) {
            signed.append(contentsOf: request.fields, at: index)
        }
        for index in 0..<fields.count where isSigned(fields.name(at: index)) {
            signed.append(contentsOf: fields, at: index)
        }
        var method = ByteBuffer()
        request.method.append(to: &method)
        let signature = AWSSignature(
            method: method.bytes,
            target: request.target.span,
            fields: signed,
            payload: payload,
            keys: keys,
            scope: scope,
            time: time,
            normalizesPath: !scope.isS3
        )
        fields.append(.authorization, signature.authorization.span)
        return SecretBytes(Array(signature.authorization.suffix(AWSSignature.count)))
    }

    /// AWS wants `Host` and every field of its own signed. Proxies behind this one may change others.
    private static func isSigned(_ name: borrowing Span<UInt8>) -> Bool {
        name.hasPrefixIgnoringCase("x-amz-") || name.equalsIgnoringCase("content-type")
    }
}
