import HTTPCore

/// What is done to the requests for a host and to its answers beyond forwarding them. A host for which the configuration
/// says nothing of the kind has none, and its requests pay for a look at a nil.
final class HostHooks: Sendable {
    let redirects: RedirectRules
    let responses: ResponseRules
    let headers: HeaderRules
    /// Where they stand, for messages: `hosts/api.example.com`, or `defaults`.
    let owner: String

    /// Whether a redirect may be followed with the request's body.
    let keepsBodies: Bool
    /// Whether requests get something that belongs to somebody: to a cache they count as ones with `Authorization`.
    let givesCredentials: Bool

    /// - Returns: nil when there is nothing to be done.
    init?(_ configuration: HostConfiguration) {
        let headers = configuration.headers
        guard
            !configuration.redirects.isTrivial || !configuration.responses.isTrivial || !headers.request.isEmpty
                || !headers.response.isEmpty
        else { return nil }
        redirects = configuration.redirects
        responses = configuration.responses
        self.headers = headers
        owner = configuration.host.map { "hosts/\($0)" } ?? "defaults"
        keepsBodies = configuration.redirects.mayFollow
        givesCredentials = headers.request.givesCredentials
    }
}
