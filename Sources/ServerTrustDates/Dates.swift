// SPDX-License-Identifier: Apache-2.0
// Inside, times are seconds since 1970. Programs get and give dates; the proxy, which does without Foundation, needs none. What has
// no date as an argument is in ServerTrust, for the present time.
public import FoundationEssentials
public import HTTPCore
public import ServerTrust
public import StrictJSON

extension TrustEvaluation {
    /// The time at which the verdict expires: the first end of a certificate's validity in the validated chain, of the pin set,
    /// of a revocation list, or of the staple; nil for a verdict that never expires.
    public var expirationDate: Date? { goodUntil == .max ? nil : Date(unixSeconds: goodUntil) }

    /// The first second after the earliest end of a certificate in the validated chain; nil where dates do not count.
    public var certificateEndDate: Date? { certificateEnd == .max ? nil : Date(unixSeconds: certificateEnd) }

    /// The end of the pin set, the first second after its last day; nil for one without an end.
    public var pinSetEndDate: Date? { pinSetEnd == .max ? nil : Date(unixSeconds: pinSetEnd) }

    /// Whether the verdict still allows a request: to be checked for each request on a persistent connection.
    public func isStillGood(at date: Date) -> Bool { isStillGood(at: date.unixSeconds) }

    /// The pin set that ends within 30 days, or the certificate of a pinned domain's chain that has less than a third
    /// of its lifetime left; if both do, the one that ends first. Nil for those that have ended.
    public func nearExpiry(at date: Date) -> Expiry? { nearExpiry(at: date.unixSeconds) }
}

extension Expiry {
    /// The first second at which the object is not valid any more.
    public var date: Date { Date(unixSeconds: end) }
}

extension PinValidationReport {
    /// The time of the evaluation.
    public var date: Date { Date(unixSeconds: time) }

    /// - Parameters:
    ///   - trust: the result of a handshake.
    ///   - port: the one that the request was for.
    ///   - date: the time of the evaluation.
    /// - Returns: nil when there is nothing to report: the pins did not fail. An invalid chain is not a pin failure
    ///   (RFC 7469, section 2.6: it fails before the pins are checked).
    public init?(_ trust: ConnectionTrust, port: UInt16, at date: Date) {
        self.init(trust, port: port, at: date.unixSeconds)
    }

    /// The same for an evaluation that was made offline.
    public init?(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, port: UInt16, at date: Date) {
        self.init(evaluation, of: policy, port: port, at: date.unixSeconds)
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
    ///   - date: the time of the evaluation; `nil` is now.
    public func evaluate(
        chain: [Certificate],
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors,
        at date: Date?
    ) -> TrustEvaluation {
        evaluate(chain: chain, staple: staple, host: host, anchors: anchors, at: date?.unixSeconds)
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
    ///   - date: the time of the evaluation; `nil` is now.
    /// - Returns: the report; `nil` if the context holds no certificate, which has to be refused.
    public func evaluate(
        storeContext: OpaquePointer,
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors,
        at date: Date?
    ) -> TrustEvaluation? {
        evaluate(storeContext: storeContext, staple: staple, host: host, anchors: anchors, at: date?.unixSeconds)
    }

    /// Whether pins decide at that time which servers are accepted: a server without a pinned key is refused.
    ///
    /// False for mode `none` (the ports that a domain's `ports` leaves out among them), for pins that are only reported
    /// on, and for a pin set that has expired with `onExpiration: unpinned`. A set that has expired with `deny` refuses
    /// every server. Only this method decides; whether a pin file names a host at all is another question
    /// (`PinnedDomains.names`).
    public func isHeldToPins(at date: Date) -> Bool { isHeldToPins(at: date.unixSeconds) }
}

extension PinnedDomains {
    /// Whether pins decide at that time which servers are accepted there, by `SecurityPolicy.isHeldToPins`.
    ///
    /// - Parameters:
    ///   - host: in normal form.
    ///   - port: of the connection.
    ///   - date: the time of the handshake.
    public func isHeldToPins(host: Host, port: UInt16, at date: Date) -> Bool {
        isHeldToPins(host: host, port: port, at: date.unixSeconds)
    }
}

extension PinFile {
    /// Loads a file, or every `*.json` of a folder in the order of their names (hidden ones left out). Blocking disk
    /// I/O: at start and on reload, never on a loop.
    ///
    /// - Parameters:
    ///   - path: a file or a folder.
    ///   - date: the time for the warnings of expiration.
    ///   - library: the source of trust anchors; use the same one for a whole configuration.
    /// - Throws: every issue of every file at once.
    public static func load(
        path: String,
        at date: Date,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(path: path, at: date.unixSeconds, library: library)
    }

    /// Loads the files given.
    public static func load(
        files: [String],
        at date: Date,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(files: files, at: date.unixSeconds, library: library)
    }

    /// Loads one pin file's text.
    ///
    /// - Parameters:
    ///   - text: the JSON document.
    ///   - file: the name in issues; paths in the text are relative to its folder.
    ///   - date: the time at which pin sets have expired or not.
    ///   - library: the source of trust anchors; one for a whole configuration reads the system's bundle once.
    public static func load(
        text: String,
        file: String,
        at date: Date,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(text: text, file: file, at: date.unixSeconds, library: library)
    }
}

extension PresentedTrust {
    /// The time of the evaluation; `nil` is now.
    public var date: Date? {
        get { time.map { Date(unixSeconds: $0) } }
        set { time = newValue?.unixSeconds }
    }

    /// Makes the input of an evaluation, now or at a given time.
    public init(chain: [Certificate], staple: [UInt8]? = nil, anchors: TrustAnchors, date: Date?) {
        self.init(chain: chain, staple: staple, anchors: anchors, time: date?.unixSeconds)
    }
}

extension Certificate {
    /// The first second of validity; nil when what the certificate says is not a time.
    public var notValidBefore: Date? { notBefore.map { Date(unixSeconds: $0) } }

    /// The end of validity: like OpenSSL, a certificate counts as expired from this second on. Nil when what it says is not
    /// a time; such a certificate is refused wherever dates count.
    public var notValidAfter: Date? { notAfter.map { Date(unixSeconds: $0) } }
}

extension CalendarDate {
    /// The first second after the day, in UTC.
    public var endDate: Date { Date(unixSeconds: end) }
}

extension RevocationLists {
    /// The earliest `nextUpdate` among the lists: after that time the list is not valid. Nil without lists.
    public var nextUpdate: Date? { earliestNextUpdate == .max ? nil : Date(unixSeconds: earliestNextUpdate) }
}

extension Date {
    package init(unixSeconds: Int64) { self.init(timeIntervalSince1970: Double(unixSeconds)) }

    /// Whole seconds since 1970; the least or the greatest number for a date that is beyond them.
    package var unixSeconds: Int64 {
        let seconds = timeIntervalSince1970.rounded(.down)
        return Int64(exactly: seconds) ?? (seconds > 0 ? .max : .min)
    }
}
