// SPDX-License-Identifier: Apache-2.0
/// A client certificate with its private key, sent to servers that request one.
public final class ClientIdentity: Sendable {
    /// The certificate, then the intermediates that the server needs to build its chain.
    public let certificates: [Certificate]
    /// The name of the certificate's file, where there is one.
    package let file: String?
    let privateKey: PrivateKey
    let intermediates: CertificateStack
    var key: OpaquePointer { privateKey.pointer }

    /// Reads certificate and key.
    ///
    /// - Parameters:
    ///   - certificate: PEM (the certificate first, then its intermediates) or DER.
    ///   - privateKey: PEM or DER, without a password.
    public convenience init(certificate: [UInt8], privateKey: [UInt8]) throws(CertificateFault) {
        try self.init(certificate: certificate, privateKey: privateKey, file: nil)
    }

    package init(certificate: [UInt8], privateKey: [UInt8], file: String?) throws(CertificateFault) {
        let certificates = try Certificate.certificates(in: certificate)
        try certificates[0].checkDates()
        let key = try PrivateKey(reading: privateKey)
        try key.check(belongsTo: certificates[0])
        self.certificates = certificates
        self.privateKey = key
        self.file = file
        intermediates = CertificateStack(Array(certificates.dropFirst()))
    }
}
