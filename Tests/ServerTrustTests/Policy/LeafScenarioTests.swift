// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Scenarios of keys, time and names")
struct LeafScenarioTests {
    let pki: TestPKI
    let server: TestServer
    let base: Scenario

    init() throws {
        pki = try TestPKI()
        server = try pki.server(Scenario.host)
        base = Scenario(server, pki).pinning(server.pin)
    }

    /// A server certificate of another shape, pinned.
    private func leaf(
        _ kind: KeyPair.Kind = .p256,
        _ change: (inout CertificateBuilder) -> Void = { _ in }
    ) throws -> Scenario {
        var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
        change(&builder)
        let server = try pki.server(builder, key: kind)
        return Scenario(server, pki).pinning(server.pin)
    }

    // MARK: - Keys

    @Test(
        "24 to 28 every kind of key is pinned as a whole SubjectPublicKeyInfo",
        arguments: [
            (KeyPair.Kind.rsa(bits: 2048), "RSA 2048"), (.rsa(bits: 3072), "RSA 3072"), (.rsa(bits: 4096), "RSA 4096"),
            (.p256, "EC P-256"), (.p384, "EC P-384"), (.p521, "EC P-521"), (.ed25519, "Ed25519"),
        ]
    )
    func keys(kind: KeyPair.Kind, description: String) throws {
        let scenario = try leaf(kind)
        try expect(scenario.pinning(.unrelated(1)), .pinMismatch, mended: scenario)
        #expect(scenario.chain[0].keyDescription == description)
        #expect(scenario.chain[0].publicKeyPin == scenario.configuration.pins[0].key)
    }

    @Test("29 a PSS-bound key and a plain RSA key have different pins")
    func pss() throws {
        let scenario = try leaf(.rsaPSS(bits: 2048))
        #expect(try scenario.evaluation().verdict == .pass)
        #expect(scenario.chain[0].keyDescription == "RSA-PSS 2048")
        let info = try KeyPair.shared(.rsaPSS(bits: 2048)).publicKeyDER
        // id-RSASSA-PSS, 1.2.840.113549.1.1.10, where rsaEncryption ends in 1.
        let identifier: [UInt8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a]
        let plain = identifier.dropLast() + [0x01]
        var relabelled = info
        let place = try #require(info.indices.first { info[$0...].starts(with: identifier) })
        relabelled.replaceSubrange(place..<(place + identifier.count), with: plain)
        #expect(PublicKeyPin(subjectPublicKeyInfo: info) != PublicKeyPin(subjectPublicKeyInfo: relabelled))
    }

    @Test("30 RSA-1024 is below the security level")
    func weakKey() throws {
        try expect(leaf(.rsa(bits: 1024)), .certificateUntrusted, mended: leaf(.rsa(bits: 2048)))
    }

    @Test("30 a signature over SHA-1 is below the security level")
    func weakDigest() throws {
        try expect(
            leaf { $0.signatureDigest = "SHA1" },
            .certificateUntrusted,
            mended: leaf { $0.signatureDigest = "SHA384" }
        )
    }

    // MARK: - Time

    @Test("31 and 32 an expired leaf and a future one are refused")
    func leafDates() throws {
        // RFC 5280, section 4.1.2.5: the second of notAfter counts.
        let expired = try leaf { $0.notAfter = Scenario.now }
        try expect(expired.with { $0.now += 1 }, .certificateExpired, mended: expired)
        let early = try leaf { $0.notBefore = Scenario.now }
        try expect(early.with { $0.now -= 1 }, .certificateExpired, mended: early)
    }

