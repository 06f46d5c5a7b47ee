// SPDX-License-Identifier: Apache-2.0
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
    /// How much of its lifetime a certificate has left at most; nil for a pin set.
    package let share: CertificateNotice.Share?

    private init(_ subject: Subject, end: Int64, at now: Int64, share: CertificateNotice.Share? = nil) {
        self.subject = subject
        self.end = end
        self.share = share
        days = Int(clamping: end.subtractingSaturated(now) / Expiry.day)
    }

    static let day: Int64 = 86_400

    /// The length of the warning period before the end of a pin set, in seconds: 30 days.
    static let pinSetNotice: Int64 = 30 * day

    /// The end of a pin set, if it is near at that time.
    static func pinSet(end: Int64, at now: Int64) -> Expiry? {
        guard end > now, end < .max, end.subtractingSaturated(now) <= pinSetNotice else { return nil }
        return Expiry(.pinSet, end: end, at: now)
    }

    /// The end of a certificate, if it is near at that time and not reached.
    package static func certificate(_ certificate: Certificate, at now: Int64) -> Expiry? {
        guard let notice = CertificateNotice(certificate), notice.end > now, let share = notice.share(at: now) else {
            return nil
        }
        return Expiry(.certificate, end: notice.end, at: now, share: share)
    }

    /// Of two certificates the one that has less than a tenth left, then the one that ends first.
    package func isMoreUrgent(than other: Expiry) -> Bool {
        share == other.share ? end < other.end : share == .tenth
    }
}

/// From when on a certificate's end is near: when a third of its lifetime is left, and once more when a tenth is.
///
/// A fixed number of days would be no warning for a certificate of six days, and a constant one for one of forty-seven.
/// Clients of ACME renew when a third is left: a certificate that is older has missed its renewal. Lifetimes above 200
/// days, which public CAs do not sell any more, count as 200: a CA of twenty years is near its end for ten weeks, not
/// for seven years.
package struct CertificateNotice: Hashable, Sendable {
    /// The share of the lifetime that is left at most.
    package enum Share: String, Sendable, CaseIterable {
        case third
        case tenth

        /// In words, as the subject of a sentence.
        package var words: String {
            switch self {
            case .third: "less than a third of its lifetime is left"
            case .tenth: "less than a tenth of its lifetime is left"
            }
        }
    }

    /// Seconds since 1970, like the others.
    package private(set) var end: Int64
    package private(set) var thirdFrom: Int64
    package private(set) var tenthFrom: Int64

    /// The longest lifetime that counts, in seconds.
    private static let longest: Int64 = 200 * Expiry.day

    package init(begin: Int64, end: Int64) {
        let lifetime = min(max(end.subtractingSaturated(begin), 0), Self.longest)
        self.end = end
        thirdFrom = end.subtractingSaturated(lifetime / 3)
        tenthFrom = end.subtractingSaturated(lifetime / 10)
    }

    /// Nil for a certificate whose dates are no times.
    package init?(_ certificate: Certificate) {
        guard let begin = certificate.notBefore, let end = certificate.notAfter else { return nil }
        self.init(begin: begin, end: end)
    }

    /// The first notice, of each kind, among the certificates of a chain; nil if none of them has one.
    package init?(_ chain: [Certificate]) {
        let all = chain.compactMap { CertificateNotice($0) }
        guard var first = all.first else { return nil }
        for notice in all.dropFirst() {
            first.end = min(first.end, notice.end)
            first.thirdFrom = min(first.thirdFrom, notice.thirdFrom)
            first.tenthFrom = min(first.tenthFrom, notice.tenthFrom)
        }
        self = first
    }

    /// What is left at that time (seconds since 1970), also after the end; nil as long as it is more than a third.
    package func share(at now: Int64) -> Share? {
        if now >= tenthFrom { return .tenth }
        return now >= thirdFrom ? .third : nil
    }
}

extension TrustEvaluation {
    /// The pin set that ends within 30 days, or the certificate of a pinned domain's chain that has less than a third
    /// of its lifetime left; if both do, the one that ends first. Nil for those that have ended.
    ///
    /// - Parameter now: seconds since 1970.
    package func nearExpiry(at now: Int64) -> Expiry? {
        let pinSet = Expiry.pinSet(end: pinSetEnd, at: now)
        guard let certificate = certificateExpiry(at: now) else { return pinSet }
        return pinSet.map { $0.end <= certificate.end ? $0 : certificate } ?? certificate
    }

    /// The same for the certificates of the chain only: of several, one with less than a tenth left before one with
    /// less than a third, then the one that ends first.
    package func certificateExpiry(at now: Int64) -> Expiry? {
        // Before the first notice is due the dates need not be read once more.
        guard domain != nil, certificateEnd < .max, now >= noticeFrom else { return nil }
        return chain.compactMap { Expiry.certificate($0, at: now) }.min { $0.isMoreUrgent(than: $1) }
    }
}

extension SecurityPolicy {
    /// The end of the pin set, if it is near at that time (seconds since 1970) and not reached.
    package func pinSetExpiry(at now: Int64) -> Expiry? {
        configuration.expiration.flatMap { Expiry.pinSet(end: $0.end, at: now) }
    }
}
