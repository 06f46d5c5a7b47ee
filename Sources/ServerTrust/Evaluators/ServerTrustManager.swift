// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import StrictJSON

/// The evaluators of hosts, under Alamofire's name.
///
/// ```swift
/// let manager = try ServerTrustManager(evaluators: [
///     "api.example.com": PublicKeysTrustEvaluator(keys: [current, backup])
/// ])
/// try manager.evaluate(PresentedTrust(chain: chain, anchors: anchors), forHost: Host("api.example.com"))
/// ```
///
/// A name does not cover its subdomains, as in Alamofire; `PinnedDomains` supports subdomains.
public struct ServerTrustManager: Sendable {
    /// Whether a host without an evaluator is refused. Otherwise chain and host are checked.
    public let allHostsMustBeEvaluated: Bool
    /// By host, in normal form.
    public let evaluators: [Host: any ServerTrustEvaluating]

    /// - Parameters:
    ///   - allHostsMustBeEvaluated: refuses hosts that are not named.
    ///   - evaluators: by host name (ASCII or international) or IP literal; patterns, URLs and ports are errors.
    /// - Throws: the first name, in alphabetical order, that is not a host or repeats one. Such a key would otherwise
    ///   silently have no effect.
    public init(
        allHostsMustBeEvaluated: Bool = true,
        evaluators: [String: any ServerTrustEvaluating]
    ) throws(HostNameFault) {
        var byHost: [Host: any ServerTrustEvaluating] = [:]
        for (name, evaluator) in evaluators.sorted(by: { $0.key < $1.key }) {
            let host: Host
            do {
                host = try DomainName.host(name)
            } catch {
                throw HostNameFault(name: name, message: error.message, remedy: error.remedy)
            }
            guard byHost.updateValue(evaluator, forKey: host) == nil else {
                throw HostNameFault(
                    name: name,
                    message: "\(host) is named twice, in two spellings",
                    remedy: "keep one of the two"
                )
            }
        }
        self.allHostsMustBeEvaluated = allHostsMustBeEvaluated
        self.evaluators = byHost
    }

    /// The reason why a name cannot have an evaluator.
    public struct HostNameFault: Error, Hashable, Sendable, CustomStringConvertible {
        /// The name as given.
        public var name: String
        /// *The problem, without a full stop.
        public var message: String
        /// The remedy, without a full stop.
        public var remedy: String

        public var description: String { "\"\(LegibleText.excerpt(name))\": \(message) (\(remedy))" }
    }

    /// The evaluator of a host.
    ///
    /// - Returns: `nil` for a host without one where not all must have one; `evaluate` then checks chain and host.
    /// - Throws: `noRequiredEvaluator`.
    public func serverTrustEvaluator(
        forHost host: Host
    ) throws(ServerTrustError) -> (any ServerTrustEvaluating)? {
        if let evaluator = evaluators[host] { return evaluator }
        guard !allHostsMustBeEvaluated else { throw .noRequiredEvaluator(host: host) }
        return nil
    }

    /// Evaluates what a server presented with the host's evaluator. Where a host may be without one, chain and host are
    /// checked.
    ///
    /// - Returns: the reports of the policies, each accepted; at least one.
    /// - Throws: the reason why the server is refused.
    @discardableResult
    public func evaluate(
        _ trust: PresentedTrust,
        forHost host: Host
    ) throws(ServerTrustError) -> [TrustEvaluation] {
        let evaluator = try serverTrustEvaluator(forHost: host) ?? DefaultTrustEvaluator()
        return try evaluator.evaluate(trust, forHost: host)
    }
}
