// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc

/// A successful OCSP response (RFC 6960), as a server staples it in the handshake. Parsed, but not verified until
/// `checkSignature`.
///
/// It is used within one evaluation, on one thread.
final class OCSPResponse {
    /// An owned `OCSP_BASICRESP`.
    private let pointer: OpaquePointer

    /// The status of one certificate (SingleResponse of RFC 6960, section 4.2.1).
    struct SingleResponse {
        enum Status {
            case good
            case revoked
            case unknown
        }

        var status: Status
        /// Seconds since 1970; nil when the time cannot be read.
        var thisUpdate: Int64?
        /// Seconds since 1970; nil when there is none, or when it cannot be read.
        var nextUpdate: Int64?
        var hasNextUpdate: Bool
    }

    /// The reason why a response proves nothing.
    enum Fault: Error, Hashable {
        case tooLong(Int)
        case malformed
        /// A certificate in it would cost too much to decode.
        case costlyCertificate(CertificateMessage.Fault)
        /// The responder's error status: `trylater`, `unauthorized`.
        case unsuccessful(String)
        case weakSignature(String)
        /// OpenSSL's error.
        case badSignature(String)
        /// An unknown extension that is marked critical.
        case criticalExtension
    }

    /// In bytes. A usual response has one or two thousand, with the responder's certificate in it.
    static let limit = 64 << 10

    /// Reads a response in DER, and nothing after it.
    init(der: [UInt8]) throws(Fault) {
        guard der.count <= OCSPResponse.limit else { throw .tooLong(der.count) }
        switch CertificateMessage.fault(inStaple: der.span) {
        case nil: break
        case .unreadable: throw .malformed
        case .some(let fault): throw .costlyCertificate(fault)
        }
        let response = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var cursor = bytes.baseAddress
            guard let response = d2i_OCSP_RESPONSE(nil, &cursor, bytes.count) else { return nil }
            if cursor == bytes.baseAddress.map({ $0 + bytes.count }) { return response }
            OCSP_RESPONSE_free(response)
            return nil
        }
        guard let response else { throw .malformed }
        defer { OCSP_RESPONSE_free(response) }
        let status = OCSP_response_status(response)
        guard status == OCSP_RESPONSE_STATUS_SUCCESSFUL else {
            throw .unsuccessful(OCSP_response_status_str(Int(status)).map { String(cString: $0) } ?? "status \(status)")
        }
        guard let basic = OCSP_response_get1_basic(response) else { throw .malformed }
        pointer = basic
    }

    deinit { OCSP_BASICRESP_free(pointer) }

    /// Checks that the issuer of a certificate signed the response, either with its own key or through a delegated
    /// responder whose certificate it has issued for OCSP signing (RFC 6960, section 4.2.2.2). The machine's trust
    /// anchors play no part.
    ///
    /// - Parameter now: seconds since 1970; the responder's certificate has to be in date.
    func checkSignature(issuer: Certificate, at now: Int64) throws(Fault) {
        let algorithm = OCSP_resp_get0_tbs_sigalg(pointer)
        guard SignatureStrength.isEnough(algorithm) else {
            throw .weakSignature(SignatureStrength.name(algorithm))
        }
        // The issuer is the only anchor, and has to sign the responder's certificate directly (depth 0).
        let anchors = TrustAnchors(certificates: [issuer])
        guard let parameters = X509_STORE_get0_param(anchors.store) else { throw .badSignature("out of memory") }
        X509_VERIFY_PARAM_set_time(parameters, time_t(now))
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        X509_VERIFY_PARAM_set_depth(parameters, 0)
        let others = CertificateStack([issuer])
        let result = withExtendedLifetime((anchors, others)) {
            // Without the flag OpenSSL would also believe an anchor that is marked as a responder's.
            let flags = UInt(OCSP_NOEXPLICIT) | UInt(OCSP_PARTIAL_CHAIN)
            return OCSP_basic_verify(pointer, others.pointer, anchors.store, flags)
        }
        guard result == 1 else {
            throw .badSignature(OpenSSLError(draining: "OCSP_basic_verify").entries.last?.text ?? "it does not verify")
        }
        guard !hasCriticalExtension else { throw .criticalExtension }
    }

    /// Every single response about a certificate, which is identified by SHA-1 or SHA-256 of its issuer.
    func singleResponses(for leaf: Certificate, issuer: Certificate) -> [SingleResponse] {
        let names = [EVP_sha1(), EVP_sha256()].compactMap { OCSP_cert_to_id($0, leaf.pointer, issuer.pointer) }
        defer { names.forEach { OCSP_CERTID_free($0) } }
        return singles.compactMap { single in
            let named = OCSP_SINGLERESP_get0_id(single)
            return names.contains { OCSP_id_cmp($0, named) == 0 } ? OCSPResponse.singleResponse(single) : nil
        }
    }

    private var singles: [OpaquePointer] {
        (0..<max(0, OCSP_resp_count(pointer))).compactMap { OCSP_resp_get0(pointer, $0) }
    }

    private static func singleResponse(_ single: OpaquePointer) -> SingleResponse {
        var this: pinproxy_asn1?
        var next: pinproxy_asn1?
        let status = OCSP_single_get0_status(single, nil, nil, &this, &next)
        return SingleResponse(
            status: status == V_OCSP_CERTSTATUS_GOOD
                ? .good : status == V_OCSP_CERTSTATUS_REVOKED ? .revoked : .unknown,
            thisUpdate: Certificate.seconds(this),
            nextUpdate: Certificate.seconds(next),
            hasNextUpdate: next != nil
        )
    }

    private var hasCriticalExtension: Bool {
        let whole = (0..<max(0, OCSP_BASICRESP_get_ext_count(pointer)))
            .contains { X509_EXTENSION_get_critical(OCSP_BASICRESP_get_ext(pointer, $0)) != 0 }
        return whole
            || singles.contains { single in
                (0..<max(0, OCSP_SINGLERESP_get_ext_count(single)))
                    .contains { X509_EXTENSION_get_critical(OCSP_SINGLERESP_get_ext(single, $0)) != 0 }
            }
    }
}
