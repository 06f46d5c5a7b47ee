// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import TestSupport
import Testing

@testable import ServerTrust

@Suite("TLS profiles, and groups of the key exchange")
struct TLSProfileTests {
    private static let pki = TestPKI.shared
    private static let host = "a.example.com"
    private static let rsa = try! pki.server(host, key: .rsa(bits: 2048))
    private static let ecdsa = try! pki.server(host)

    @discardableResult
    private func attach(
        _ policy: SecurityPolicy,
        to ssl: OpaquePointer,
        _ profile: TLSProfile = .modern,
        isTrial: Bool = false
    ) throws -> TLSVerification {
        try TLSVerification.attach(
            to: ssl,
            policy: policy,
            host: Host(Self.host),
            anchors: Self.pki.anchors,
            generation: 1,
            profile: profile,
            isTrial: isTrial,
            identity: nil
        )
    }

    private func handshake(
        _ profile: TLSProfile = .modern,
        _ policy: SecurityPolicy = .unpinned,
        with server: InMemoryServer
    ) throws -> InMemoryHandshake {
        let client = InMemoryClient()
        try client.hold(to: policy, host: Host(Self.host), anchors: Self.pki.anchors, profile: profile)
        let handshake = InMemoryHandshake(client, server)
        if handshake.isFinished {
            #expect(TLSVerification.evaluation(of: handshake.client) != nil)
        } else {
            #expect(handshake.received(sending: "GET / HTTP/1.1\r\n\r\n") == 0)
        }
        return handshake
    }

    private func server(
        ciphers: String = "ALL",
        groups: String? = nil,
        signatures: String? = nil,
        modulus: String? = nil,
        version: Int32 = TLS1_2_VERSION
    ) throws -> InMemoryServer {
        let server = try InMemoryServer(Self.rsa, version: version)
        #expect(SSL_CTX_set_cipher_list(server.context, "\(ciphers):@SECLEVEL=0") == 1)
        for (command, list) in [(SSL_CTRL_SET_GROUPS_LIST, groups), (SSL_CTRL_SET_SIGALGS_LIST, signatures)] {
            guard let list else { continue }
            var bytes = Array(list.utf8CString)
            #expect(SSL_CTX_ctrl(server.context, command, 0, &bytes) == 1)
        }
        if let modulus {
            let maker = EVP_PKEY_CTX_new_from_name(nil, "DH", nil)
            defer { EVP_PKEY_CTX_free(maker) }
            var parameters: OpaquePointer?
            #expect(EVP_PKEY_paramgen_init(maker) == 1 && EVP_PKEY_CTX_set_group_name(maker, modulus) == 1)
            #expect(EVP_PKEY_paramgen(maker, &parameters) == 1)
            #expect(SSL_CTX_set0_tmp_dh_pkey(server.context, parameters) == 1)
        } else {
            SSL_CTX_ctrl(server.context, SSL_CTRL_SET_DH_AUTO, 1, nil)
        }
        return server
    }

    @Test(
        "a server of TLS 1.2 works from the profile with its cipher suite on",
        arguments: [
            ("ECDHE-RSA-AES128-GCM-SHA256", TLSProfile.modern), ("ECDHE-RSA-CHACHA20-POLY1305", .modern),
            ("ECDHE-RSA-AES256-SHA384", .compatible), ("ECDHE-RSA-AES128-SHA", .compatible),
            ("AES128-GCM-SHA256", .compatible), ("AES256-SHA", .compatible),
            ("DHE-RSA-AES128-GCM-SHA256", .legacy), ("DHE-RSA-AES256-SHA", .legacy),
            ("AES128-CCM8", nil), ("ECDHE-RSA-NULL-SHA", nil), ("CAMELLIA128-SHA", nil), ("ADH-AES128-SHA", nil),
        ]
    )
    func suites(name: String, first: TLSProfile?) throws {
        let server = try server(ciphers: name)
        let allowed = first.map { [$0] + $0.wider } ?? []
        for profile in TLSProfile.allCases {
            let handshake = try handshake(profile, with: server)
            #expect(handshake.isFinished == allowed.contains(profile), "\(profile) \(handshake.clientError)")
        }
    }

