// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// The identity of a TLS server: a certificate with its chain, and the private key.
package final class ServerIdentity: Sendable {
    /// The server's own certificate, then the intermediates that clients need to build its chain.
    package let certificates: [Certificate]
    let key: PrivateKey
    let intermediates: CertificateStack

    /// Reads certificate and key.
    ///
    /// - Parameters:
    ///   - certificate: PEM (the server's certificate first, then its intermediates) or DER.
    ///   - privateKey: PEM or DER, without a password.
    package convenience init(certificate: [UInt8], privateKey: [UInt8]) throws(CertificateFault) {
        let certificates = try Certificate.certificates(in: certificate)
        try certificates[0].checkDates()
        let key = try PrivateKey(reading: privateKey)
        try key.check(belongsTo: certificates[0])
        self.init(certificates, key)
    }

    /// An identity from a certificate that this program made.
    ///
    /// - Parameter intermediates: the certificates between it and a trust anchor of the clients.
    package convenience init(_ identity: Identity, intermediates: [Certificate] = []) {
        self.init([identity.certificate] + intermediates, PrivateKey(retaining: identity.key.pointer))
    }

    private init(_ certificates: [Certificate], _ key: PrivateKey) {
        self.certificates = certificates
        self.key = key
        intermediates = CertificateStack(Array(certificates.dropFirst()))
    }
}
