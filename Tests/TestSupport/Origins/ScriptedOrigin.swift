// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Foundation
import Glibc
package import ServerTrust

/// An origin that runs a test's script, and records every connection: most important, the number of received bytes of
/// application data.
///
/// Each connection has a thread that runs the script. OpenSSL provides TLS; without a server identity the origin uses
/// plain HTTP.
package final class ScriptedOrigin: Sendable {
    package typealias Script = @Sendable (OriginConnection) throws -> Void

    /// The record of one connection.
    package struct Record: Sendable {
        /// Whether the handshake has succeeded; always true without TLS.
        package internal(set) var isEstablished = false
        /// The number of bytes of application data from the client, inside TLS.
        package internal(set) var applicationBytes = 0
        package internal(set) var bytesWritten = 0
        /// The number of HTTP/2 frames of requests: HEADERS, CONTINUATION and DATA (counted by `HTTP2Script`).
        package internal(set) var requestFrames = 0
        package internal(set) var requests: [HTTPMessage] = []
        /// Whether the connection has ended.
        package internal(set) var isClosed = false
        /// Whether the client had disconnected, or sent a malformed request.
        package internal(set) var failure: String?
        var descriptor: Int32 = -1
    }

    package let port: UInt16
    private let listener: Int32
    private let ledger = Monitor<[Record]>([])

    /// Starts an origin on a free port of 127.0.0.1.
    ///
    /// - Parameters:
    ///   - server: the identity for TLS; nil for plain HTTP.
    ///   - successor: the identity for TLS from the second connection on.
    ///   - protocols: the protocols for ALPN, the preferred one first.
    ///   - laterProtocols: the same from the second connection on, nil for no difference.
    ///   - insistsOnProtocols: breaks the handshake with a client that offers none of them off, as nginx does.
    ///   - maximum: the highest version of TLS.
    ///   - staple: an OCSP response (DER) for clients that request one.
    ///   - listening: a socket of `TestSocket.listen` to take over; nil makes one.
    ///   - script: runs on each connection; its end closes the connection properly.
    package init(
        _ server: TestServer?,
        successor: TestServer? = nil,
        protocols: [String] = [],
        laterProtocols: [String]? = nil,
        insistsOnProtocols: Bool = false,
        maximum: TLSVersion = .tls13,
        staple: [UInt8]? = nil,
        on listening: (descriptor: Int32, port: UInt16)? = nil,
        script: @escaping Script
    ) throws {
        func makeContext(_ server: TestServer, _ protocols: [String]) throws -> ServerContext {
            try ServerContext(server, protocols, insistsOnProtocols, maximum: maximum, staple: staple)
        }
        let context = try server.map { try makeContext($0, protocols) }
        let later =
            successor == nil && laterProtocols == nil
            ? context : try (successor ?? server).map { try makeContext($0, laterProtocols ?? protocols) }
        let listening = try listening ?? TestSocket.listen()
        listener = listening.descriptor
        port = listening.port
        let ledger = ledger
        let listener = listener
        Thread.detachNewThread {
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else {
                    if errno == EINTR || errno == ECONNABORTED { continue }
                    break
                }
                TestSocket.setTimeouts(descriptor, seconds: 60)
                var one: Int32 = 1
                setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
                let number = ledger.with { records in
                    records.append(Record())
                    records[records.count - 1].descriptor = descriptor
                    return records.count - 1
                }
                Thread.detachNewThread { Self.play(script, number, descriptor, number == 0 ? context : later, ledger) }
            }
            close(listener)
        }
    }

    /// Starts an origin that responds to every request with the closure's result.
    package convenience init(
        _ server: TestServer?,
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(server) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        ledger.with { records in
            for record in records where record.descriptor >= 0 { shutdown(record.descriptor, Int32(SHUT_RDWR)) }
        }
    }

    private static func play(
        _ script: Script,
        _ number: Int,
        _ descriptor: Int32,
        _ context: ServerContext?,
        _ ledger: Monitor<[Record]>
    ) {
        var tls: OpaquePointer?
        var isEstablished = true
        if let context {
            tls = SSL_new(context.pointer)
            SSL_set_fd(tls, descriptor)
            ERR_clear_error()
            isEstablished = SSL_accept(tls) == 1
        }
        let connection = OriginConnection(number: number, descriptor: descriptor, tls: tls, ledger: ledger)
        guard isEstablished else {
            // The rest of the input is read as well, so that every byte is counted.
            connection.readToEnd()
            connection.close(.cut)
            return
        }
        connection.record { $0.isEstablished = true }
        do {
            try script(connection)
            connection.close()
        } catch {
            connection.record { $0.failure = "\(error)" }
            connection.close(.cut)
        }
    }

    // MARK: The record

    /// All connections so far, in the order of acceptance.
    package var connections: [Record] { ledger.read { $0 } }

    /// All requests so far, connection by connection.
    package var requests: [HTTPMessage] { connections.flatMap(\.requests) }

    /// Bytes of application data over all connections.
    package var applicationBytes: Int { connections.reduce(0) { $0 + $1.applicationBytes } }

    /// Waits until the record meets a condition.
    @discardableResult
    package func wait<Result>(
        for what: String,
        seconds: Double = Patience.seconds,
        until body: ([Record]) throws -> Result?
    ) throws -> Result {
        try ledger.wait(for: what, seconds: seconds, until: body)
    }

    /// Waits until all connections so far, and at least `count`, have ended, so that no more bytes can arrive.
    @discardableResult
    package func waitForClosed(_ count: Int = 1) throws -> [Record] {
        try wait(for: "\(count) closed connections at the origin") { records in
            records.count >= count && records.allSatisfy(\.isClosed) ? records : nil
        }
    }
}

