// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
package import ServerTrust

/// Makes OCSP responses (RFC 6960), valid and unusual ones.
package struct OCSPResponseBuilder: Sendable {
    package enum Status: Sendable {
        case good
        case revoked
        case unknown
    }

    /// The status of one certificate.
    package struct SingleResponse: Sendable {
        package var leaf: Certificate
        /// The issuer whose name and key identify the certificate.
        package var issuer: Certificate
        package var status = Status.good
        /// Seconds since 1970.
        package var thisUpdate: Int64
        /// `nil` leaves it out.
        package var nextUpdate: Int64?
        /// The digest of the identifier.
        package var digest = "SHA1"
        /// Another serial number than the leaf's, the highest byte first.
        package var serial: [UInt8]?
        package var hasCriticalExtension = false
        /// Texts in the place of both times, which need not be times.
        package var times: (this: String, next: String)?
    }

    package var singleResponses: [SingleResponse]
    /// The signer; its certificate is in the response unless `sendsSigner` is false.
    package var signer: Identity
    package var sendsSigner = true
    /// Further certificates, besides the signer's.
    package var others: [Certificate] = []
    package var signatureDigest = "SHA256"
    /// 0 means successful; a response with another status has no further content (RFC 6960, section 4.2.1).
    package var responseStatus: Int32 = 0
    package var hasCriticalExtension = false

    /// A good response about a server of a PKI, signed by its issuer.
    ///
    /// - Parameter validity: from `thisUpdate` to `nextUpdate`, in seconds since 1970.
    package init(_ leaf: Certificate, issuer: Identity, validity: Range<Int64>) {
        singleResponses = [
            SingleResponse(
                leaf: leaf,
                issuer: issuer.certificate,
                thisUpdate: validity.lowerBound,
                nextUpdate: validity.upperBound
            )
        ]
        signer = issuer
        // CAs do the same, because clients already have the issuer's certificate.
        sendsSigner = false
    }

    /// A copy with one change.
    package func with(_ change: (inout OCSPResponseBuilder) throws -> Void) rethrows -> OCSPResponseBuilder {
        var copy = self
        try change(&copy)
        return copy
    }

    package struct Failure: Error {
        package var call: String
    }

    package func der() throws -> [UInt8] {
        guard responseStatus == 0 else { return try Self.encode(nil, status: responseStatus) }
        guard let basic = OCSP_BASICRESP_new() else { throw Failure(call: "OCSP_BASICRESP_new") }
        defer { OCSP_BASICRESP_free(basic) }
        for response in singleResponses { try Self.add(response, to: basic) }
        if hasCriticalExtension {
            try Self.withUnknownExtension {
                guard OCSP_BASICRESP_add_ext(basic, $0, -1) == 1 else { throw Failure(call: "ext") }
            }
        }
        for certificate in others {
            try Self.withCertificate(certificate) { OCSP_basic_add1_cert(basic, $0) }
        }
        var key: OpaquePointer?
        signer.key.privateKeyDER.withUnsafeBufferPointer { bytes in
            var place = bytes.baseAddress
            key = d2i_AutoPrivateKey(nil, &place, bytes.count)
        }
        guard let key else { throw Failure(call: "d2i_AutoPrivateKey") }
        defer { EVP_PKEY_free(key) }
        let digest = signer.key.kind == .ed25519 ? nil : EVP_get_digestbyname(signatureDigest)
        try Self.withCertificate(signer.certificate) {
            OCSP_basic_sign(basic, $0, key, digest, nil, sendsSigner ? 0 : UInt(OCSP_NOCERTS))
        }
        return try Self.encode(basic, status: 0)
    }

    private static func add(_ response: SingleResponse, to basic: OpaquePointer) throws {
        var identifier: OpaquePointer?
        try withCertificate(response.leaf) { leaf in
            try withCertificate(response.issuer) { issuer in
                identifier = OCSP_cert_to_id(EVP_get_digestbyname(response.digest), leaf, issuer)
                return identifier == nil ? 0 : 1
            }
            return 1
        }
        defer { OCSP_CERTID_free(identifier) }
        if let serial = response.serial {
            var number: UnsafeMutablePointer<ASN1_STRING>?
            OCSP_id_get0_info(nil, nil, nil, &number, identifier)
            guard ASN1_STRING_set(number, serial, Int32(serial.count)) == 1 else { throw Failure(call: "serial") }
        }
        let status: (Int32, Int32) =
            switch response.status {
            case .good: (V_OCSP_CERTSTATUS_GOOD, 0)
            case .revoked: (V_OCSP_CERTSTATUS_REVOKED, OCSP_REVOKED_STATUS_KEYCOMPROMISE)
            case .unknown: (V_OCSP_CERTSTATUS_UNKNOWN, 0)
            }
        let this = ASN1_GENERALIZEDTIME_set(nil, Int(response.thisUpdate))
        let next = response.nextUpdate.flatMap { ASN1_GENERALIZEDTIME_set(nil, Int($0)) }
        defer {
            ASN1_STRING_free(this)
            ASN1_STRING_free(next)
        }
        guard let single = OCSP_basic_add1_status(basic, identifier, status.0, status.1, this, this, next) else {
            throw Failure(call: "OCSP_basic_add1_status")
        }
        if let times = response.times {
            var this: pinproxy_asn1?
            var next: pinproxy_asn1?
            OCSP_single_get0_status(single, nil, nil, &this, &next)
            for (place, text) in [(this, times.this), (next, times.next)] {
                guard ASN1_STRING_set(place, text, Int32(text.utf8.count)) == 1 else {
                    throw Failure(call: "ASN1_STRING_set")
                }
            }
        }
        guard response.hasCriticalExtension else { return }
        try withUnknownExtension {
            guard OCSP_SINGLERESP_add_ext(single, $0, -1) == 1 else { throw Failure(call: "OCSP_SINGLERESP_add_ext") }
        }
    }

    // MARK: - OpenSSL's objects, for the length of a call

    private static func withCertificate(_ certificate: Certificate, _ body: (OpaquePointer) throws -> Int32) throws {
        let pointer = certificate.derBytes.withUnsafeBufferPointer { bytes in
            var place = bytes.baseAddress
            return d2i_X509(nil, &place, bytes.count)
        }
        guard let pointer else { throw Failure(call: "d2i_X509") }
        defer { X509_free(pointer) }
        guard try body(pointer) == 1 else { throw Failure(call: "with \(certificate)") }
    }

    /// An unknown critical extension, under the arc that is reserved for examples (2.999).
    private static func withUnknownExtension(_ body: (OpaquePointer) throws -> Void) throws {
        let value = ASN1_OCTET_STRING_new()
        let object = OBJ_txt2obj("2.999.1", 1)
        defer {
            ASN1_STRING_free(value)
            ASN1_OBJECT_free(object)
        }
        guard ASN1_STRING_set(value, [5, 0] as [UInt8], 2) == 1,
            let made = X509_EXTENSION_create_by_OBJ(nil, object, 1, value)
        else { throw Failure(call: "X509_EXTENSION_create_by_OBJ") }
        defer { X509_EXTENSION_free(made) }
        try body(made)
    }

    private static func encode(_ basic: OpaquePointer?, status: Int32) throws -> [UInt8] {
        guard let response = OCSP_response_create(status, basic) else { throw Failure(call: "OCSP_response_create") }
        defer { OCSP_RESPONSE_free(response) }
        let count = i2d_OCSP_RESPONSE(response, nil)
        guard count > 0 else { throw Failure(call: "i2d_OCSP_RESPONSE") }
        return [UInt8](unsafeUninitializedCapacity: Int(count)) { buffer, filled in
            var place = buffer.baseAddress
            filled = Int(max(0, i2d_OCSP_RESPONSE(response, &place)))
        }
    }
}
