import HTTPCore
import IOCore
import SessionCore

/// The credentials of one policy, for the requests of one loop.
final class CredentialDesk {
    /// What a request that wants credentials gets.
    enum Outcome {
        case ready
        /// The source runs.
        case wait
        case failed(Problem)
    }

    private let board: CredentialBoard
    /// The latest fields, by the number of the rule: they change only with a value.
    private var made: [CredentialFields?]
    /// The latest value of each credential: one that ends while its request is on the way is sent all the same.
    private var latest: [CredentialValue?]

    init(_ board: CredentialBoard, _ rules: RequestRules, credentials: [CredentialDefinition]) {
        self.board = board
        made = Array(repeating: nil, count: rules.credentialedCount)
        latest = Array(repeating: nil, count: credentials.count)
    }

    /// Whether the credentials of a rule can be written now. Asks for the values that are missing.
    func outcome(for rule: RuleCredentials) -> Outcome {
        var outcome = Outcome.ready
        for place in rule.places {
            switch board.value(place) {
            case .ready(let value): latest[place] = value
            case .wait: outcome = .wait
            case .failed(let fault): return .failed(Problem(fault, of: board.name(place)))
            }
        }
        return outcome
    }

    /// The fields for a request that is about to be sent, for which `outcome` was `ready`.
    ///
    /// - Parameter bodyDigest: SHA-256 of the body, where a signature needs it.
    func fields(
        for rule: RuleCredentials,
        of request: borrowing SessionRequest,
        bodyDigest: [UInt8]? = nil
    ) -> CredentialFields {
        var values: [CredentialValue] = []
        for place in rule.places {
            if case .ready(let value) = board.value(place) { latest[place] = value }
            // Without a value there is nothing that any server may have.
            guard let value = latest[place] else { return CredentialFields(HeaderFields(), [], for: nil) }
            values.append(value)
        }
        if let known = made[rule.number], known.isMade(of: values) { return known }
        var fields = HeaderFields()
        var isSigned = false
        for value in values {
            switch value.content {
            case .field(let bytes): fields.append(name: value.header.span, value: bytes.bytes)
            case .signing(let keys, let scope):
                isSigned = true
                AWSFields.append(to: &fields, keys, scope, of: request, digest: bodyDigest, at: board.date)
            }
        }
        let new = CredentialFields(fields, values, for: rule)
        // A signature is one request's.
        if !isSigned { made[rule.number] = new }
        return new
    }
}
