// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// The TLS handshake of a server, made through the session core without sending a request.
struct ServerProbe {
    /// The chain, and whether it is valid for the host.
    var evaluation: TrustEvaluation
    /// The address, the TLS version and the cipher, for a refused server too.
    var connection: ConnectionInfo?
    /// The time of the probe, in seconds since 1970.
    let time = Clock.seconds
    /// The profile that it took, where that is not the default's.
    private let profile: TLSProfile

    /// The valid paths, the one of `evaluation` among them, and whether there are no more than are tried.
    let paths: (paths: [[Certificate]], areAll: Bool)

    /// Further facts about the chain, and about TLS.
    var warnings: [ChainWarning] {
        let suites =
            profile == .modern
            ? []
            : [
                ChainWarning(
                    "tls_profile",
                    "the server takes nothing that is offered without \"tlsProfile\": \"\(profile.rawValue)\": have it allow a "
                        + "cipher suite with ECDHE and AES-GCM, or say that for the host in the configuration"
                )
            ]
        return ChainWarning.all(evaluation, connection, now: time) + suites
    }

    /// How a server is reached.
    struct Way {
        /// The endpoint with a version of HTTP, and with a profile or the usual one.
        let endpoint: (Endpoint.HTTPVersion, TLSProfile?) throws(CommandFailure) -> Endpoint
        let anchors: TrustAnchors
        var resolver = NameResolution.dns
    }

    /// Connects to a server; an earlier chain is of no use.
    ///
    /// - Throws: without a certificate, or for a host that the configuration forbids.
    init(_ server: ServerAddress, by way: Way) throws(CommandFailure) {
        func connect(_ version: Endpoint.HTTPVersion, _ profile: TLSProfile? = nil) throws(CommandFailure) -> Attempt {
            try Attempt(try way.endpoint(version, profile), way.resolver)
        }
        var attempt = try connect(.http1)
        var profile: TLSProfile?
        if let needed = attempt.neededProfile {
            profile = needed
            attempt = try connect(.http1, profile)
        }
        if attempt.wantsHTTP2 { attempt = try connect(.http2, profile) }
        self.profile = profile ?? .modern
        let error = attempt.error
        // A refused chain is in the error, because the handshake ends there.
        guard let evaluation = attempt.evaluation ?? error?.evaluation else {
            var message = error?.details ?? "\(server) showed no certificate"
            if message.hasSuffix(".") { message.removeLast() }
            throw CommandFailure(
                .failed,
                message,
                remedy: error?.code == .dnsFailed ? "--connect ADDRESS goes there without asking for the name" : ""
            )
        }
        self.evaluation = evaluation
        paths = SecurityPolicy.unpinned.validPaths(of: evaluation, anchors: way.anchors, at: time)
        connection = attempt.connection
    }
}

/// One connection, up to the point at which a request would be sent.
private struct Attempt {
    let evaluation: TrustEvaluation?
    let connection: ConnectionInfo?
    let error: SessionError?
    /// The profile that the server would take, which has refused what was offered.
    let neededProfile: TLSProfile?

    /// Whether the server has ended the handshake because it supports no offered protocol (RFC 7301, section 3.2).
    var wantsHTTP2: Bool { error?.details.contains("no application protocol") ?? false }

    init(_ endpoint: Endpoint, _ resolver: NameResolution) throws(CommandFailure) {
        let delegate = ProbeDelegate()
        do {
            let loop = try EventLoop()
            var configuration = SessionConfiguration()
            configuration.resolver = resolver
            let manager = try LoopSession(loop: loop, configuration: configuration)
            let request = SessionRequest(endpoint: endpoint, method: .head, target: Array("/".utf8), fields: .init())
            let task = manager.dataTask(with: request, delegate: delegate)
            task.resume()
            loop.run { task.state == .completed }
            error = task.error
            neededProfile = endpoint.neededProfile
            connection = task.metrics.transaction.connection
            evaluation = delegate.evaluation
            manager.invalidateSession(cancelingTasks: true)
            loop.run(atMost: .milliseconds(0))
        } catch {
            throw CommandFailure(.internal, "\(error)")
        }
    }
}

/// Ends the task when the connection is established; nothing has been sent by then.
private final class ProbeDelegate: LoopTaskDelegate {
    private(set) var evaluation: TrustEvaluation?

    override func taskDidConnect(_ task: LoopTask) {
        evaluation = task.evaluation
        task.cancel()
    }
}