    @Test("33 an expired intermediate is refused")
    func intermediateDates() throws {
        var builder = CertificateBuilder.authority("short", validity: TestPKI.validity)
        builder.notAfter = Scenario.now
        let ca = try builder.identity(issuer: pki.root)
        let leaf = try CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity).identity(
            issuer: ca
        )
        let scenario = base.with { $0.chain = [leaf.certificate, ca.certificate] }.pinning(leaf.key.pin)
        try expect(scenario.with { $0.now += 1 }, .certificateExpired, mended: scenario)
        #expect(try scenario.evaluation().goodUntil == Scenario.now + 1)
        #expect(try scenario.evaluation().lapse(at: Scenario.now + 1) == .certificateExpired)
    }

    @Test("34 and 35 the pin set holds through its last day, to the second")
    func pinSetDates() throws {
        // 14 May 2026 ends 12 hours before `now`.
        let yesterday = base.with { $0.configuration.expiration = CalendarDate("2026-05-14") }
        let today = base.with { $0.configuration.expiration = CalendarDate("2026-05-15") }
        try expect(yesterday, .pinSetExpired, mended: today)
        let midnight = Scenario.now + 12 * 3600
        try expect(today.with { $0.now = midnight }, .pinSetExpired, mended: today.with { $0.now = midnight - 1 })
        #expect(try today.evaluation().goodUntil == midnight)
        #expect(try today.evaluation().lapse(at: midnight) == .pinSetExpired)
    }

    @Test("after its last day an unpinned set checks chain and host")
    func expiredUnpinned() throws {
        let unpinned = base.pinning(.unrelated(1)).with {
            $0.configuration.expiration = CalendarDate("2026-05-14")
            $0.configuration.onExpiration = .unpinned
        }
        #expect(try unpinned.evaluation().verdict == .expired)
        for waive in [\SecurityPolicy.Configuration.allowInvalidCertificates, \.validatesDomainName] {
            let waived = unpinned.with { $0.configuration[keyPath: waive].toggle() }
            try expect(waived.with { $0.host = "b.example.com" }, .certificateHostMismatch, mended: waived, .expired)
            try expect(
                waived.with { $0.anchors = TrustAnchors(certificates: []) },
                .certificateUntrusted,
                mended: waived,
                .expired
            )
        }
    }

    @Test(
        "dates are days of the calendar",
        arguments: [
            ("1970-01-01", 86_400), ("2000-02-29", 951_868_800), ("2026-11-21", 1_795_305_600),
            ("2100-02-28", 4_107_542_400),
            ("2100-03-01", 4_107_628_800),
        ]
    )
    func calendar(text: String, end: Int64) throws {
        let date = try #require(CalendarDate(text))
        #expect(date.end == end)
        #expect(date.description == text)
    }

    // MARK: - Names

    private func names(_ names: CertificateBuilder.Name..., commonName: String? = nil) throws -> Scenario {
        try leaf {
            $0.names = names
            $0.subject = commonName.map { [("CN", $0)] } ?? [("O", "Example")]
        }
    }

    @Test("37 a wrong host is refused")
    func wrongHost() throws {
        try expect(base.with { $0.host = "www.example.com" }, .certificateHostMismatch, mended: base)
    }

    @Test("38 and 39 a wildcard stands for one whole label")
    func wildcards() throws {
        let wild = try names(.dns("*.example.com"))
        try expect(wild.with { $0.host = "a.b.example.com" }, .certificateHostMismatch, mended: wild)
        try expect(wild.with { $0.host = "example.com" }, .certificateHostMismatch, mended: wild)
        try expect(names(.dns("ap*.example.com")), .certificateHostMismatch, mended: wild)
    }

    @Test("a wildcard stands for a label with underscores, too, which no other name matches")
    func underscores() throws {
        let wild = try names(.dns("*.example.com"))
        for host in ["my_bucket.example.com", "_.example.com", "a_b-c_d.example.com"] {
            #expect(try wild.with { $0.host = host }.evaluation().verdict != .fail, "\(host)")
            #expect(try names(.dns(host)).with { $0.host = host }.evaluation().verdict != .fail, "\(host)")
        }
        let bucket = wild.with { $0.host = "my_bucket.example.com" }
        for name in [
            "mybucket.example.com", "my-bucket.example.com", "*.my_bucket.example.com", "m*.example.com", "*.com",
        ] {
            try expect(
                names(.dns(name)).with { $0.host = "my_bucket.example.com" },
                .certificateHostMismatch,
                mended: bucket
            )
        }
        try expect(wild.with { $0.host = "a.my_bucket.example.com" }, .certificateHostMismatch, mended: bucket)
    }

    @Test("40 and 41 addresses match address names alone")
    func addresses() throws {
        for (address, other) in [("192.0.2.7", "192.0.2.8"), ("2001:db8::7", "2001:db8::8")] {
            let scenario = try names(.ip(address)).with { $0.host = address }
            try expect(names(.ip(other)).with { $0.host = address }, .certificateHostMismatch, mended: scenario)
            try expect(names(.dns(address)).with { $0.host = address }, .certificateHostMismatch, mended: scenario)
        }
    }

    @Test("42 and 43 the common name does not count, and no names match nothing")
    func commonName() throws {
        try expect(names(commonName: Scenario.host), .certificateHostMismatch, mended: base)
        try expect(names(), .certificateHostMismatch, mended: base)
    }

    @Test("a certificate with a common name alone has its own message")
    func lackOfNames() throws {
        let common = try names(commonName: Scenario.host).evaluation()
        #expect(common.reason.contains("a common name (CN = \(Scenario.host)) and no subject alternative name"))
        #expect(common.remedy.contains("subjectAltName=DNS:\(Scenario.host)"))
        let none = try names().evaluation()
        #expect(none.reason.hasSuffix("it has no subject alternative name"))
        let address = try names(commonName: "192.0.2.7").with { $0.host = "192.0.2.7" }.evaluation()
        #expect(address.remedy.contains("subjectAltName=IP:192.0.2.7"))
        // One that has other names is for these.
        let other = try base.with { $0.host = "www.example.com" }.evaluation()
        #expect(!other.reason.contains("alternative") && other.remedy.contains("a name that the certificate holds"))
    }

    @Test("44 a URI name that looks like a DNS name does not count")
    func uriName() throws {
        try expect(names(.uri(Scenario.host)), .certificateHostMismatch, mended: names(.dns(Scenario.host)))
        try expect(names(.email(Scenario.host)), .certificateHostMismatch, mended: names(.dns(Scenario.host)))
    }

    @Test("45 a NUL does not end a name")
    func embeddedNUL() throws {
        let bytes = Array(Scenario.host.utf8) + [0] + Array(".evil.example".utf8)
        try expect(names(.dnsBytes(bytes)), .certificateHostMismatch, mended: names(.dns(Scenario.host)))
    }

    @Test("46 and 47 upper case and a trailing dot name the same host")
    func spellings() throws {
        for spelling in ["API.Example.COM", "api.example.com."] {
            #expect(try base.with { $0.host = spelling }.evaluation().verdict == .pass)
        }
        #expect(try names(.dns("API.EXAMPLE.COM")).evaluation().verdict == .pass)
    }

    @Test("49 a host that ends like the name is another host")
    func suffix() throws {
        let scenario = try names(.dns("example.com"))
        try expect(
            scenario.with { $0.host = "evilexample.com" },
            .certificateHostMismatch,
            mended: scenario.with { $0.host = "example.com" }
        )
    }
}
