// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// Changes to the requests and responses of a host, beyond forwarding. A host without such configuration has none, and
/// its requests only pay for a nil check.
final class HostHooks: Sendable {
    let redirects: RedirectRules
    let responses: ResponseRules
    let headers: HeaderRules
    /// The place in the configuration, for messages: `hosts/api.example.com`, or `defaults`.
    let owner: String

    /// Whether a redirect may be followed with the request's body.
    let keepsBodies: Bool
    /// Whether the configuration adds credentials to requests: the cache treats such requests like ones with
    /// `Authorization`.
    let givesCredentials: Bool
    private let changesRequestsAlone: Bool

    /// These hooks, if there is something to do with a response; fields of the request are changed before it is sent.
    var ofResponses: HostHooks? { changesRequestsAlone ? nil : self }

    /// For requests whose credential may have to be renewed, where the configuration changes nothing else.
    static let none = HostHooks(HostConfiguration())

    /// - Returns: nil when the configuration changes nothing.
    static func make(_ configuration: HostConfiguration) -> HostHooks? {
        let hooks = HostHooks(configuration)
        return hooks.changesRequestsAlone && hooks.headers.request.isEmpty ? nil : hooks
    }

    private init(_ configuration: HostConfiguration) {
        let headers = configuration.headers
        redirects = configuration.redirects
        responses = configuration.responses
        self.headers = headers
        owner = configuration.host.map { "hosts/\($0)" } ?? "defaults"
        keepsBodies = configuration.redirects.mayFollow
        givesCredentials = headers.request.givesCredentials
        changesRequestsAlone = redirects.isTrivial && responses.isTrivial && headers.response.isEmpty
    }
}
