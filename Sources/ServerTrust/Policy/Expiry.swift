import HTTPCore

/// The approaching end of a pin set, or of a certificate of a pinned domain.
public struct Expiry: Hashable, Sendable {
    /// The kind of object that ends.
    public enum Subject: String, Sendable {
        /// The pin set of a domain, by its `expiration`.
        case pinSet
        /// A certificate of the chain that a server has presented.
        case certificate
    }

    /// The kind of object that ends.
    public let subject: Subject
    /// The first second at which it is not valid any more, in seconds since 1970.
    package let end: Int64
    /// Whole days until then; 0 on the last day.
    public let days: Int

    init(_ subject: Subject, end: Int64, at now: Int64) {
        self.subject = subject
        self.end = end
        days = Int(clamping: end.subtractingSaturated(now) / Expiry.day)
    }

    static let day: Int64 = 86_400

    /// The length of the warning period before the end, in seconds: 30 days for a pin set, 14 for a certificate.
    package static func notice(of subject: Subject) -> Int64 {
        switch subject {
        case .pinSet: 30 * day
        case .certificate: 14 * day
        }
    }

    /// An end that is near at that time.
    static func near(_ subject: Subject, end: Int64, at now: Int64) -> Expiry? {
        guard end > now, end < .max, end.subtractingSaturated(now) <= notice(of: subject) else { return nil }
        return Expiry(subject, end: end, at: now)
    }
}

extension TrustEvaluation {
    /// The pin set that ends within 30 days, or the certificate of a pinned domain's chain that ends within 14 days; if
    /// both do, the one that ends first. Nil for those that have ended.
    ///
    /// - Parameter now: seconds since 1970.
    package func nearExpiry(at now: Int64) -> Expiry? {
        let pinSet = Expiry.near(.pinSet, end: pinSetEnd, at: now)
        guard let certificate = certificateExpiry(at: now) else { return pinSet }
        return pinSet.map { $0.end <= certificate.end ? $0 : certificate } ?? certificate
    }

    /// The same for the certificates of the chain only.
    package func certificateExpiry(at now: Int64) -> Expiry? {
        domain == nil ? nil : Expiry.near(.certificate, end: certificateEnd, at: now)
    }
}

extension SecurityPolicy {
    /// The end of the pin set, if it is near at that time (seconds since 1970) and not reached.
    package func pinSetExpiry(at now: Int64) -> Expiry? {
        configuration.expiration.flatMap { Expiry.near(.pinSet, end: $0.end, at: now) }
    }
}
