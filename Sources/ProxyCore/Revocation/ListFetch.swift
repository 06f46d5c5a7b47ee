// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// What a server has said of a list that it may be asked for again (RFC 9110, section 13.1).
struct ListValidators: Sendable {
    /// Of the URL that the list was asked for, before redirects.
    var url: String
    var entityTag: [UInt8]?
    var lastModified: [UInt8]?
}

/// One fetch of a list: a GET without TLS, with its redirects.
final class ListFetch: LoopTaskDelegate {
    enum Outcome: Sendable {
        case list([UInt8], ListValidators)
        case notModified
        case failed(String)
    }

    private let url: String
    private let validators: ListValidators?
    private let limits: ListFetchLimits
    private let session: LoopSession
    private let endpoint: (Origin) -> Result<Endpoint, Problem>
    private let completion: (Outcome) -> Void
    private var redirects: RedirectMachine
    private var next: AbsoluteURL?
    private var current: AbsoluteURL?
    private var body: [UInt8] = []
    private var received: ListValidators
    /// Why the task was ended from here, or nil.
    private var fault: String?
    private var isNotModified = false
    private var isOver = false

    /// - Parameters:
    ///   - validators: of the list that is held; nil without one.
    ///   - endpoint: where requests to an origin go, or why they may not.
    ///   - completion: called once, not from within `start`.
    init(
        _ url: String,
        validators: ListValidators?,
        limits: ListFetchLimits,
        session: LoopSession,
        endpoint: @escaping (Origin) -> Result<Endpoint, Problem>,
        completion: @escaping (Outcome) -> Void
    ) {
        self.url = url
        self.validators = validators?.url == url ? validators : nil
        self.limits = limits
        self.session = session
        self.endpoint = endpoint
        self.completion = completion
        redirects = RedirectMachine(limit: limits.redirects)
        received = ListValidators(url: url)
    }

    func start() {
        guard let url = AbsoluteURL(url) else { return failLater("the URL is not valid") }
        ask(url)
    }

    private func ask(_ url: AbsoluteURL) {
        guard url.origin.scheme == .http else { return failLater("\(url.origin) is not http") }
        switch endpoint(url.origin) {
        case .failure(let problem): failLater(problem.details)
        case .success(let endpoint):
            current = url
            body = []
            let request = SessionRequest(
                endpoint: endpoint,
                method: .get,
                target: Self.target(url.rest),
                fields: fields
            )
            session.dataTask(with: request, delegate: self).resume()
        }
    }

    /// Path and query, without a fragment.
    private static func target(_ rest: [UInt8]) -> [UInt8] {
        let target = rest.prefix { $0 != UInt8(ascii: "#") }
        return target.first == UInt8(ascii: "/") ? Array(target) : [UInt8(ascii: "/")] + target
    }

    private var fields: HeaderFields {
        var fields = HeaderFields()
        func append(_ name: String, _ value: [UInt8]) { fields.append(name: Array(name.utf8).span, value: value.span) }
        append("User-Agent", Array("pinproxy".utf8))
        append("Accept-Encoding", Array("identity".utf8))
        if let tag = validators?.entityTag { append("If-None-Match", tag) }
        if let date = validators?.lastModified { append("If-Modified-Since", date) }
        return fields
    }

    // MARK: The response

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        guard let url = current else { return .cancel }
        switch redirects.didReceiveHead(response, url: url, method: .get) {
        case .follow(let hop):
            next = hop.url
            return .cancel
        case .fail(let reason):
            fault = reason == .tooMany ? "more than \(limits.redirects) redirects" : "a redirect to no valid URL"
            return .cancel
        case .noRedirect: break
        }
        if response.status == 304, validators != nil {
            isNotModified = true
            return .allow
        }
        guard response.status == 200 else {
            fault = "the response has the status \(response.status)"
            return .cancel
        }
        if let index = response.fields.first(.contentEncoding),
            !response.fields.value(at: index).equalsIgnoringCase("identity")
        {
            fault = "the response has a content coding, which was not asked for"
            return .cancel
        }
        received.entityTag = Self.value(.etag, of: response)
        received.lastModified = Self.value(.lastModified, of: response)
        return .allow
    }

    private static func value(_ field: FieldName, of response: borrowing ResponseHead) -> [UInt8]? {
        guard let index = response.fields.first(field), response.fields.next(field, after: index) == nil else {
            return nil
        }
        let value = Array(copying: response.fields.value(at: index))
        return value.count <= 1024 ? value : nil
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard !isNotModified else { return .proceed }
        guard data.count <= limits.listBytes - body.count else {
            fault = "longer than \(limits.listBytes >> 10) KB"
            body = []
            task.cancel()
            return .proceed
        }
        body.append(data)
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        if let fault { return end(.failed(fault)) }
        if let url = next {
            next = nil
            // The connection of the response that was given up is on the stack.
            return session.loop.atEndOfTurn { [self] in ask(url) }
        }
        if let error { return end(.failed(error.details)) }
        end(isNotModified ? .notModified : .list(body, received))
    }

    private func failLater(_ fault: String) {
        session.loop.atEndOfTurn { [self] in end(.failed(fault)) }
    }

    private func end(_ outcome: Outcome) {
        guard !isOver else { return }
        isOver = true
        body = []
        completion(outcome)
    }
}
