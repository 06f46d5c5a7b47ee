// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// The credentials of one policy, for the requests of one loop.
final class CredentialDesk {
    /// The outcome for a request that wants credentials.
    enum Outcome {
        case ready
        /// A source runs, or has to.
        case wait
        case failed(Problem)
    }

    private let board: CredentialBoard
    private let loop: EventLoop
    /// The placeholders of all credentials.
    private let placeholders: [CredentialPlaceholder]
    /// The credentials of each rule of `requests`, in their order.
    private let rules: [RuleCredentials?]
    /// The latest fields of each rule: they change only with a value.
    private var made: [CredentialFields?]
    /// The latest value of each credential.
    private var latest: [CredentialValue?]

    /// - Parameter configuration: with at least one rule that gives credentials.
    init(_ board: CredentialBoard, _ configuration: Configuration, loop: EventLoop) {
        self.board = board
        self.loop = loop
        let credentials = configuration.credentials
        placeholders = credentials.compactMap { CredentialPlaceholder($0) }
        rules = (configuration.requests?.rules ?? []).enumerated().map { place, rule in
            rule.credentials.isEmpty ? nil : RuleCredentials(rule.credentials, of: credentials, place: place)
        }
        made = Array(repeating: nil, count: rules.count)
        latest = Array(repeating: nil, count: credentials.count)
    }

    /// The credentials of the rule that lets a request through.
    ///
    /// - Parameter place: of the rule in the configuration; nil where none does.
    func credentials(ofRule place: Int?) -> RuleCredentials? {
        place.flatMap { $0 < rules.count ? rules[$0] : nil }
    }

    /// Why a request may not have the credentials of its rule, by what its client has sent.
    ///
    /// - Parameter rule: nil for a request whose rule gives none.
    func refusal(of head: borrowing RequestHead, _ rule: RuleCredentials?) -> Problem? {
        CredentialDemand(head, rule, placeholders).problem
    }

    /// Whether the credentials of a rule can be written now.
    func outcome(for rule: RuleCredentials) -> Outcome {
        var outcome = Outcome.ready
        for (index, place) in rule.places.enumerated() {
            switch board.value(place) {
            case .ready(let value): if latest[place] !== value { latest[place] = value }
            case .wait: outcome = .wait
            case .failed(let fault): return .failed(Problem(fault, of: rule.definitions[index].name))
            }
        }
        return outcome
    }

    /// Takes the values that are there now, for requests that have waited for them.
    func takeValues(of rule: RuleCredentials) {
        for place in rule.places {
            if case .ready(let value) = board.value(place) { latest[place] = value }
        }
    }

    /// The policy was replaced: those who wait hear of it, and begin again under the next one.
    func retire() { board.retire() }

    /// Whether another value than the ones that a server has refused can be had.
    func canRenew(_ rule: RuleCredentials, _ refused: CredentialFields) -> Bool {
        for (index, value) in refused.values.enumerated() {
            if case .ready = board.refused401(rule.places[index], value) { return true }
            if isRenewed(rule, index, value) { return true }
        }
        return false
    }

    /// Has the sources of refused values run, for requests to come.
    func renew(_ rule: RuleCredentials, _ refused: CredentialFields) {
        for (index, value) in refused.values.enumerated() where isRenewed(rule, index, value) {
            board.renew(rule.places[index], after: value)
        }
    }

    /// Whether the value that is there is a refused one, and another one can be waited for.
    func awaitsOther(_ rule: RuleCredentials, than refused: [CredentialValue]) -> Bool {
        guard !refused.isEmpty else { return false }
        return rule.places.indices.contains { index in
            Self.find(rule.definitions[index], in: refused).map { isRenewed(rule, index, $0) } ?? false
        }
    }

    /// Whether a run of the source may replace the value.
    private func isRenewed(_ rule: RuleCredentials, _ index: Int, _ value: CredentialValue) -> Bool {
        guard rule.definitions[index].source.makesValues,
            case .wait = board.refused401(rule.places[index], value)
        else { return false }
        return true
    }

    private static func find(_ definition: CredentialDefinition, in values: [CredentialValue]) -> CredentialValue? {
        values.first { $0.credential == definition.name }
    }

    /// Waits for the sources of credentials for which `outcome` was `wait`, or for others than the values that a server has refused.
    func wait(
        for rule: RuleCredentials,
        otherThan refused: [CredentialValue],
        atMost limit: TimeSpan,
        _ completion: @escaping (Problem?) -> Void
    ) -> CredentialWait {
        let others = rule.places.indices.map { index in
            Self.find(rule.definitions[index], in: refused).flatMap { isRenewed(rule, index, $0) ? $0 : nil }
        }
        return CredentialWait(for: rule, others, on: board, loop: loop, atMost: limit, completion)
    }

    /// The fields for a request that is about to be sent, for which `outcome` was `ready`, or whose wait is over. A value that has
    /// ended since then is sent all the same.
    ///
    /// - Parameter bodyDigest: SHA-256 of the body, where a signature needs it.
    func fields(
        for rule: RuleCredentials,
        of request: borrowing SessionRequest,
        bodyDigest: [UInt8]? = nil
    ) -> CredentialFields {
        if let known = made[rule.place], isMade(known, for: rule) { return known }
        var values: [CredentialValue] = []
        for place in rule.places {
            // Without a value there is nothing that any server may have.
            guard let value = latest[place] else { return .none }
            values.append(value)
        }
        var fields = HeaderFields()
        var masks = values.map(\.mask)
        var isSigned = false
        for value in values {
            switch value.content {
            case .field(let bytes):
                let name = value.header
                fields.append(name: name.span, value: bytes.bytes)
            case .signing(let keys, let scope):
                isSigned = true
                let date = loop.wallClock / 1_000_000
                let signature = AWSFields.append(to: &fields, keys, scope, of: request, digest: bodyDigest, at: date)
                masks.append(SecretMask([signature]))
            }
        }
        let demand = GuardedFields.Demand(allowUnpinned: rule.allowsUnpinned)
        let guarded = GuardedFields(fields, for: demand, masks: masks)
        let new = CredentialFields(guarded: guarded, values: values)
        // A signature is one request's.
        if !isSigned { made[rule.place] = new }
        return new
    }

    /// Whether fields are made of the latest values.
    private func isMade(_ fields: CredentialFields, for rule: RuleCredentials) -> Bool {
        for index in rule.places.indices where fields.values[index] !== latest[rule.places[index]] { return false }
        return true
    }
}
