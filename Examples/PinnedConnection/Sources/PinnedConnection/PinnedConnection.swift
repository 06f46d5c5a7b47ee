// SPDX-License-Identifier: Apache-2.0
import COpenSSLForClients
import Glibc
import HTTPCore
import ServerTrust

/// One TCP connection with TLS on it. It owns the socket, the `SSL_CTX` and the `SSL`.
final class PinnedConnection {
    private let host: Host
    private let descriptor: Int32
    // C's `SSL_CTX *` and `SSL *`: OpenSSL keeps both types to itself, so that Swift sees them as OpaquePointer.
    private let context: OpaquePointer
    private let ssl: OpaquePointer
    private let verification: TLSVerification

    init(_ arguments: Arguments) throws {
        host = arguments.host
        var settings = SecurityPolicy.Configuration()
        settings.pinningMode = .publicKey
        settings.pins = [Pin(arguments.pin)]
        // A program for good has a backup pin beside it, and leaves this out.
        settings.allowSinglePin = true
        let policy = try SecurityPolicy(settings)
        let anchors =
            if let file = arguments.authorities {
                TrustAnchors(certificates: try Certificate.certificates(file: file))
            } else {
                try TrustAnchors.system()
            }

        guard let context = SSL_CTX_new(TLS_client_method()) else { throw OpenSSLError(draining: "SSL_CTX_new") }
        do {
            descriptor = try TCP.connect(host: arguments.host.description, port: arguments.port)
            (ssl, verification) = try TLSVerification.attach(
                toConnectionOf: context,
                policy: policy,
                host: arguments.host,
                anchors: anchors,
                generation: 1
            )
        } catch {
            SSL_CTX_free(context)
            throw error
        }
        self.context = context
    }

    deinit {
        SSL_free(ssl)
        SSL_CTX_free(context)
        close(descriptor)
    }

    /// Makes the handshake, and tells what the policy says of the server.
    ///
    /// - Throws: the refusal, with the keys that the server offered.
    func verdict() throws -> String {
        SSL_set_fd(ssl, descriptor)
        // The name that the server chooses its certificate by is the program's business; an address has none.
        if host.kind == .name { _ = set_server_name(ssl, host.description) }
        guard SSL_connect(ssl) == 1 else {
            guard let refused = verification.lastTrust?.evaluation, !refused.isAccepted else {
                throw OpenSSLError(draining: "SSL_connect")
            }
            throw Refusal(evaluation: refused)
        }
        // Nothing is sent before this. On a connection that is kept, `isStillGood` is asked again for each request.
        guard let trust = TLSVerification.evaluation(of: ssl), trust.evaluation.isStillGood() else {
            throw OpenSSLError(draining: "no evaluation of this connection")
        }
        return "\(trust.evaluation)" + (trust.evaluation.matchedPin.map { ", by \($0)" } ?? "")
    }
}

/// Why a server was refused.
struct Refusal: Error, CustomStringConvertible {
    var evaluation: TrustEvaluation

    var description: String {
        evaluation.offeredPins.reduce("\(evaluation)") { $0 + "\noffered: \($1.pin)  \($1.subject)" }
    }
}
