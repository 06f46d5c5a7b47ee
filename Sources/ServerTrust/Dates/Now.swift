// SPDX-License-Identifier: Apache-2.0
// Evaluations at the present time. Those at another time are in ServerTrustDates, since they have Foundation's `Date`.
public import HTTPCore
import IOCore
public import StrictJSON

private var now: Int64 { Clock.seconds }

extension TrustEvaluation {
    /// Whether the verdict still allows a request: to be checked for each request on a persistent connection.
    public func isStillGood() -> Bool { isStillGood(at: now) }

    /// The pin set that ends within 30 days, or the certificate of a pinned domain's chain that has less than a third
    /// of its lifetime left; if both do, the one that ends first. Nil for those that have ended.
    public func nearExpiry() -> Expiry? { nearExpiry(at: now) }
}

extension PinValidationReport {
    /// - Parameters:
    ///   - trust: the result of a handshake.
    ///   - port: the one that the request was for.
    /// - Returns: nil when there is nothing to report: the pins did not fail. An invalid chain is not a pin failure
    ///   (RFC 7469, section 2.6: it fails before the pins are checked).
    public init?(_ trust: ConnectionTrust, port: UInt16) { self.init(trust, port: port, at: now) }

    /// The same for an evaluation that was made offline.
    public init?(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, port: UInt16) {
        self.init(evaluation, of: policy, port: port, at: now)
    }
}

extension SecurityPolicy {
    /// Evaluates a chain offline, by the same code as inside a handshake.
    ///
    /// - Parameters:
    ///   - chain: as a server would send it, its own certificate first; an empty one is refused.
    ///   - staple: the OCSP response (DER) that the server would staple; `nil` for none. Looked at only by a policy with
    ///     `requiresStaple`.
    ///   - host: the host that the server has to prove to be.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    public func evaluate(
        chain: [Certificate],
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors
    ) -> TrustEvaluation {
        evaluate(chain: chain, staple: staple, host: host, anchors: anchors, at: Int64?.none)
    }

    /// Evaluates what a server presented, for a program's own verify callback (SSL_CTX_set_cert_verify_callback(3)).
    ///
    /// It runs its own verifications and leaves the context as it is: accept with `X509_V_OK` set and 1 returned if
    /// and only if the evaluation `isAccepted`. `TLSVerification` does all that.
    ///
    /// - Parameters:
    ///   - storeContext: the callback's `X509_STORE_CTX *`, with the server's certificate in it.
    ///   - staple: the result of SSL_get_tlsext_status_ocsp_resp(3); `nil` for none, which a policy with
    ///     `requiresStaple` refuses. In TLS 1.2 it has not arrived yet when the callback runs.
    ///   - host: the host that the server has to prove to be.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    /// - Returns: the report; `nil` if the context holds no certificate, which has to be refused.
    public func evaluate(
        storeContext: OpaquePointer,
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors
    ) -> TrustEvaluation? {
        evaluate(storeContext: storeContext, staple: staple, host: host, anchors: anchors, at: Int64?.none)
    }

    /// Whether pins decide now which servers are accepted: a server without a pinned key is refused.
    ///
    /// False for mode `none` (the ports that a domain's `ports` leaves out among them), for pins that are only reported
    /// on, and for a pin set that has expired with `onExpiration: unpinned`. A set that has expired with `deny` refuses
    /// every server. Only this method decides; whether a pin file names a host at all is another question
    /// (`PinnedDomains.names`).
    public func isHeldToPins() -> Bool { isHeldToPins(at: now) }
}

extension PinnedDomains {
    /// Whether pins decide now which servers are accepted there, by `SecurityPolicy.isHeldToPins`.
    ///
    /// - Parameters:
    ///   - host: in normal form.
    ///   - port: of the connection.
    public func isHeldToPins(host: Host, port: UInt16) -> Bool { isHeldToPins(host: host, port: port, at: now) }
}

extension PinFile {
    /// Loads a file, or every `*.json` of a folder in the order of their names (hidden ones left out). Blocking disk
    /// I/O: at start and on reload, never on a loop.
    ///
    /// - Parameters:
    ///   - path: a file or a folder.
    ///   - library: the source of trust anchors; use the same one for a whole configuration.
    /// - Throws: every issue of every file at once.
    public static func load(
        path: String,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(path: path, at: now, library: library)
    }

    /// Loads the files given.
    public static func load(
        files: [String],
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(files: files, at: now, library: library)
    }

    /// Loads one pin file's text.
    ///
    /// - Parameters:
    ///   - text: the JSON document.
    ///   - file: the name in issues; paths in the text are relative to its folder.
    ///   - library: the source of trust anchors; one for a whole configuration reads the system's bundle once.
    public static func load(
        text: String,
        file: String,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(text: text, file: file, at: now, library: library)
    }
}

extension PresentedTrust {
    /// Makes the input of an evaluation at the present time.
    public init(chain: [Certificate], staple: [UInt8]? = nil, anchors: TrustAnchors) {
        self.init(chain: chain, staple: staple, anchors: anchors, time: nil)
    }
}
