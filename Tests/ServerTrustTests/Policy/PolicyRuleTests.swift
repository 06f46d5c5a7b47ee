// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Forbidden keys, reporting, revocation and age")
struct PolicyRuleTests {
    let pki: TestPKI
    let server: TestServer
    let base: Scenario

    init() throws {
        pki = try TestPKI()
        server = try pki.server(Scenario.host)
        base = Scenario(server, pki)
    }

    private func byCertificate(_ scenario: Scenario) -> Scenario {
        scenario.with {
            $0.configuration.pinningMode = .certificate
            $0.configuration.pinnedCertificates = [server.certificate]
        }
    }

    @Test("a forbidden key in the chain is refused in every mode")
    func forbidden() throws {
        let pinned = base.pinning(server.pin)
        for scenario in [base, pinned, byCertificate(base)] {
            let refused = scenario.with { $0.configuration.forbiddenPins = [Pin(pki.intermediate.key.pin)] }
            let verdict: TrustEvaluation.Verdict = scenario.configuration.pinningMode == .none ? .notPinned : .pass
            try expect(refused, .pinForbidden, mended: scenario, verdict)
        }
        // Without a chain check the leaf is the validated chain; a forbidden CA above it is not relevant.
        let alone = pinned.with {
            $0.configuration.allowInvalidCertificates = true
            $0.configuration.pins[0] = Pin(pki.intermediate.key.pin)
        }
        let refused = alone.with { $0.configuration.forbiddenPins = [Pin(server.pin, scope: .leaf)] }
        try expect(refused, .pinForbidden, mended: alone)
    }

    @Test("an unidentified server is still refused for a forbidden key")
    func forbiddenUnverified() throws {
        let open = base.with {
            $0.configuration.allowInvalidCertificates = true
            $0.configuration.validatesDomainName = false
        }
        try expect(
            open.with { $0.configuration.forbiddenPins = [Pin(server.pin)] },
            .pinForbidden,
            mended: open,
            .unverified
        )
    }

    @Test("a forbidden key is refused also in report-only mode and after expiry")
    func forbiddenWhateverIsEnforced() throws {
        let forbid: (inout Scenario) -> Void = { [self] in
            $0.configuration.forbiddenPins = [Pin(pki.intermediate.key.pin)]
        }
        for pinned in [base.pinning(server.pin), base.pinning(.unrelated(1)), byCertificate(base)] {
            let reporting = pinned.with { $0.configuration.enforcePinning = false }
            let expired = reporting.with { $0.configuration.expiration = CalendarDate("2026-05-14") }
            let unpinned = pinned.with {
                $0.configuration.expiration = CalendarDate("2026-05-14")
                $0.configuration.onExpiration = .unpinned
            }
            for scenario in [reporting, expired, unpinned, unpinned.with { $0.configuration.enforcePinning = false }] {
                let report = try scenario.with(forbid).evaluation()
                #expect(report.verdict == .fail && report.failure == .pinForbidden, "\(report)")
                #expect(try scenario.evaluation().isAccepted)
            }
        }
    }

    @Test("a forbidden key is refused in the second chain of mode certificate, too")
    func forbiddenInPinnedChain() throws {
        // The intermediate's key has two certificates: one is an anchor, the other leads to the pinned authority
        // through the forbidden key.
        let pinned = try CertificateBuilder.authority("pinned", validity: TestPKI.validity).identity()
        let forbidden = try CertificateBuilder.authority("forbidden", validity: TestPKI.validity).identity(
            issuer: pinned
        )
        var cross = CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
        cross.serialNumber = 77
        let crossed = try cross.certificate(for: pki.intermediate.key, issuer: forbidden)
        let scenario = base.with {
            $0.chain = [server.certificate, crossed, forbidden.certificate]
            $0.anchors = TrustAnchors(certificates: [pki.intermediate.certificate])
            $0.configuration.pinningMode = .certificate
            $0.configuration.pinnedCertificates = [pinned.certificate]
        }
        try expect(
            scenario.with { $0.configuration.forbiddenPins = [Pin(forbidden.key.pin)] },
            .pinForbidden,
            mended: scenario
        )
    }

