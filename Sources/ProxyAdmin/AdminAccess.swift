// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore

/// What a client of the admin listener may do: reading is free on this machine, changes need a token or the Unix socket,
/// and a client that other machines could be needs the token for everything.
struct AdminAccess {
    /// Whether other machines may reach the listener.
    var isRemote = false
    /// Whether the mode of the socket's file has let the client in.
    var isUnixSocket = false
    /// Whether `admin.tokenFile` is configured.
    var needsToken = false
    /// Whether the request has the token.
    var hasToken = false

    /// - Parameters:
    ///   - isWrite: whether something is changed.
    ///   - isFree: whether clients of this machine may make this change without a token as long as none is configured:
    ///     true for the cache alone.
    /// - Returns: the reason of a refusal; nil when the client may.
    func refusal(isWrite: Bool, isFree: Bool = false) -> Problem? {
        if hasToken { return nil }
        if isRemote || (isWrite && needsToken) { return Self.missingToken }
        guard isWrite, !isUnixSocket, !isFree else { return nil }
        return Problem(
            .requestInvalid,
            status: 403,
            "Every user of this machine can open this port, so changes through it need a token. "
                + "Let the configuration name one as admin.tokenFile and restart, use a Unix socket, or send a signal: SIGHUP reloads, SIGTERM stops."
        )
    }

    private static var missingToken: Problem {
        Problem(
            .authenticationRequired,
            status: 401,
            "Authorization is missing or has another token. Send Authorization: Bearer TOKEN, with the contents of admin.tokenFile; "
                + "a browser takes it as the password of any user."
        )
    }

    /// The reason why a request of a browser is refused; nil for one that a person, or the listener's own page, has made
    /// it send, and for other programs.
    ///
    /// A web page of another site must not make a browser change anything here, nor read, nor hold connections open.
    ///
    /// - Parameter isShown: whether a browser shows the response. Others cost this listener more than a page, or put a file
    ///   into a person's folder: no other site may have a browser open them.
    static func crossSiteRefusal(
        _ head: borrowing RequestHead,
        isWrite: Bool,
        isShown: Bool = true
    ) -> Problem? {
        let site = RequestingSite(head)
        if isWrite {
            let isOwn = (site.fetchSite == .unsaid || site.fetchSite == .own) && site.origin != .other
            guard isOwn, !head.fields.contains(.contentType) else { return Self.crossSite }
            return nil
        }
        guard site.fetchSite == .other else { return nil }
        // A frame, an object or a prefetch is a navigation, too; a person follows a link only into a whole page.
        let isLink = value(modeName, of: head) == navigation && (value(placeName, of: head) ?? page) == page
        return isLink && isShown ? nil : Self.crossSite
    }

    /// The value of a field; an empty one if there are several, which agrees with nothing.
    private static func value(_ name: StaticString, of head: borrowing RequestHead) -> [UInt8]? {
        var found: [UInt8]?
        for index in 0..<head.fields.count where head.fields.name(at: index).equalsIgnoringCase(name.bytes) {
            if found != nil { return [] }
            found = Array(copying: head.fields.value(at: index))
        }
        return found
    }

    private static var modeName: StaticString { "sec-fetch-mode" }
    private static var placeName: StaticString { "sec-fetch-dest" }
    private static let navigation = Array("navigate".utf8)
    private static let page = Array("document".utf8)

    private static var crossSite: Problem {
        Problem(
            .requestInvalid,
            status: 403,
            "A browser sent this request for a page of another site, or as a form. Open the admin listener's own page, or use another program."
        )
    }
}
