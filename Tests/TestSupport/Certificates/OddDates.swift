// SPDX-License-Identifier: Apache-2.0
package import ServerTrust

/// Validity periods that no CA writes, and that any server can send. Later versions of OpenSSL decode none that is shorter than a
/// time.
package enum OddDates: String, CaseIterable, Sendable {
    case noEnd
    case noBegin
    case neither
    case blankEnd
    case year9999
    case year0000
    case negativeYear
    case zoneWithoutZ
    case monthThirteen
    case endsBeforeItBegins

    /// Whether the end is a time at all.
    package var hasEnd: Bool {
        switch self {
        case .noEnd, .neither, .blankEnd, .negativeYear, .zoneWithoutZ, .monthThirteen: false
        default: true
        }
    }

    /// Whether the begin is a time at all.
    package var hasBegin: Bool { self != .noBegin && self != .neither }

    /// Writes the dates into a certificate.
    package func apply(to builder: inout CertificateBuilder) {
        switch self {
        case .noEnd: builder.rawNotAfter = .utc("XXXXXXXXXXXXX")
        case .noBegin: builder.rawNotBefore = .utc("XXXXXXXXXXXXX")
        case .neither:
            builder.rawNotBefore = .generalized("\u{1b}[2J<b>\"'</b>'\"")
            builder.rawNotAfter = .generalized("\u{1b}[2J<b>\"'</b>'\"")
        case .blankEnd: builder.rawNotAfter = .utc("             ")
        case .year9999: builder.rawNotAfter = .generalized("99991231235959Z")
        case .year0000:
            builder.rawNotBefore = .generalized("00000101000000Z")
            builder.rawNotAfter = .generalized("00000101000001Z")
        case .negativeYear: builder.rawNotAfter = .generalized("-0010101000000Z")
        case .zoneWithoutZ: builder.rawNotAfter = .generalized("20990101000000+2359")
        case .monthThirteen: builder.rawNotAfter = .utc("991399999999Z")
        case .endsBeforeItBegins: (builder.notBefore, builder.notAfter) = (builder.notAfter, builder.notBefore)
        }
    }

    /// A server's certificate with these dates, signed by its own key alone.
    package func server(_ hosts: String...) throws -> TestServer {
        var builder = CertificateBuilder.server(hosts: hosts, validity: TestPKI.validity)
        apply(to: &builder)
        let identity = try builder.identity()
        return TestServer(identity: identity, chain: [identity.certificate])
    }
}