    @Test("TLS 1.3 is in every profile", arguments: TLSProfile.allCases)
    func tls13(profile: TLSProfile) throws {
        #expect(try handshake(profile, with: try server(version: TLS1_3_VERSION)).isFinished)
    }

    @Test(
        "Diffie-Hellman moduli have 2,048 to 4,096 bits; larger ones are refused before computing",
        arguments: [
            ("ffdhe2048", nil), ("ffdhe3072", nil), ("ffdhe4096", nil), ("ffdhe6144", "more than 4096 bits"),
            ("ffdhe8192", "more than 4096 bits"), ("modp_1536", "dh key too small"),
        ]
    )
    func moduli(group: String, words: String?) throws {
        let handshake = try handshake(.legacy, with: try server(ciphers: "DHE-RSA-AES128-GCM-SHA256", modulus: group))
        #expect(handshake.isFinished == (words == nil), "\(handshake.clientError)")
        if let words { #expect(handshake.clientError.contains(words), "\(handshake.clientError)") }
    }

    @Test(
        "a server may sign with SHA-256 and better alone",
        arguments: [
            ("RSA+SHA1", false), ("RSA+SHA224", false), ("RSA+SHA256", true), ("RSA-PSS+SHA384", true),
        ]
    )
    func signatures(algorithm: String, isFinished: Bool) throws {
        for profile in TLSProfile.allCases {
            let server = try server(ciphers: "ECDHE-RSA-AES128-GCM-SHA256", signatures: algorithm)
            let handshake = try handshake(profile, with: server)
            #expect(handshake.isFinished == isFinished, "\(profile) \(handshake.clientError)")
        }
    }

    // MARK: Groups

    @Test("the group of the key exchange is reported, in both versions", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func groups(version: Int32) throws {
        for group in TLSGroup.allCases where group.isAvailable && group != .x25519MLKEM768 {
            let handshake = try handshake(with: try server(groups: group.rawValue, version: version))
            let trust = try #require(TLSVerification.evaluation(of: handshake.client))
            #expect(trust.tlsGroup == group)
            // The same object from now on.
            #expect(TLSVerification.evaluation(of: handshake.client) === trust)
        }
    }

    @Test("a key exchange without a group has none", arguments: ["AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256"])
    func noGroup(cipher: String) throws {
        let handshake = try handshake(.legacy, with: try server(ciphers: cipher))
        #expect(try #require(TLSVerification.evaluation(of: handshake.client)).tlsGroup == nil)
    }

    private func requiring(_ groups: TLSGroup...) throws -> SecurityPolicy {
        var configuration = SecurityPolicy.Configuration()
        configuration.requireGroups = groups
        return try SecurityPolicy(configuration)
    }

    @Test(
        "a policy with required groups sends no request over another group",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func required(version: Int32) throws {
        for (groups, isFinished) in [("P-256", false), ("P-384", true), ("P-521:P-384", true), ("X25519:P-384", true)] {
            let server = try server(groups: groups, version: version)
            let handshake = try handshake(.modern, requiring(.p384), with: server)
            #expect(handshake.isFinished == isFinished, "\(groups): \(handshake.clientError)")
            guard isFinished else { continue }
            #expect(TLSVerification.evaluation(of: handshake.client)?.tlsGroup == .p384)
        }
    }

    @Test("a required group excludes key exchanges without a group, in every profile")
    func requiredWithProfile() throws {
        let policy = try requiring(.x25519, .p256)
        for cipher in ["AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256"] {
            let server = try server(ciphers: cipher)
            #expect(try handshake(.legacy, with: server).isFinished)
            #expect(try !handshake(.legacy, policy, with: server).isFinished)
        }
        #expect(try handshake(.compatible, policy, with: try server(ciphers: "ECDHE-RSA-AES128-SHA")).isFinished)
        #expect(try !handshake(.modern, policy, with: try server(ciphers: "ECDHE-RSA-AES128-SHA")).isFinished)
    }

    @Test("a verdict does not hold for a connection of another group")
    func lastLook() throws {
        // What OpenSSL would have to get wrong: the policy hangs on a connection that was made without it.
        let server = try server(groups: "P-256", version: TLS1_3_VERSION)
        let policy = try requiring(.p384)
        let client = InMemoryClient()
        try TLSVerification.prepare(client.context)
        let handshake = try InMemoryHandshake(client, server) { ssl in
            try attach(policy, to: ssl)
            var all = Array("P-256".utf8CString)
            #expect(SSL_ctrl(ssl, SSL_CTRL_SET_GROUPS_LIST, 0, &all) == 1)
        }
        #expect(handshake.isFinished)
        #expect(TLSVerification.evaluation(of: handshake.client) == nil)
    }

    @Test("X25519MLKEM768 exists from OpenSSL 3.5 on; before, requiring it is an error")
    func hybrid() throws {
        #expect(TLSGroup.x25519MLKEM768.isAvailable == (OPENSSL_version_major() > 3 || OPENSSL_version_minor() >= 5))
        var configuration = SecurityPolicy.Configuration()
        configuration.requireGroups = [.x25519MLKEM768]
        guard TLSGroup.x25519MLKEM768.isAvailable else {
            let fault = try #require(configuration.faults().first)
            #expect(fault.key == "requireGroups/0" && fault.message.contains("has no group X25519MLKEM768"))
            #expect(fault.message.contains("OpenSSL 3.") && fault.remedy.contains("OpenSSL 3.5"))
            return
        }
        let policy = try SecurityPolicy(configuration)
        let handshake = try handshake(.modern, policy, with: try server(version: TLS1_3_VERSION))
        #expect(TLSVerification.evaluation(of: handshake.client)?.tlsGroup == .x25519MLKEM768)
        #expect(
            try !self.handshake(.modern, policy, with: try server(groups: "X25519", version: TLS1_3_VERSION)).isFinished
        )
        #expect(try !self.handshake(.modern, policy, with: try server(version: TLS1_2_VERSION)).isFinished)
    }

    @Test("a group of ML-KEM alone implies TLS 1.3")
    func lowestVersion() {
        var configuration = SecurityPolicy.Configuration()
        #expect(configuration.lowestTLSVersion == .tls12)
        configuration.requireGroups = [.x25519MLKEM768]
        #expect(configuration.lowestTLSVersion == .tls13)
        configuration.requireGroups = [.x25519MLKEM768, .x25519]
        #expect(configuration.lowestTLSVersion == .tls12)
        configuration.minTLSVersion = .tls13
        #expect(configuration.lowestTLSVersion == .tls13)
    }

    // MARK: Trials

    @Test("a trial sees what the server accepts, and never accepts it")
    func trial() throws {
        for isTrial in [true, false] {
            let client = InMemoryClient()
            try TLSVerification.prepare(client.context, .compatible)
            var verification: TLSVerification?
            let handshake = try InMemoryHandshake(client, try server(ciphers: "AES128-SHA")) { ssl in
                verification = try attach(.unpinned, to: ssl, .compatible, isTrial: isTrial)
            }
            #expect(handshake.isFinished == !isTrial)
            #expect(verification?.hasSeenChain == true)
            #expect((verification?.lastTrust == nil) == isTrial)
            #expect((TLSVerification.evaluation(of: handshake.client) == nil) == isTrial)
        }
    }

    @Test(
        "a trial says nothing about a server that chooses a usual offer",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func needlessTrial(version: Int32) throws {
        let client = InMemoryClient()
        try TLSVerification.prepare(client.context, .compatible)
        var verification: TLSVerification?
        let handshake = try InMemoryHandshake(
            client,
            try server(ciphers: "ECDHE-RSA-AES128-GCM-SHA256", version: version)
        ) { ssl in
            verification = try attach(.unpinned, to: ssl, .compatible, isTrial: true)
        }
        #expect(!handshake.isFinished && verification?.hasSeenChain == false)
    }
}
