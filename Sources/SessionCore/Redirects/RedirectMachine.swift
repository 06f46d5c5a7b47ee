// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// Decides about redirects, hop by hop (RFC 9110, section 15.4).
///
/// A value without a socket: heads go in, decisions come out. It counts the hops of one task. The caller looks up the
/// policies of both ends for each hop, and passes their result to `denial`.
package struct RedirectMachine: Sendable {
    /// The largest number of hops.
    package var limit: Int
    /// The number of hops so far.
    package private(set) var count = 0

    /// Whether spaces and UTF-8 in `Location` are escaped, instead of refused (`URLReference.escaped`).
    package var escapesLocation: Bool

    package init(limit: Int = 20, escapesLocation: Bool = false) {
        self.limit = limit
        self.escapesLocation = escapesLocation
    }

    /// The next request, as far as the response determines it.
    package struct Hop: Equatable, Sendable {
        package var url: AbsoluteURL
        package var method: HTTPMethod
        /// Whether the body of the last request is sent again.
        package var keepsBody: Bool
        /// Whether the origin is another one; then credentials are removed.
        package var crossesOrigins: Bool
    }

    package enum Action: Equatable, Sendable {
        /// The response is no redirect.
        case noRedirect
        case follow(Hop)
        case fail(Fault)
    }

    /// Why a redirect cannot be followed.
    package enum Fault: Equatable, Sendable {
        /// `Location` is invalid, occurs twice, or has a scheme other than http and https.
        case invalidLocation
        case tooMany
    }

    /// The reasons to deny a hop, unless a hook permits it.
    package enum Denial: Equatable, Sendable {
        /// From https to http.
        case losesTLS
        /// From a host with pins to one without pins that apply now.
        case leavesPins
    }

    /// The demand of a response, before any decision.
    package enum Proposal: Equatable, Sendable {
        /// The response is no redirect.
        case noRedirect
        case hop(Hop)
        /// `Location` has another scheme than http and https.
        case otherScheme
        /// `Location` is invalid, or occurs twice.
        case invalidLocation
    }

    /// Reads the final head of a response.
    ///
    /// - Parameters:
    ///   - url: the URL of the request.
    ///   - method: the method of the request.
    ///   - escapesLocation: whether spaces and UTF-8 in `Location` are escaped.
    package static func propose(
        _ head: borrowing ResponseHead,
        url: AbsoluteURL,
        method: HTTPMethod,
        escapesLocation: Bool = false
    ) -> Proposal {
        let next: HTTPMethod
        switch head.status {
        // User agents have always changed POST to GET here.
        case 301, 302: next = method == .post ? .get : method
        case 303: next = method == .head ? .head : .get
        case 307, 308: next = method
        default: return .noRedirect
        }
        guard let index = head.fields.first(.location) else { return .noRedirect }
        guard head.fields.next(.location, after: index) == nil else { return .invalidLocation }
        let location = head.fields.value(at: index)
        let escaped = escapesLocation ? URLReference.escaped(location) : nil
        guard let target = escaped.map({ url.resolving($0.span) }) ?? url.resolving(location) else {
            if case .otherScheme? = URLReference(location) { return .otherScheme }
            return .invalidLocation
        }
        return .hop(
            Hop(
                url: target,
                method: next,
                keepsBody: next == method && head.status != 303,
                crossesOrigins: target.origin != url.origin
            )
        )
    }

    /// Counts a hop before it is made; false when the limit is reached.
    package mutating func countHop() -> Bool {
        guard count < limit else { return false }
        count += 1
        return true
    }

    /// Reads the final head of a response, and counts the hop that it demands.
    package mutating func didReceiveHead(_ head: borrowing ResponseHead, url: AbsoluteURL, method: HTTPMethod) -> Action
    {
        switch Self.propose(head, url: url, method: method, escapesLocation: escapesLocation) {
        case .noRedirect: .noRedirect
        case .invalidLocation, .otherScheme: .fail(.invalidLocation)
        case .hop(let hop): countHop() ? .follow(hop) : .fail(.tooMany)
        }
    }

    /// The reason to deny a hop; nil when it is allowed.
    ///
    /// - Parameters:
    ///   - from: the origin of the request, and whether it has pins, valid or not.
    ///   - to: the target of the hop, and whether pins apply there now.
    package static func denial(
        from: (scheme: RequestHead.Scheme, hasPins: Bool),
        to: (scheme: RequestHead.Scheme, isHeldToPins: Bool)
    ) -> Denial? {
        if from.scheme == .https, to.scheme == .http { return .losesTLS }
        if from.hasPins, !to.isHeldToPins { return .leavesPins }
        return nil
    }

    /// Removes the fields of a request that must not be sent after a hop.
    package static func prune(_ fields: inout HeaderFields, for hop: Hop, leavesTLS: Bool) {
        fields.removeAll { fields, index in
            switch fields.id(at: index) {
            case .authorization, .proxyAuthorization, .cookie: hop.crossesOrigins
            case .referer: leavesTLS
            case .contentType, .contentEncoding, .contentLanguage, .contentLocation, .contentRange, .contentDisposition,
                .lastModified:
                !hop.keepsBody
            case .other: !hop.keepsBody && describesContent(fields.name(at: index))
            default: false
            }
        }
    }

    /// Fields of content (RFC 9110, section 15.4; RFC 9530) that have no `FieldName`.
    private static func describesContent(_ name: borrowing Span<UInt8>) -> Bool {
        name.equalsIgnoringCase("Content-Digest") || name.equalsIgnoringCase("Repr-Digest")
            || name.equalsIgnoringCase("Digest") || name.equalsIgnoringCase("Content-MD5")
    }
}
