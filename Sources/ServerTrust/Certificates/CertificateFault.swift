/// Why a certificate, key or revocation list could not be read or used, and what to do about it.
public struct CertificateFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong, without a full stop.
    public var message: String
    /// What to do, without a full stop.
    public var remedy: String
    /// OpenSSL's own account of it, where there is one.
    public var underlying: OpenSSLError?

    /// A fault with its way out; `underlying` is what OpenSSL said, if it was asked.
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
