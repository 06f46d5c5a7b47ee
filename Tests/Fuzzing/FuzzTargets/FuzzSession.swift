// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Foundation
import HTTPCore
import ServerTrust
import TestSupport

/// A property that an input broke.
package struct FuzzFinding: Error {
    package var message: String

    init(_ message: String) {
        self.message = message
    }
}

/// The readers of bytes from outside that are fuzzed. The raw value names the target for `make fuzz` and its folder in
/// `Tests/Fuzzing/Corpus`.
package enum FuzzTarget: String, CaseIterable, Sendable {
    case pinFile = "pin-file"
    case configuration
    /// What the source of a credential gave.
    case credential
    case certificate
    case privateKey = "private-key"
    case staple
    case json
    case requestHead = "request-head"
    case responseHead = "response-head"
    /// Whole responses over HTTP/1.1, as an origin's connection brings them.
    case response
    case chunks
    case http2
    /// The client's side of HTTP/2: an origin's bytes.
    case http2Client = "http2-client"
    /// The frames of a WebSocket's peer, with and without compression.
    case webSocket = "websocket"
    /// Content codings of responses, and their digests.
    case coding
    /// The fields of W3C Trace Context.
    case trace
    /// The pool of a host's connections, under any order of events.
    case pool
    /// Records and purges of a shared cache, opened.
    case sharedRecord = "shared-record"
    case names
    /// Challenges, cookies, resume data.
    case session
    /// A TLS client's first message, as a tunnel parses it.
    case clientHello = "client-hello"
    /// A peer's part of a TLS handshake, with a server and with a client.
    case handshake
    /// The admin listener's documents of what peers have sent.
    case admin
    /// A whole proxy between scripted clients and origins.
    case proxy
}

/// The state of a target, which is made once and used for all inputs.
///
/// A target checks properties of its parser; libFuzzer and the sanitizers detect crashes, hangs and leaks.
package final class FuzzSession {
    private let target: FuzzTarget
    private let pki: FuzzPKI
    private let readDocuments: DocumentProperties
    private let readCertificates: CertificateProperties
    private let shakeHands: HandshakeProperties?
    private let show: AdminProperties?
    private let drive: ProxyProperties?

    /// - Parameter isAlone: whether nothing else runs in the process, so that descriptors that are left open can be
    ///   detected.
    package init(_ target: FuzzTarget, isAlone: Bool = false) throws {
        self.target = target
        pki = try FuzzPKI()
        readDocuments = DocumentProperties(folder: pki.folder.path)
        readCertificates = try CertificateProperties(pki)
        shakeHands = target == .handshake ? try HandshakeProperties(pki) : nil
        show = target == .admin ? try AdminProperties(pki) : nil
        drive = target == .proxy ? try ProxyProperties(isAlone: isAlone) : nil
    }

    /// A PEM file with one authority.
    package var authorityFile: String { pki.folder.path + "/root.pem" }

    /// Runs one input.
    ///
    /// - Throws: the property that it broke.
    package func run(_ bytes: [UInt8]) throws(FuzzFinding) {
        // The error queue belongs to the thread, and in the tests another target has used this thread before.
        ERR_clear_error()
        switch target {
        case .pinFile: try readDocuments.pinFile(bytes)
        case .configuration: try readDocuments.configuration(bytes)
        case .json:
            try readDocuments.json(bytes)
            try JSONValueProperties.json(bytes)
        case .credential: try CredentialProperties.outputs(bytes)
        case .certificate: try readCertificates.certificates(bytes)
        case .privateKey: try readCertificates.privateKey(bytes)
        case .staple: try readCertificates.staple(bytes)
        case .requestHead: try MessageProperties.requests(bytes)
        case .responseHead: try MessageProperties.responses(bytes)
        case .response: try ResponseProperties.responses(bytes)
        case .chunks: try MessageProperties.chunks(bytes)
        case .http2: try HTTP2Properties.connection(bytes)
        case .http2Client: try HTTP2ClientProperties.connection(bytes)
        case .webSocket: try WebSocketProperties.frames(bytes)
        case .coding: try CodingProperties.content(bytes)
        case .trace: try TraceProperties.contexts(bytes)
        case .pool: try PoolProperties.events(bytes)
        case .sharedRecord: try SharedRecordProperties.all(bytes)
        case .names:
            try NameProperties.names(bytes)
            try SpellingProperties.spellings(bytes)
        case .session: try SessionProperties.all(bytes)
        case .clientHello: try ClientHelloProperties.hellos(bytes)
        case .handshake: try shakeHands?.flight(bytes)
        case .admin: try show?.documents(bytes)
        case .proxy: try drive?.run(bytes)
        }
    }

    /// Generated inputs: certificates of many kinds, and private keys, which the repository must not contain. Empty for
    /// targets with a sufficient corpus.
    package var seeds: [[UInt8]] {
        get throws {
            switch target {
            case .certificate: try pki.certificateSeeds()
            case .privateKey: try pki.privateKeySeeds()
            case .staple: try pki.stapleSeeds()
            case .handshake: shakeHands?.seeds(pki) ?? []
            default: []
            }
        }
    }

    /// Writes `seeds` as files of a folder.
    package func writeSeeds(to folder: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (number, seed) in try seeds.enumerated() {
            try Data(seed).write(to: URL(fileURLWithPath: folder).appendingPathComponent("made-\(number)"))
        }
    }
}
