import CLibcurl
import COpenSSL
import CShims
import IOCore

/// A transfer that makes a connection for a stream, and then only holds it for libcurl.
extension Transfer {
    /// Offers the protocols in the handshake (RFC 7301, section 3.1: each name after its length).
    func offer(_ protocols: [ApplicationProtocol], _ context: OpaquePointer) -> Bool {
        guard !protocols.isEmpty else { return true }
        let names = protocols.flatMap { name in [UInt8(name.rawValue.utf8.count)] + Array(name.rawValue.utf8) }
        // 0 is success (SSL_CTX_set_alpn_protos(3)).
        return SSL_CTX_set_alpn_protos(context, names, UInt32(names.count)) == 0
    }

    /// What the server has chosen; nil when it chose none.
    var applicationProtocol: ApplicationProtocol? {
        guard let ssl else { return nil }
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &count)
        let chosen = UnsafeBufferPointer(start: name, count: Int(count))
        return ApplicationProtocol(rawValue: String(decoding: chosen, as: UTF8.self))
    }

    /// Takes the connection out of libcurl's hands; libcurl still has it, as one in use.
    ///
    /// - Parameters:
    ///   - early: receives what had come already.
    ///   - reading: receives how that first read ended.
    /// - Returns: nil when libcurl has it no more.
    func takeConnection(
        for stream: LoopStreamTask,
        early: inout ByteBuffer,
        reading: inout StreamConnection.Reading
    ) -> StreamConnection? {
        var result = CURLE_OK
        var count = 0
        var descriptor = CURL_SOCKET_BAD
        _ = early.write(upTo: Int(CURL_MAX_WRITE_SIZE)) { room in
            descriptor = pinproxy_easy_take_connection(easy, room.baseAddress, room.count, &count, &result)
            return count
        }
        guard pool.leaveEvents(of: descriptor) else { return nil }
        var tls: (ssl: OpaquePointer, record: ConnectionRecord)?
        if stream.endpoint.scheme == .https {
            guard let ssl, let record, record.isOpen else { return nil }
            tls = (ssl, record)
        }
        // Nobody needs to tell the pool of records any more.
        record?.transfer = nil
        reading =
            switch result {
            case CURLE_OK where count > 0: .bytes(count)
            case CURLE_OK where record?.receivedCloseNotify ?? true: .end
            case CURLE_OK: .broken("the connection ended without close_notify")
            case CURLE_AGAIN: .wouldBlock
            default: .broken(lastWords(result))
            }
        return StreamConnection(descriptor: descriptor, tls: tls, loop: pool.loop, owner: stream)
    }
}
