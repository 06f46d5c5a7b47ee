/// An end that is near: of a pin set, or of a certificate of a pinned domain.
public struct Expiry: Hashable, Sendable {
    /// What ends.
    public enum Subject: String, Sendable {
        /// The pin set of a domain, by its `expiration`.
        case pinSet
        /// A certificate of the chain that a server has presented.
        case certificate
    }

    /// What ends.
    public let subject: Subject
    /// The first second at which it does not hold any more, in seconds since 1970.
    public let end: Int64
    /// Whole days until then; 0 on the last day.
    public let days: Int

    init(_ subject: Subject, end: Int64, at now: Int64) {
        self.subject = subject
        self.end = end
        days = Int((end - now) / Expiry.day)
    }

    static let day: Int64 = 86_400

    /// How long before the end it counts as near, in seconds: 30 days for a pin set, 14 for a certificate.
    public static func notice(of subject: Subject) -> Int64 {
        switch subject {
        case .pinSet: 30 * day
        case .certificate: 14 * day
        }
    }

    /// An end that is near at that time.
    static func near(_ subject: Subject, end: Int64, at now: Int64) -> Expiry? {
        guard end > now, end < .max, end - now <= notice(of: subject) else { return nil }
        return Expiry(subject, end: end, at: now)
    }
}

extension TrustEvaluation {
    /// What ends soon and has not ended: the pin set within 30 days, or a certificate of a pinned domain's chain within
    /// 14; of both the one that ends first.
    ///
    /// - Parameter now: seconds since 1970.
    public func nearExpiry(at now: Int64) -> Expiry? {
        let pinSet = Expiry.near(.pinSet, end: pinSetEnd, at: now)
        guard let certificate = certificateExpiry(at: now) else { return pinSet }
        return pinSet.map { $0.end <= certificate.end ? $0 : certificate } ?? certificate
    }

    /// The same of the chain's certificates alone.
    package func certificateExpiry(at now: Int64) -> Expiry? {
        domain == nil ? nil : Expiry.near(.certificate, end: certificateEnd, at: now)
    }
}

extension SecurityPolicy {
    /// The end of the pin set, if it is near at that time (seconds since 1970) and has not come.
    package func pinSetExpiry(at now: Int64) -> Expiry? {
        configuration.expiration.flatMap { Expiry.near(.pinSet, end: $0.end, at: now) }
    }
}