/// An `SSL_CTX` for a scripted origin.
///
/// `@unchecked Sendable` because it is immutable after `init`; SSL_new(3) takes OpenSSL's own locks.
private final class ServerContext: @unchecked Sendable {
    let pointer: OpaquePointer
    /// The length of the list, whether one of it has to be offered, and the wire format of ALPN: each name with a length prefix.
    private let protocols: UnsafeMutableBufferPointer<UInt8>
    private let staple: ServedStaple?

    init(
        _ server: TestServer,
        _ names: [String],
        _ insistsOnNames: Bool,
        maximum: TLSVersion,
        staple: [UInt8]?
    ) throws {
        let context: OpaquePointer = SSL_CTX_new(TLS_server_method())
        pointer = context
        self.staple = staple.map { ServedStaple($0, on: context) }
        // SSL_OP_NO_TLSv1_3, which is a macro of a cast.
        if maximum == .tls12 { SSL_CTX_set_options(pointer, 1 << 29) }
        let wire = names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        protocols = .allocate(capacity: wire.count + 2)
        protocols[0] = UInt8(wire.count)
        protocols[1] = insistsOnNames ? 1 : 0
        for (index, byte) in wire.enumerated() { protocols[index + 2] = byte }
        // Weak keys are allowed, so that the client evaluates them.
        SSL_CTX_set_security_level(pointer, 0)
        let folder = try TemporaryFolder()
        let files = try server.write(to: folder, name: "server")
        guard SSL_CTX_use_certificate_chain_file(pointer, files.certificate) == 1,
            SSL_CTX_use_PrivateKey_file(pointer, files.key, SSL_FILETYPE_PEM) == 1
        else { throw OpenSSLError(draining: "the origin's certificate or key") }
        guard !names.isEmpty else { return }
        SSL_CTX_set_alpn_select_cb(
            pointer,
            { _, chosen, chosenLength, offered, offeredLength, own in
                let list = own!.assumingMemoryBound(to: UInt8.self)
                var selected: UnsafeMutablePointer<UInt8>?
                let result = SSL_select_next_proto(
                    &selected,
                    chosenLength,
                    list + 2,
                    UInt32(list[0]),
                    offered,
                    offeredLength
                )
                chosen?.pointee = UnsafePointer(selected)
                if result == OPENSSL_NPN_NEGOTIATED { return SSL_TLSEXT_ERR_OK }
                return list[1] == 1 ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK
            },
            protocols.baseAddress
        )
    }

    deinit {
        SSL_CTX_free(pointer)
        protocols.deallocate()
    }
}
