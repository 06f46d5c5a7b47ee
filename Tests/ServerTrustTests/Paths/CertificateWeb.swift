// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport

/// CAs by name, each with one key and as many certificates as others sign for it.
struct CertificateWeb {
    /// 15 May 2026, 12:00 UTC.
    static let now: Int64 = 1_778_846_400
    static let host = "api.example.com"

    private(set) var keys: [String: KeyPair] = [:]

    mutating func key(_ name: String) throws -> KeyPair {
        if let key = keys[name] { return key }
        let key = try KeyPair(.p256)
        keys[name] = key
        return key
    }

    func pin(_ name: String) -> PublicKeyPin { keys[name]?.pin ?? .unrelated(250) }

    /// The certificate of a CA.
    ///
    /// - Parameters:
    ///   - issuer: nil for a self-signed one.
    ///   - key: the CA's; by default the one of its name.
    mutating func authority(
        _ name: String,
        by issuer: String? = nil,
        key: String? = nil,
        issuerKey: String? = nil,
        _ change: (inout CertificateBuilder) -> Void = { _ in }
    ) throws -> Certificate {
        var builder = CertificateBuilder.authority(name, validity: TestPKI.validity)
        change(&builder)
        return try builder.certificate(for: self.key(key ?? name), issuer: issuer.map { try signer($0, issuerKey) })
    }

    /// The certificate of the server `host`.
    mutating func server(
        by issuer: String,
        issuerKey: String? = nil,
        _ change: (inout CertificateBuilder) -> Void = { _ in }
    ) throws -> Certificate {
        var builder = CertificateBuilder.server(hosts: [Self.host], validity: TestPKI.validity)
        change(&builder)
        return try builder.certificate(for: key("server"), issuer: signer(issuer, issuerKey))
    }

    /// Name and key of a signer; which of its certificates stands in the middle does not matter.
    mutating func signer(_ name: String, _ key: String? = nil) throws -> Identity {
        let key = try self.key(key ?? name)
        let certificate = try CertificateBuilder.authority(name, validity: TestPKI.validity).certificate(for: key)
        return Identity(certificate: certificate, key: key)
    }

    static func evaluate(
        _ chain: [Certificate],
        anchors: [Certificate],
        intermediates: [Certificate] = [],
        pins: [PublicKeyPin] = [],
        forbidden: [PublicKeyPin] = [],
        lists: RevocationLists? = nil
    ) throws -> TrustEvaluation {
        var configuration = SecurityPolicy.Configuration()
        if !pins.isEmpty {
            configuration.pinningMode = .publicKey
            configuration.pins = pins.map { Pin($0) }
            configuration.allowSinglePin = true
        }
        configuration.revocationLists = lists
        configuration.revocationScope = .chain
        configuration.forbiddenPins = forbidden.map { Pin($0) }
        return try SecurityPolicy(configuration).evaluate(
            chain: chain,
            host: Host(host),
            anchors: TrustAnchors(certificates: anchors, intermediates: intermediates),
            at: CertificateWeb.now
        )
    }
}

extension [Certificate] {
    /// All orders of at most four certificates.
    var orders: [[Certificate]] {
        guard count > 1 else { return [self] }
        return indices.flatMap { index in
            var rest = self
            let first = rest.remove(at: index)
            return rest.orders.map { [first] + $0 }
        }
    }
}
