import COpenSSL
import CShims
import Foundation
import Glibc
package import ServerTrust

/// An origin that does what a test's script says, well or badly, and keeps a record of every connection: above all,
/// how many bytes of application data it has received.
///
/// A thread of its own plays the script on each connection. TLS is OpenSSL's; without a server it speaks plain HTTP.
package final class ScriptedOrigin: Sendable {
    package typealias Script = @Sendable (OriginConnection) throws -> Void

    /// What has happened on one connection so far.
    package struct Record: Sendable {
        /// The handshake has come to a good end; true at once without TLS.
        package internal(set) var isEstablished = false
        /// Bytes of application data from the client: what TLS carried.
        package internal(set) var applicationBytes = 0
        package internal(set) var bytesWritten = 0
        /// Frames of HTTP/2 that belong to a request: HEADERS, CONTINUATION and DATA (counted by `HTTP2Script`).
        package internal(set) var requestFrames = 0
        package internal(set) var requests: [HTTPMessage] = []
        /// The connection is over.
        package internal(set) var isClosed = false
        /// The script found the client gone, or its request malformed.
        package internal(set) var failure: String?
        var descriptor: Int32 = -1
    }

    package let port: UInt16
    private let listener: Int32
    private let ledger = Monitor<[Record]>([])

    /// Starts an origin on a free port of 127.0.0.1.
    ///
    /// - Parameters:
    ///   - server: what it serves TLS with; nil for plain HTTP.
    ///   - successor: what it serves TLS with from the second connection on.
    ///   - protocols: what it selects by ALPN, the best first.
    ///   - maximum: the highest version of TLS.
    ///   - staple: an OCSP response (DER) for clients that ask for one.
    ///   - listening: a socket of `TestSocket.listen` to take over; nil makes one.
    ///   - script: played on each connection; its end closes the connection cleanly.
    package init(
        _ server: TestServer?,
        successor: TestServer? = nil,
        protocols: [String] = [],
        maximum: TLSVersion = .tls13,
        staple: [UInt8]? = nil,
        on listening: (descriptor: Int32, port: UInt16)? = nil,
        script: @escaping Script
    ) throws {
        func makeContext(_ server: TestServer) throws -> ServerContext {
            try ServerContext(server, protocols: protocols, maximum: maximum, staple: staple)
        }
        let context = try server.map(makeContext)
        let later = try successor.map(makeContext) ?? context
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

    /// An origin that answers every request with what the closure says, as long as the client stays.
    package convenience init(
        _ server: TestServer?,
        answering answer: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(server) { connection in
            while let request = try connection.readRequest() { try connection.write(answer(request)) }
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
            // A server that was fooled would read on: whatever came is counted.
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
    package var connections: [Record] { ledger.with { $0 } }

    /// All requests so far, connection by connection.
    package var requests: [HTTPMessage] { connections.flatMap(\.requests) }

    /// Bytes of application data over all connections.
    package var applicationBytes: Int { connections.reduce(0) { $0 + $1.applicationBytes } }

    /// Waits until the record is as wanted.
    @discardableResult
    package func wait<Result>(
        for what: String,
        seconds: Double = Patience.seconds,
        until body: ([Record]) throws -> Result?
    ) throws -> Result {
        try ledger.wait(for: what, seconds: seconds, until: body)
    }

    /// Waits until every connection so far, and at least `count`, is over: nothing more can arrive then.
    @discardableResult
    package func waitForClosed(_ count: Int = 1) throws -> [Record] {
        try wait(for: "\(count) closed connections at the origin") { records in
            records.count >= count && records.allSatisfy(\.isClosed) ? records : nil
        }
    }
}

/// An `SSL_CTX` for a scripted origin.
///
/// `@unchecked Sendable` because it is not changed after `init`; making connections of it takes OpenSSL's own locks.
private final class ServerContext: @unchecked Sendable {
    let pointer: OpaquePointer
    /// As ALPN has it: each name after its length.
    private let protocols: UnsafeMutableBufferPointer<UInt8>
    private let staple: ServedStaple?

    init(_ server: TestServer, protocols names: [String], maximum: TLSVersion, staple: [UInt8]?) throws {
        let context: OpaquePointer = SSL_CTX_new(TLS_server_method())
        pointer = context
        self.staple = staple.map { ServedStaple($0, on: context) }
        // SSL_OP_NO_TLSv1_3, which is a macro of a cast.
        if maximum == .tls12 { SSL_CTX_set_options(pointer, 1 << 29) }
        let wire = names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        protocols = .allocate(capacity: wire.count + 1)
        protocols[0] = UInt8(wire.count)
        for (index, byte) in wire.enumerated() { protocols[index + 1] = byte }
        // For weak keys to get as far as the client's judgement.
        SSL_CTX_set_security_level(pointer, 0)
        let folder = try TemporaryFolder()
        let files = try server.write(to: folder, name: "server")
        guard SSL_CTX_use_certificate_chain_file(pointer, files.certificate) == 1,
            SSL_CTX_use_PrivateKey_file(pointer, files.key, SSL_FILETYPE_PEM) == 1
        else { throw ChildProcess.Failure(description: "the origin's certificate or key cannot be used") }
        guard !names.isEmpty else { return }
        SSL_CTX_set_alpn_select_cb(
            pointer,
            { _, chosen, chosenLength, offered, offeredLength, own in
                let list = own!.assumingMemoryBound(to: UInt8.self)
                var selected: UnsafeMutablePointer<UInt8>?
                let result = SSL_select_next_proto(
                    &selected,
                    chosenLength,
                    list + 1,
                    UInt32(list[0]),
                    offered,
                    offeredLength
                )
                chosen?.pointee = UnsafePointer(selected)
                return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK
            },
            protocols.baseAddress
        )
    }

    deinit {
        SSL_CTX_free(pointer)
        protocols.deallocate()
    }
}
