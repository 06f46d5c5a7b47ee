// SPDX-License-Identifier: Apache-2.0
/// The reason why a certificate, key or revocation list could not be read or used, with a remedy.
public struct CertificateFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The problem, without a full stop.
    public var message: String
    /// *The remedy, without a full stop.
    public var remedy: String
    /// OpenSSL's error for it, if there is one.
    public var underlying: OpenSSLError?

    /// A fault with its remedy; `underlying` is OpenSSL's error, if OpenSSL was called.
    public init(_ message: String, remedy: String, underlying: OpenSSLError? = nil) {
        self.message = message
        self.remedy = remedy
        self.underlying = underlying
    }

    public var description: String {
        let cause = underlying.map { $0.entries.isEmpty ? "" : " [\($0)]" } ?? ""
        return "\(message)\(cause) (\(remedy))"
    }
}
