public import HTTPCore
import StrictJSON

/// Which host is held to which evaluator, under Alamofire's name.
///
/// ```swift
/// let manager = try ServerTrustManager(evaluators: [
///     "api.example.com": PublicKeysTrustEvaluator(keys: [current, backup])
/// ])
/// try manager.evaluate(PresentedTrust(chain: chain, anchors: anchors), forHost: Host("api.example.com"))
/// ```
///
/// A name stands for itself alone, as in Alamofire; `PinnedDomains` knows subdomains.
public struct ServerTrustManager: Sendable {
    /// Whether a host without an evaluator is refused. Otherwise chain and host are checked.
    public let allHostsMustBeEvaluated: Bool
    /// By host, in its normal form.
    public let evaluators: [Host: any ServerTrustEvaluating]

    /// - Parameters:
    ///   - allHostsMustBeEvaluated: refuses hosts that are not named.
    ///   - evaluators: by name of the host: ASCII or international, or an IP literal; no pattern, URL or port.
    /// - Throws: the first name, in alphabetical order, that is no host or names a host a second time. Such a key would
    ///   otherwise pin nothing, and nobody would notice.
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

    /// Why a name cannot have an evaluator.
    public struct HostNameFault: Error, Hashable, Sendable, CustomStringConvertible {
        /// As given.
        public var name: String
        /// What is wrong with it, without a full stop.
        public var message: String
        /// What to do about it, without a full stop.
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

    /// Judges what a host's server presented by the host's evaluator, and by chain and host where it may have none.
    ///
    /// - Returns: the reports of the policies, each accepted; at least one.
    /// - Throws: why the server is refused.
    @discardableResult
    public func evaluate(
        _ trust: PresentedTrust,
        forHost host: Host
    ) throws(ServerTrustError) -> [TrustEvaluation] {
        let evaluator = try serverTrustEvaluator(forHost: host) ?? DefaultTrustEvaluator()
        return try evaluator.evaluate(trust, forHost: host)
    }
}
