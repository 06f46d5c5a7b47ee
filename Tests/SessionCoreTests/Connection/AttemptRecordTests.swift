// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import ServerTrust
@testable import SessionCore

@Suite("What an attempt knows of the connection that it makes")
struct AttemptRecordTests {
    private static let pki = TestPKI.shared
    private static let peer = SocketAddress(ipv4: 0x7F00_0001, port: 443)
    private static let absent = TransactionMetrics.absent

    /// An attempt that has begun at 5 ms of the loop's clock.
    private func record(to peer: SocketAddress? = Self.peer) -> AttemptRecord {
        var record = AttemptRecord(startedAt: 5_000_000)
        record.didConnect(to: peer)
        return record
    }

    private static func proxy() -> ProxyConnectionInfo {
        ProxyConnectionInfo(
            authority: "proxy.example:8443",
            tlsVersion: nil,
            cipher: nil,
            tlsGroup: nil,
            evaluation: nil,
            note: []
        )
    }

    /// The times in their order, of those that are there.
    private static func times(_ record: AttemptRecord) -> [Int64] {
        let times = record.times
        return [
            times.lookupEnd, times.connectStart, times.proxySecureConnectionStart, times.proxySecureConnectionEnd,
            times.secureConnectionStart, times.secureConnectionEnd, times.connectEnd,
        ]
    }

    private static func trust(isAccepted: Bool) throws -> ConnectionTrust {
        let server = try pki.server("a.example")
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins =
            isAccepted ? [Pin(server.pin), Pin(.unrelated(1))] : [Pin(.unrelated(1)), Pin(.unrelated(2))]
        let policy = try SecurityPolicy(configuration)
        let evaluation = policy.evaluate(
            chain: server.chain,
            host: try Host("a.example"),
            anchors: pki.anchors,
            at: nil
        )
        #expect(evaluation.isAccepted == isAccepted)
        return ConnectionTrust(
            policy: policy,
            anchors: pki.anchors,
            generation: 1,
            evaluation: evaluation,
            tlsVersion: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            tlsGroup: .x25519
        )
    }

    // MARK: Times

    @Test("times are microseconds from the start, absent for steps not taken")
    func times() {
        var record = record()
        #expect(Self.times(record) == Array(repeating: Self.absent, count: 7))
        record.dialDidEnd(lookup: 3)
        #expect(Self.times(record) == [3, 3] + Array(repeating: Self.absent, count: 5))
        record.handshakeDidBegin(at: 5_020_999)
        #expect(Self.times(record).suffix(3) == [20, Self.absent, Self.absent])
        record.handshakeDidEnd(at: 5_031_000)
        #expect(Self.times(record) == [3, 3, Self.absent, Self.absent, 20, 31, 31])
    }

    @Test("the end of a connection without TLS is the end of no handshake")
    func plainTimes() {
        var record = record()
        record.didEnd(at: 5_007_000)
        #expect(Self.times(record).suffix(3) == [Self.absent, Self.absent, 7])
    }

    @Test("the times of TLS to a proxy are those that it has now")
    func proxyTimes() {
        var record = record()
        record.noteProxy(handshakeStart: 5_001_000, handshakeEnd: nil, nil)
        #expect(Self.times(record)[2...3] == [1, Self.absent] && record.proxy == nil)
        let proxy = Self.proxy()
        record.noteProxy(handshakeStart: 5_001_000, handshakeEnd: 5_004_000, proxy)
        #expect(Self.times(record)[2...3] == [1, 4] && record.proxy === proxy)
        record.noteProxy(handshakeStart: nil, handshakeEnd: nil, nil)
        #expect(Self.times(record)[2...3] == [Self.absent, Self.absent] && record.proxy == nil)
    }

    @Test("facts about one address are not reported of the next")
    func nextAddress() {
        var record = record()
        record.dialDidEnd(lookup: 3)
        record.noteProxy(handshakeStart: 5_001_000, handshakeEnd: 5_004_000, Self.proxy())
        record.handshakeDidBegin(at: 5_005_000)
        record.identityFailure = SessionError(.internal, "no certificate")
        record.leaveAddress()
        #expect(Self.times(record) == Array(repeating: Self.absent, count: 7))
        #expect(record.proxy == nil && record.identityFailure == nil && record.withoutTLS == nil)
        record.didConnect(to: Self.peer)
        record.didEnd(at: 5_009_000)
        #expect(record.times.connectEnd == 9 && record.withoutTLS != nil)
    }

    // MARK: Reports

    @Test("a connection without TLS has an address, perhaps a proxy, and no evaluation")
    func withoutTLS() throws {
        var record = record()
        let proxy = Self.proxy()
        record.noteProxy(handshakeStart: nil, handshakeEnd: nil, proxy)
        let info = try #require(record.withoutTLS)
        #expect(info.remoteAddress == Self.peer && info.proxy === proxy)
        #expect(info.tlsVersion == nil && info.cipher == nil && info.evaluation == nil && info.note == [])
    }

    @Test("a verified connection has all facts of its handshake")
    func verified() throws {
        var record = record()
        let (proxy, trust) = (Self.proxy(), try Self.trust(isAccepted: true))
        record.noteProxy(handshakeStart: nil, handshakeEnd: nil, proxy)
        for isMissing in [true, false] {
            let info = try #require(
                record.verified(
                    trust,
                    version: ShortName(Array("TLSv1.2".utf8)),
                    cipher: ShortName(Array("AES".utf8)),
                    isClientCertificateMissing: isMissing,
                    note: [7]
                )
            )
            #expect(info.remoteAddress == Self.peer && info.proxy === proxy && info.note == [7])
            #expect(info.tlsVersion?.description == "TLSv1.2" && info.cipher?.description == "AES")
            #expect(info.tlsGroup == .x25519 && info.evaluation?.isAccepted == true)
            #expect(info.isClientCertificateMissing == isMissing)
        }
    }

    @Test("the report of a refused server has its evaluation and the explanation")
    func refused() throws {
        let trust = try Self.trust(isAccepted: false)
        let info = try #require(record().refused(trust, isClientCertificateMissing: false) { _ in [9] })
        #expect(info.evaluation?.isAccepted == false && info.note == [9] && !info.isClientCertificateMissing)
        #expect(info.tlsVersion?.description == "TLSv1.3" && info.cipher?.description == "TLS_AES_128_GCM_SHA256")
        #expect(info.tlsGroup == .x25519 && info.remoteAddress == Self.peer)
    }

    @Test("an accepted chain without a proof of its key is not told")
    func unproven() throws {
        let trust = try Self.trust(isAccepted: true)
        let info = try #require(record().refused(trust, isClientCertificateMissing: true) { _ in [9] })
        #expect(info.evaluation == nil && info.note == [] && info.isClientCertificateMissing)
        #expect(info.tlsVersion?.description == "TLSv1.3")
        let silent = try #require(record().refused(nil, isClientCertificateMissing: false) { _ in [9] })
        #expect(silent.evaluation == nil && silent.tlsVersion == nil && silent.cipher == nil && silent.note == [])
    }

    @Test("a socket that is no longer connected has no address to report")
    func gone() throws {
        let record = record(to: nil)
        let trust = try Self.trust(isAccepted: true)
        let name = ShortName(Array("x".utf8))
        #expect(record.withoutTLS == nil)
        #expect(record.refused(nil, isClientCertificateMissing: true) { _ in [] } == nil)
        let info = record.verified(trust, version: name, cipher: name, isClientCertificateMissing: false, note: [])
        #expect(info == nil)
    }
}
