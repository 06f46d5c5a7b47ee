package import HTTPCore

/// What becomes of redirects, hop by hop (RFC 9110, section 15.4).
///
/// A value without a socket: heads go in, what to do comes out. It counts the hops of one task; policies are looked up
/// by the caller, for each hop anew, and what they say of both ends goes into `denial`.
package struct RedirectMachine: Sendable {
    /// How many hops are followed at most.
    package var limit: Int
    /// How many have been followed.
    package private(set) var count = 0

    package init(limit: Int = 20) { self.limit = limit }

    /// The next request, as far as the answer decides it.
    package struct Hop: Equatable, Sendable {
        package var url: AbsoluteURL
        package var method: HTTPMethod
        /// Whether the body of the last request goes along.
        package var keepsBody: Bool
        /// Whether the origin is another one: credentials stay behind.
        package var crossesOrigins: Bool
    }

    package enum Action: Equatable, Sendable {
        /// The response is no redirect: it is the answer.
        case noRedirect
        case follow(Hop)
        case fail(Fault)
    }

    /// Why a redirect cannot be followed.
    package enum Fault: Equatable, Sendable {
        /// `Location` cannot be read, stands there twice, or leads to another scheme than http and https.
        case invalidLocation
        case tooMany
    }

    /// Why a hop may not be made, unless somebody says that it may.
    package enum Denial: Equatable, Sendable {
        /// From https to http.
        case losesTLS
        /// From a host with pins to one that is held to none now.
        case leavesPins
    }

    /// What a response asks for, before anybody has judged it.
    package enum Proposal: Equatable, Sendable {
        /// The response is no redirect.
        case noRedirect
        case hop(Hop)
        /// `Location` leads to a scheme that is none of HTTP's.
        case otherScheme
        /// `Location` cannot be read, or stands there twice.
        case invalidLocation
    }

    /// Looks at the final head of a response.
    ///
    /// - Parameters:
    ///   - url: where the request went.
    ///   - method: what was asked.
    package static func propose(
        _ head: borrowing ResponseHead,
        url: AbsoluteURL,
        method: HTTPMethod
    ) -> Proposal {
        let next: HTTPMethod
        switch head.status {
        // What user agents have always done with a POST.
        case 301, 302: next = method == .post ? .get : method
        case 303: next = method == .head ? .head : .get
        case 307, 308: next = method
        default: return .noRedirect
        }
        guard let place = head.fields.first(.location) else { return .noRedirect }
        guard head.fields.next(.location, after: place) == nil else { return .invalidLocation }
        let location = head.fields.value(at: place)
        guard let target = url.resolving(location) else {
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

    /// Counts a hop that is about to be made; false when it would be one too many.
    package mutating func countHop() -> Bool {
        guard count < limit else { return false }
        count += 1
        return true
    }

    /// Looks at the final head of a response, and counts the hop that it leads to.
    package mutating func didReceiveHead(_ head: borrowing ResponseHead, url: AbsoluteURL, method: HTTPMethod) -> Action
    {
        switch Self.propose(head, url: url, method: method) {
        case .noRedirect: .noRedirect
        case .invalidLocation, .otherScheme: .fail(.invalidLocation)
        case .hop(let hop): countHop() ? .follow(hop) : .fail(.tooMany)
        }
    }

    /// Whether a hop may be made.
    ///
    /// - Parameters:
    ///   - from: where the request went; whether there are pins for it, in whatever state.
    ///   - to: where the hop leads; whether pins decide now who may serve there.
    package static func denial(
        from: (scheme: RequestHead.Scheme, hasPins: Bool),
        to: (scheme: RequestHead.Scheme, isHeldToPins: Bool)
    ) -> Denial? {
        if from.scheme == .https, to.scheme == .http { return .losesTLS }
        if from.hasPins, !to.isHeldToPins { return .leavesPins }
        return nil
    }

    /// Takes out of a request's fields what may not go along on a hop.
    package static func prune(_ fields: inout HTTPFields, for hop: Hop, leavesTLS: Bool) {
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