    @Test("76 and 77 report-only mode accepts a wrong pin, never a bad chain")
    func reportOnly() throws {
        let reporting = base.pinning(.unrelated(1)).with { $0.configuration.enforcePinning = false }
        let report = try reporting.evaluation()
        #expect(report.verdict == .reportOnly && report.failure == .pinMismatch)
        #expect(report.isAccepted && report.isStillGood(at: Scenario.now))
        #expect(try reporting.pinning(server.pin).evaluation().verdict == .pass)
        let wrongHost = try reporting.with { $0.host = "b.example.com" }.evaluation()
        #expect(wrongHost.verdict == .fail && wrongHost.failure == .certificateHostMismatch)
        let untrusted = try reporting.with { $0.chain.removeLast() }.evaluation()
        #expect(untrusted.verdict == .fail && untrusted.failure == .certificateUntrusted)
        let certificate = try byCertificate(base).with {
            $0.configuration.pinnedCertificates = [try pki.server(Scenario.host).certificate]
            $0.configuration.enforcePinning = false
        }
        #expect(try certificate.evaluation().verdict == .reportOnly)
    }

    @Test("an expired report-only set passes with its report")
    func expiredReportOnly() throws {
        let expired = base.pinning(server.pin).with {
            $0.configuration.enforcePinning = false
            $0.configuration.expiration = CalendarDate("2026-05-14")
        }
        let report = try expired.evaluation()
        #expect(report.verdict == .reportOnly && report.failure == .pinSetExpired)
        #expect(try expired.with { $0.host = "b.example.com" }.evaluation().verdict == .fail)
    }

    @Test("the keys of pinned certificates count as pins in publicKey mode")
    func certificateKeys() throws {
        let scenario = base.pinning(.unrelated(1))
        try expect(
            scenario,
            .pinMismatch,
            mended: scenario.with { $0.configuration.pinnedCertificates = [pki.intermediate.certificate] }
        )
    }

    @Test("a pinned CA accepts its certificates in mode certificate")
    func pinnedCA() throws {
        let other = try TestPKI("other")
        func pinned(_ certificate: Certificate) -> Scenario {
            byCertificate(base).with { $0.configuration.pinnedCertificates = [certificate] }
        }
        try expect(pinned(other.intermediate.certificate), .pinMismatch, mended: pinned(pki.intermediate.certificate))
        #expect(try pinned(pki.root.certificate).evaluation().matchedPin == pki.root.key.pin)
    }

    @Test("without the host check a CA's key or certificate is no match")
    func leafAlone() throws {
        for waived in [false, true] {
            let open = base.pinning(server.pin).with {
                $0.configuration.validatesDomainName = false
                $0.configuration.allowInvalidCertificates = waived
            }
            try expect(open.pinning(pki.intermediate.key.pin), .pinMismatch, mended: open)
            let byLeaf = byCertificate(open).with { $0.configuration.pins = [] }
            let byCA = byLeaf.with { $0.configuration.pinnedCertificates = [pki.intermediate.certificate] }
            try expect(byCA, .pinMismatch, mended: byLeaf)
        }
    }

    // MARK: - Revocation

    private func revocation(
        _ revoked: [Certificate] = [],
        from thisUpdate: Int64 = Scenario.now - 1000,
        until nextUpdate: Int64 = Scenario.now + 1000,
        issuer: Identity? = nil,
        scope: RevocationLists.Scope = .leaf
    ) throws -> Scenario {
        let list = try RevocationListBuilder(validity: min(thisUpdate, nextUpdate)..<nextUpdate, revoked: revoked)
            .pem(issuer: issuer ?? pki.intermediate)
        return try base.pinning(server.pin).with {
            $0.configuration.revocationLists = try RevocationLists(contents: [Array(list.utf8)])
            $0.configuration.revocationScope = scope
        }
    }

    @Test("80 a certificate on the list is revoked")
    func revoked() throws {
        try expect(revocation([server.certificate]), .certificateRevoked, mended: revocation())
    }

