// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
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
