// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON
import TestSupport

/// TLS handshakes in memory with a peer that sends any bytes: with a server, before it is trusted, and with a client, before it is known.
///
/// The first byte of an input chooses the side that is under test and its settings, the second one the size of the pieces
/// in which the rest comes. A peer of TLS 1.3 has to repeat the session that a client's hello names, which no input can know: it
/// takes the place of `sessionMark`.
final class HandshakeProperties {
    private let context: OpaquePointer
    private let anchors: TrustAnchors
    private let policies: [SecurityPolicy]
    private let host: Host
    private let servers: [TLSServerContext]

    /// Stands in inputs for the session of the hello that they respond to.
    static let sessionMark = [UInt8](repeating: 0x5A, count: 32)
    /// Time on the processor of all that a flight makes OpenSSL compute; below libFuzzer's patience.
    private static let patience: UInt64 = 2_000_000_000
    /// More rounds than a handshake has.
    private static let mostRounds = 64

    init(_ pki: FuzzPKI) throws {
        host = try Host("api.example.com")
        anchors = pki.pki.anchors
        var stapling = SecurityPolicy.Configuration()
        stapling.requiresStaple = true
        policies = [.unpinned, try SecurityPolicy(stapling)]
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw FuzzFinding("OpenSSL has no context") }
        self.context = context
        try TLSVerification.prepare(context)
        var demanding = TLSServerContext.Settings()
        demanding.clientAuthorities = [pki.pki.root.certificate]
        let identity = try ServerIdentity(
            certificate: Array(pki.server.chainPEM.utf8),
            privateKey: Array(pki.server.privateKeyPEM.utf8)
        )
        servers = [try TLSServerContext(identity, demanding), try TLSServerContext(identity)]
    }

    deinit { SSL_CTX_free(context) }

    func flight(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard bytes.count > 2 else { return }
        let start = Clock.processorTimeOfThread
        let size = max(1, Int(bytes[1]) * 64)
        if bytes[0] & 1 == 0 {
            try fromServer(Array(bytes.dropFirst(2)), size, policies[Int(bytes[0] >> 1) % policies.count])
        } else {
            try fromClient(Array(bytes.dropFirst(2)), size, servers[Int(bytes[0] >> 1) % servers.count])
        }
        let spent = Clock.processorTimeOfThread &- start
        guard spent < Self.patience else { throw FuzzFinding("the flight cost \(spent / 1_000_000) ms") }
    }

    /// A server without the key never completes a handshake, and never gets another verdict than its chain deserves.
    private func fromServer(_ flight: [UInt8], _ size: Int, _ policy: SecurityPolicy) throws(FuzzFinding) {
        guard let ssl = SSL_new(context), let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem())
        else {
            throw FuzzFinding("OpenSSL has no memory")
        }
        defer { SSL_free(ssl) }
        SSL_set_bio(ssl, incoming, outgoing)
        let verification: TLSVerification
        do {
            verification = try TLSVerification.attach(
                to: ssl,
                policy: policy,
                host: host,
                anchors: anchors,
                generation: 1,
                identity: nil
            )
        } catch {
            throw FuzzFinding("no policy: \(error)")
        }
        SSL_set_connect_state(ssl)
        var rest = flight[...]
        for round in 0..<Self.mostRounds {
            ERR_clear_error()
            let result = SSL_do_handshake(ssl)
            guard result != 1 else { throw FuzzFinding("a handshake was completed without a key") }
            guard SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ else { break }
            if round == 0 { rest = Self.naming(Self.session(of: outgoing), in: flight)[...] }
            guard !rest.isEmpty else { break }
            let piece = Array(round == Self.mostRounds - 2 ? rest : rest.prefix(size))
            rest = rest.dropFirst(piece.count)
            BIO_write(incoming, piece, Int32(piece.count))
        }
        if let evaluation = verification.lastTrust?.evaluation {
            guard evaluation.isAccepted == (evaluation.failure == nil) else {
                throw FuzzFinding("accepted with a failure")
            }
            try text(evaluation.description)
        }
        let error = OpenSSLError(draining: "TLS handshake")
        try text(error.description)
    }

    /// A client without the key of a certificate that an authority has signed is never let in.
    private func fromClient(_ flight: [UInt8], _ size: Int, _ server: TLSServerContext) throws(FuzzFinding) {
        guard let session = try? server.session() else { throw FuzzFinding("OpenSSL has no memory") }
        var rest = flight[...]
        while true {
            let piece = Array(rest.prefix(size))
            rest = rest.dropFirst(piece.count)
            session.incoming.append(piece.span)
            session.incomingHasEnded = rest.isEmpty
            let progress = session.handshake()
            guard ERR_peek_error() == 0 else { throw FuzzFinding("an entry is left in OpenSSL's error queue") }
            if case .bytes = progress { throw FuzzFinding("a handshake was completed without a key") }
            if case .failed(let error) = progress { try text(error.description) }
            guard session.clientCertificate == nil else { throw FuzzFinding("a client is known without a key") }
            guard progress == .needsInput, !rest.isEmpty else { break }
        }
        try text(session.serverName.legible)
        session.sendCloseNotify()
        guard ERR_peek_error() == 0 else { throw FuzzFinding("an entry is left in OpenSSL's error queue") }
    }

    // MARK: Inputs

    /// The session that our hello names, in its first record.
    private static func session(of outgoing: OpaquePointer) -> [UInt8] {
        var hello = [UInt8](repeating: 0, count: 128)
        // Taken from what the peer would read, which nobody does.
        guard BIO_read(outgoing, &hello, 128) == 128, hello[43] == 32 else { return [] }
        return Array(hello[44..<76])
    }

    private static func naming(_ session: [UInt8], in flight: [UInt8]) -> [UInt8] {
        guard session.count == sessionMark.count,
            let place = flight.indices.first(where: { flight[$0...].starts(with: sessionMark) })
        else { return flight }
        return Array(flight[..<place]) + session + flight[(place + session.count)...]
    }

    /// Flights of a server whose certificates are those that were made, and hellos of OpenSSL's own client.
    func seeds(_ pki: FuzzPKI) -> [[UInt8]] {
        let root = pki.pki.root.certificate
        let chains = [pki.server.chain, [root], Array(repeating: root, count: 17)]
        var seeds: [[UInt8]] = []
        for settings: UInt8 in [0, 2] {
            for chain in chains {
                seeds.append([settings, 255] + Self.records(Self.serverHello + Self.certificates(chain)))
            }
            seeds.append([settings, 1] + Self.records(Self.serverHello + Self.certificates([])))
        }
        seeds.append([0, 255] + Self.records(Self.retry))
        if let ssl = SSL_new(context), let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem()) {
            SSL_set_bio(ssl, incoming, outgoing)
            SSL_set_connect_state(ssl)
            SSL_do_handshake(ssl)
            var hello = [UInt8](repeating: 0, count: 4096)
            let count = Int(max(BIO_read(outgoing, &hello, 4096), 0))
            for settings: UInt8 in [1, 3] { seeds.append([settings, 255] + hello.prefix(count)) }
            SSL_free(ssl)
        }
        ERR_clear_error()
        return seeds
    }

    private static func records(_ content: [UInt8]) -> [UInt8] {
        var records: [UInt8] = []
        var rest = content[...]
        while !rest.isEmpty {
            let piece = rest.prefix(16_384)
            records += [22, 3, 3, UInt8(piece.count >> 8), UInt8(piece.count & 255)] + piece
            rest = rest.dropFirst(piece.count)
        }
        return records
    }

    private static func message(_ kind: UInt8, _ content: [UInt8]) -> [UInt8] { [kind] + vector(content) + content }

    /// The length in three bytes.
    private static func vector(_ content: [UInt8]) -> [UInt8] {
        [UInt8(content.count >> 16 & 255), UInt8(content.count >> 8 & 255), UInt8(content.count & 255)]
    }

    /// TLS 1.2, ECDHE with ECDSA.
    private static let serverHello = message(
        2,
        [3, 3] + [UInt8](repeating: 7, count: 32) + [0, 0xC0, 0x2B, 0]
            + [0, 15, 0, 23, 0, 0, 0xFF, 1, 0, 1, 0, 0, 11, 0, 2, 1, 0]
    )

    private static func certificates(_ chain: [Certificate]) -> [UInt8] {
        let list = chain.flatMap { vector($0.derBytes) + $0.derBytes }
        return message(11, vector(list) + list)
    }

    /// TLS 1.3: HelloRetryRequest for secp521r1 (RFC 8446, section 4.1.4).
    private static let retry = message(
        2,
        [3, 3] + [
            0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91,
            0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
        ] + [32] + sessionMark + [0x13, 0x01, 0] + [0, 12, 0, 43, 0, 2, 3, 4, 0, 51, 0, 2, 0, 25]
    )

    /// Texts go to terminals and logs.
    private func text(_ text: String) throws(FuzzFinding) {
        for scalar in text.unicodeScalars where scalar.disturbsLine {
            throw FuzzFinding("the character U+\(String(scalar.value, radix: 16)) in \(text.debugDescription)")
        }
    }
}
