import COpenSSL
import CShims
import IOCore
import ServerTrust

/// What is kept with a TLS connection of libcurl's, in the ex-data of its `SSL` (SSL_set_ex_data(3)): found again for
/// each request that the connection carries, and let go of with it. Belongs to the loop, like the connection.
final class ConnectionRecord {
    let info: ConnectionInfo
    /// The connection's socket; -1 when it is not known.
    let descriptor: Int32
    /// The handshake's result, as it was when the connection was new.
    let trust: ConnectionTrust
    /// When the connection carried its first request, in nanoseconds of the loop's clock.
    let madeAt: UInt64
    /// Whether it carries several exchanges at a time (HTTP/2), as the handshake has settled it (RFC 7301).
    let isMultiplexed: Bool
    /// Whether the `SSL` is still there: libcurl frees it when it gives the connection up, also in the middle of a
    /// transfer that it then repeats on another one.
    private(set) var isOpen = true
    /// Whether the peer has said, through TLS, that it ends the connection.
    private(set) var receivedCloseNotify = false
    /// Whether a task's delegate has refused the server, whom the policy accepts.
    var isRefused = false
    /// Whether the connection has carried a request.
    var isUsed = false
    /// Whom the connection carries now, where it carries one at a time.
    var transfer: Transfer?

    init(info: ConnectionInfo, descriptor: Int32, trust: ConnectionTrust, madeAt: UInt64, isMultiplexed: Bool) {
        self.info = info
        self.descriptor = descriptor
        self.trust = trust
        self.madeAt = madeAt
        self.isMultiplexed = isMultiplexed
    }

    /// The record of a connection; made now if the connection is new.
    ///
    /// - Parameter whenNew: told what the handshake of a new connection proved.
    /// - Returns: nil when the connection was not judged: nothing may be sent on it.
    static func of(
        _ ssl: OpaquePointer,
        at now: UInt64,
        descriptor: @autoclosure () -> Int32,
        remoteAddress: @autoclosure () -> SocketAddress,
        whenNew: (ConnectionTrust) -> Void
    ) -> ConnectionRecord? {
        if let known = SSL_get_ex_data(ssl, index) {
            return Unmanaged<ConnectionRecord>.fromOpaque(known).takeUnretainedValue()
        }
        guard let trust = TLSVerification.evaluation(of: ssl) else { return nil }
        let info = ConnectionInfo(
            remoteAddress: remoteAddress(),
            tlsVersion: ShortName(cString: SSL_get_version(ssl)),
            cipher: ShortName(cString: SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))),
            evaluation: trust.evaluation,
            isClientCertificateMissing: TLSVerification.of(ssl)?.isClientCertificateMissing ?? false
        )
        let record = Unmanaged.passRetained(
            ConnectionRecord(
                info: info,
                descriptor: descriptor(),
                trust: trust,
                madeAt: now,
                isMultiplexed: speaksHTTP2(ssl)
            )
        )
        guard SSL_set_ex_data(ssl, index, record.toOpaque()) == 1 else {
            record.release()
            return nil
        }
        whenNew(trust)
        return record.takeUnretainedValue()
    }

    private static func speaksHTTP2(_ ssl: OpaquePointer) -> Bool {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &count)
        return count == 2 && name?[0] == UInt8(ascii: "h") && name?[1] == UInt8(ascii: "2")
    }

    /// Has the end of TLS connections noticed: a body that only the connection's end delimits needs to know.
    static func watchForCloseNotify(_ context: OpaquePointer) {
        SSL_CTX_set_info_callback(context) { ssl, place, value in
            // SSL_CB_READ_ALERT with the description close_notify, which is 0 (RFC 8446, section 6).
            guard place & 0x4004 == 0x4004, value & 0xFF == 0, let ssl,
                let known = SSL_get_ex_data(ssl, ConnectionRecord.index)
            else { return }
            Unmanaged<ConnectionRecord>.fromOpaque(known).takeUnretainedValue().receivedCloseNotify = true
        }
    }

    /// Has OpenSSL read ahead, and tell of each record that it takes from what it has read: then there may be more
    /// that the socket does not tell of.
    static func readAhead(_ context: OpaquePointer) {
        pinproxy_tls_read_ahead(UnsafeMutableRawPointer(context)) { ssl in
            guard let ssl, let known = SSL_get_ex_data(OpaquePointer(ssl), ConnectionRecord.index) else { return }
            Unmanaged<ConnectionRecord>.fromOpaque(known).takeUnretainedValue().transfer?.tookRecord()
        }
    }

    private static let index = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL,
        0,
        nil,
        nil,
        nil,
        { _, record, _, _, _, _ in
            guard let record else { return }
            let owned = Unmanaged<ConnectionRecord>.fromOpaque(record)
            owned.takeUnretainedValue().isOpen = false
            owned.release()
        }
    )
}

extension ShortName {
    init?(cString: UnsafePointer<CChar>?) {
        guard let cString else { return nil }
        self.init(Array(String(cString: cString).utf8))
    }
}
