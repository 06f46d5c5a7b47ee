// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The `requests` of the configuration as written; `RequestRules` is the compiled form.
package struct RequestsConfiguration: Hashable, Sendable {
    /// What holds for a request that no rule matches.
    package enum Policy: String, CaseIterable, Sendable {
        case deny
        /// It is sent, and its log line says that it would have been denied.
        case report
        case allow
    }

    package var policy = Policy.deny
    package var rules: [RequestRule] = []

    package init() {}
}

/// One of `requests.rules`. A request matches when each condition that the rule has holds for it; a condition with several values
/// holds when one of them does.
package struct RequestRule: Hashable, Sendable {
    package enum Action: String, CaseIterable, Sendable {
        case allow
        case deny
        /// It is sent, and its log line says that it would have been denied.
        case report

        /// Whether the request is sent.
        package var isSent: Bool { self != .deny }
    }

    package var id: String
    package var action: Action
    /// Empty: every host.
    package var hosts: [HostPattern] = []
    /// Empty: the port of the scheme, or for `deny` every port.
    package var ports: [UInt16] = []
    /// Nil: every method.
    package var methods: RuleMethods?
    /// Empty: every path.
    package var paths: [RulePath] = []
    /// Empty: every user, and clients of whom no user is known.
    package var users: [UserPattern] = []
    /// The names of the credentials that are written into the request.
    package var credentials: [String] = []

    package init(id: String, _ action: Action) {
        self.id = id
        self.action = action
    }

    /// Whether the rule has a condition on the host.
    package var namesHosts: Bool { !hosts.isEmpty && !hosts.contains(.any) }

    /// The conditions in one line, for people.
    package var conditions: String {
        var texts = [methods.map { $0.words.joined(separator: ", ") } ?? "any method"]
        texts.append("to " + (hosts.isEmpty ? "any host" : hosts.map(\.description).joined(separator: ", ")))
        if !ports.isEmpty { texts.append("port " + ports.map(String.init).joined(separator: ", ")) }
        if !paths.isEmpty { texts.append("path " + paths.map(\.text).joined(separator: ", ")) }
        if !users.isEmpty { texts.append("by " + users.map(\.text).joined(separator: ", ")) }
        if !credentials.isEmpty { texts.append("with the credential " + credentials.joined(separator: ", ")) }
        return texts.joined(separator: "; ")
    }
}

/// The methods of a rule.
package struct RuleMethods: Hashable, Sendable {
    package var methods: Set<HTTPMethod> = []
    /// Whether requests that offer another protocol (Upgrade) are among them.
    var hasUpgrade = false
    /// The methods in the words of the configuration.
    package var words: [String] = []

    /// The methods of the word `read`.
    package static let read: Set<HTTPMethod> = [.get, .head, .options]

    package init() {}

    /// An offer of Upgrade is also the request that it is to an origin that does not switch (RFC 9110, section 7.8). A rule that lets
    /// through has to mean both; `UPGRADE` by itself means a GET, as WebSockets are (RFC 6455, section 4.1).
    ///
    /// - Parameter isDeny: one of both is enough, and methods are compared without regard to case.
    package func contains(_ method: HTTPMethod, isUpgrade: Bool, isDeny: Bool) -> Bool {
        if isUpgrade {
            guard isDeny else { return hasUpgrade && (method == .get || methods.contains(method)) }
            if hasUpgrade { return true }
        }
        if methods.contains(method) { return true }
        guard isDeny, case .other(let bytes) = method else { return false }
        let capitals = bytes.map { $0 &- UInt8(ascii: "a") < 26 ? $0 & ~0x20 : $0 }
        return methods.contains(HTTPMethod(validated: capitals.span))
    }
}

/// A pattern for the name of a user as the log has it, with `*` for any characters.
package struct UserPattern: Hashable, Sendable {
    private let pattern: WildcardPattern

    package var text: String { pattern.text }

    /// - Returns: nil for an empty text, or one with control characters.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty, bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return nil }
        pattern = WildcardPattern(text, bytes)
    }

    package func matches(_ user: [UInt8]) -> Bool { pattern.matches(user.span) }
}