    @Test("80 a missing, stale, future or foreign list fails")
    func missingOrStale() throws {
        try expect(revocation(issuer: pki.root), .certificateRevoked, mended: revocation())
        let namesake = try CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
            .identity(issuer: pki.root)
        #expect(namesake.certificate.subject == pki.intermediate.certificate.subject)
        try expect(revocation(issuer: namesake), .certificateRevoked, mended: revocation())
        try expect(
            revocation(from: Scenario.now + 1),
            .certificateRevoked,
            mended: revocation(from: Scenario.now)
        )
        try expect(revocation(until: Scenario.now), .certificateRevoked, mended: revocation(until: Scenario.now + 1))
        #expect(try revocation(until: Scenario.now + 1).evaluation().goodUntil == Scenario.now + 1)
        #expect(
            try revocation(until: Scenario.now + 1).evaluation().lapse(at: Scenario.now + 1) == .certificateRevoked
        )
    }

    @Test("80 the verdict ages with the lists of its chain alone")
    func ageOfLists() throws {
        func lists(_ parts: (Identity, Int64)...) throws -> RevocationLists {
            try RevocationLists(
                contents: parts.map { issuer, end in
                    let validity = (Scenario.now - 1000)..<end
                    return Array(try RevocationListBuilder(validity: validity).pem(issuer: issuer).utf8)
                }
            )
        }
        let now = Scenario.now
        let stranger = try TestPKI("other").intermediate
        let scenario = try revocation().with {
            // An expired list of another issuer, and an older list of the issuer in addition to the current one.
            $0.configuration.revocationLists = try lists(
                (stranger, now - 5),
                (pki.intermediate, now - 7),
                (pki.intermediate, now + 9)
            )
        }
        #expect(try scenario.evaluation().goodUntil == now + 9)
        #expect(scenario.configuration.revocationLists?.earliestNextUpdate == now - 7)
        let alone = try scenario.with { $0.configuration.revocationLists = try lists((pki.intermediate, now - 7)) }
        try expect(alone, .certificateRevoked, mended: scenario)
    }

    @Test("scope chain needs a list of every issuer")
    func chainScope() throws {
        let validity = (Scenario.now - 1000)..<(Scenario.now + 1000)
        let lists = try [pki.intermediate, pki.root].map {
            try RevocationListBuilder(validity: validity).pem(issuer: $0)
        }
        let whole = try revocation(scope: .chain).with {
            $0.configuration.revocationLists = try RevocationLists(contents: lists.map { Array($0.utf8) })
        }
        try expect(revocation(scope: .chain), .certificateRevoked, mended: whole)
    }

    // MARK: - Age

    @Test("a verdict ends with the first certificate of its chain, or the pins")
    func age() throws {
        let pinned = base.pinning(server.pin)
        #expect(try pinned.evaluation().goodUntil == TestPKI.validity.upperBound + 1)
        let report = try pinned.with { $0.configuration.expiration = CalendarDate("2026-05-20") }.evaluation()
        let end = try #require(CalendarDate("2026-05-20")).end
        #expect(report.goodUntil == end)
        #expect(report.isStillGood(at: end - 1) && !report.isStillGood(at: end))
    }

    @Test("the chain to a pinned certificate limits a verdict too")
    func ageOfPinnedChain() throws {
        var builder = CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
        builder.notAfter = Scenario.now + 60
        let twin = try builder.certificate(for: pki.intermediate.key, issuer: pki.root)
        let pinned = byCertificate(base).with { $0.configuration.pinnedCertificates = [twin] }
        #expect(try pinned.evaluation().verdict == .pass)
        #expect(try pinned.evaluation().goodUntil == Scenario.now + 61)
    }

    @Test("a refusal never becomes acceptance")
    func refusalStays() throws {
        let report = try base.pinning(.unrelated(1)).evaluation()
        #expect(!report.isStillGood(at: 0) && !report.isStillGood(at: .min))
    }

    @Test("a hostile chain of hundreds of certificates is cut in the report")
    func boundedReport() throws {
        let scenario = try base.pinning(.unrelated(1)).with {
            let extra = pki.root.certificate
            $0.chain = [server.certificate] + (0..<300).map { _ in extra }
            $0.anchors = try TestPKI("other").anchors
        }
        #expect(try scenario.evaluation().chain.count <= 64)
    }
}
