// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Glibc
import HTTPCore
import ServerTrust

/// A policy's evaluation beside a bare X509_verify_cert(3) with the same store, chain, purpose, strength and host.
struct EvaluationBenchmark {
    private static let rounds = 31
    private static let calls = 200
    private static let host = "api.example.com"

    private let chain: [Certificate]
    private let anchors: TrustAnchors

    init() throws {
        let validity: Range<Int64> = 1_577_836_800..<4_070_908_800
        let root = try CertificateBuilder.authority("bench root", validity: validity).identity()
        let intermediate = try CertificateBuilder.authority("bench intermediate", validity: validity)
            .identity(issuer: root)
        let leaf = try CertificateBuilder.server(hosts: [Self.host], validity: validity).identity(issuer: intermediate)
        chain = [leaf.certificate, intermediate.certificate, root.certificate]
        anchors = TrustAnchors(certificates: [root.certificate])
    }

    func run() throws {
        let unrelated = (1...10).compactMap { PublicKeyPin(digest: [UInt8](repeating: UInt8($0), count: 32)) }
        let nine = unrelated.dropLast().map { Pin($0) }
        var rows = [["policy", "bare", "evaluation", "beyond", "least", "most"]]
        for (name, pins) in [
            ("tenth pin is the root's", nine + [Pin(chain[2].publicKeyPin)]),
            ("tenth pin is the leaf's", nine + [Pin(chain[0].publicKeyPin)]),
            ("no pin matches (refused)", unrelated.map { Pin($0) }),
        ] {
            var configuration = SecurityPolicy.Configuration()
            configuration.pinningMode = .publicKey
            configuration.pins = pins
            rows += try rowPair(name, try SecurityPolicy(configuration))
        }
        rows += try rowPair("no pins (chain and host)", .unpinned)
        Table.print(rows)
    }

    /// The certificates as they were used before, and freshly decoded, as each handshake has them.
    private func rowPair(_ name: String, _ policy: SecurityPolicy) throws -> [[String]] {
        [try row(name, policy, fresh: false), try row(name + ", fresh", policy, fresh: true)]
    }

    private func row(_ name: String, _ policy: SecurityPolicy, fresh: Bool) throws -> [String] {
        let host = try Host(Self.host)
        let accepts =
            policy.pinningMode == .none
            || policy.expectedPins.contains { pin in
                chain.contains { $0.publicKeyPin == pin }
            }
        let ders = chain.map(\.derBytes)
        let kept = PresentedCertificates(ders)
        guard let store = X509_STORE_new(), let root = PresentedCertificates([ders[2]]).leafCopy() else {
            throw BenchmarkFault(message: "OpenSSL has no memory")
        }
        X509_STORE_add_cert(store, root)
        defer {
            X509_free(root)
            X509_STORE_free(store)
        }
        var isRight = true
        func bare() {
            let presented = fresh ? PresentedCertificates(ders) : kept
            isRight = isRight && presented.verify(store: store, host: Self.host)
        }
        func evaluate() {
            let presented = fresh ? PresentedCertificates(ders) : kept
            let report = presented.evaluate(policy, host: host, anchors: anchors)
            isRight = isRight && report?.isAccepted == accepts
        }
        var bares: [Double] = []
        var evaluations: [Double] = []
        for _ in 0..<Self.rounds {
            bares.append(Measurement.nanoseconds(Self.calls, bare) / 1000)
            evaluations.append(Measurement.nanoseconds(Self.calls, evaluate) / 1000)
        }
        guard isRight else { throw BenchmarkFault(message: "\(name): a verdict is not the expected one") }
        let beyond = zip(evaluations, bares).map { $0 - $1 }
        return [name]
            + [
                Measurement.median(bares), Measurement.median(evaluations), Measurement.median(beyond),
                beyond.min() ?? 0,
                beyond.max() ?? 0,
            ].map { Table.number($0) }
    }
}

struct BenchmarkFault: Error, CustomStringConvertible {
    var message: String
    var description: String { message }
}

/// A chain as a handshake has it: decoded from what came, leaf first.
final class PresentedCertificates {
    private let stack: OpaquePointer

    init(_ ders: [[UInt8]]) {
        guard let stack = OPENSSL_sk_new_null() else { fatalError("out of memory") }
        self.stack = stack
        for der in ders {
            der.withUnsafeBufferPointer { bytes in
                var place = bytes.baseAddress
                OPENSSL_sk_push(stack, UnsafeRawPointer(d2i_X509(nil, &place, bytes.count)))
            }
        }
    }

    deinit {
        for index in 0..<OPENSSL_sk_num(stack) { OPENSSL_sk_value(stack, index).map { X509_free(OpaquePointer($0)) } }
        OPENSSL_sk_free(stack)
    }

    private var leaf: OpaquePointer? { OPENSSL_sk_value(stack, 0).map { OpaquePointer($0) } }

    /// The first certificate, in a reference of the caller's own.
    func leafCopy() -> OpaquePointer? {
        X509_up_ref(leaf)
        return leaf
    }

    /// OpenSSL's verification, set up as by hand.
    func verify(store: OpaquePointer, host: String) -> Bool {
        guard let context = X509_STORE_CTX_new() else { return false }
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, store, leaf, stack) == 1,
            let parameters = X509_STORE_CTX_get0_param(context)
        else { return false }
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN) | UInt(X509_V_FLAG_TRUSTED_FIRST))
        X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER)
        X509_VERIFY_PARAM_set_trust(parameters, X509_TRUST_SSL_SERVER)
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        X509_VERIFY_PARAM_set_time(parameters, time(nil))
        X509_VERIFY_PARAM_set1_host(parameters, host, host.utf8.count)
        return X509_verify_cert(context) == 1
    }

    /// The policy's evaluation, asked as in a verify callback.
    func evaluate(_ policy: SecurityPolicy, host: Host, anchors: TrustAnchors) -> TrustEvaluation? {
        guard let context = X509_STORE_CTX_new() else { return nil }
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, nil, leaf, stack) == 1 else { return nil }
        return policy.evaluate(storeContext: context, host: host, anchors: anchors)
    }
}
