// SPDX-License-Identifier: Apache-2.0
import CShims

/// The contents of OpenSSL's ASN1_STRING, whatever the release: OpenSSL 4.0 makes the structure opaque.
enum ASN1Bytes {
    /// - Parameter string: an `ASN1_STRING *`.
    static func of(_ string: UnsafeRawPointer) -> [UInt8] {
        var start: UnsafePointer<UInt8>?
        let count = pinproxy_asn1_bytes(string, &start)
        return Array(UnsafeBufferPointer(start: start, count: count))
    }
}
