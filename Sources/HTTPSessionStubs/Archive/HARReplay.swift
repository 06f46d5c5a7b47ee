// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import SessionCore

/// An exchange of an archive, ready to be replayed.
struct ReplayedExchange: Sendable {
    enum Reply: Sendable {
        case response(StubResponse)
        case failure(StubFailure)
        /// The archive has an entry, and not its body.
        case missingBody(_ place: String)
    }

    let method: HTTPMethod
    let url: AbsoluteURL
    let body: [UInt8]
    /// Whether the body is a form.
    let isForm: Bool
    let reply: Reply
}

/// The replies of an archive to requests: each once, in the order of the recording.
///
/// A value; the origin has it behind its lock.
struct HARReplay: StubRecording {
    private struct Key: Hashable {
        let method: HTTPMethod
        let origin: Origin
        let path: ArraySlice<UInt8>

        init(_ method: HTTPMethod, _ url: AbsoluteURL) {
            self.method = method
            origin = url.origin
            path = Array(url.target.prefix { $0 != UInt8(ascii: "?") })[...]
        }
    }

    private let name: String
    /// Whether a request has to have the recorded body, too.
    let matchesBodies: Bool
    private let repeatsLast: Bool
    private let exchanges: [ReplayedExchange]
    private let places: [Key: [Int]]
    private var isUsed: [Bool]

    init(_ exchanges: [ReplayedExchange], name: String, matchesBodies: Bool, repeatsLast: Bool) {
        self.name = name
        self.matchesBodies = matchesBodies
        self.repeatsLast = repeatsLast
        self.exchanges = exchanges
        isUsed = Array(repeating: false, count: exchanges.count)
        places = Dictionary(grouping: exchanges.indices) { Key(exchanges[$0].method, exchanges[$0].url) }
    }

    /// Takes the next reply to a request.
    ///
    /// - Parameter body: nil when bodies need not match.
    mutating func reply(
        to method: HTTPMethod,
        _ url: AbsoluteURL,
        body: [UInt8]?
    ) -> Result<StubRoute.Action, SessionError> {
        let sameURL = (places[Key(method, url)] ?? []).filter { Self.matches(exchanges[$0].url.target, url.target) }
        let matching = sameURL.filter { index in body.map { exchanges[index].matches(body: $0) } ?? true }
        guard let index = matching.first(where: { !isUsed[$0] }) ?? (repeatsLast ? matching.last : nil) else {
            return .failure(unmatched(method, url, sameURL.count, matching.count))
        }
        isUsed[index] = true
        switch exchanges[index].reply {
        case .response(let response): return .success(.response(response))
        case .failure(let failure): return .success(.failure(failure, .zero))
        case .missingBody(let place):
            let words =
                "\(name) does not have the body of the response to \(method) \(url.text) (\(place)). Record it again, with the bodies: a HARRecorder keeps those of up to maximumBodySize."
            return .failure(SessionError(.requestInvalid, words))
        }
    }

    private func unmatched(_ method: HTTPMethod, _ url: AbsoluteURL, _ sameURL: Int, _ matching: Int) -> SessionError {
        let request = "\(method) \(url.text)"
        let words: String
        if matching > 0 {
            words =
                "\(name) has \(matching) responses to \(request), and all of them were used. Record as many as are needed, or replay with repeatsLast."
        } else if sameURL > 0 {
            words =
                "\(name) has no response to \(request) with this body. Record it again, or replay without matchesBodies."
        } else {
            let near = exchanges.filter { $0.url.origin == url.origin }
                .filter { Key(.get, $0.url) == Key(.get, url) || $0.method == method }
                .prefix(3).map { "\($0.method) \($0.url.text)" }
            words =
                "\(name) has no response to \(request)."
                + (near.isEmpty ? "" : " It has: \(near.joined(separator: ", ")).")
                + " Record it again with a HARRecorder, or add a route for it."
        }
        return SessionError(.requestInvalid, words)
    }

    /// Compares request targets; a recorded value that was left out matches any.
    private static func matches(_ recorded: [UInt8], _ target: [UInt8]) -> Bool {
        recorded == target || formMatches(recorded, target, separators: "?&")
    }

    fileprivate static func formMatches(_ recorded: [UInt8], _ sent: [UInt8], separators: String) -> Bool {
        let marks = Array(separators.utf8)
        let recorded = recorded.split(omittingEmptySubsequences: false) { marks.contains($0) }
        let sent = sent.split(omittingEmptySubsequences: false) { marks.contains($0) }
        guard recorded.count == sent.count else { return false }
        let leftOut = Array("=\(HARRedaction.placeholder)".utf8)
        return zip(recorded, sent).allSatisfy { recorded, sent in
            if recorded == sent { return true }
            guard recorded.suffix(leftOut.count) == leftOut[...] else { return false }
            return sent.starts(with: recorded.dropLast(leftOut.count - 1))
        }
    }

    fileprivate static func valueMatches(_ recorded: JSONValue, _ sent: JSONValue) -> Bool {
        switch (recorded, sent) {
        case (.string(HARRedaction.placeholder), _): return true
        case (.array(let recorded), .array(let sent)):
            return recorded.count == sent.count && zip(recorded, sent).allSatisfy(valueMatches)
        case (.object(let recorded), .object(let sent)):
            return recorded.count == sent.count
                && recorded.allSatisfy { name, value in sent[name].map { valueMatches(value, $0) } ?? false }
        default: return recorded == sent
        }
    }
}

extension ReplayedExchange {
    fileprivate func matches(body sent: [UInt8]) -> Bool {
        if body == sent { return true }
        if isForm { return HARReplay.formMatches(body, sent, separators: "&") }
        guard let recorded = try? JSONValue(parsing: body), let sent = try? JSONValue(parsing: sent) else {
            return false
        }
        return HARReplay.valueMatches(recorded, sent)
    }
}
