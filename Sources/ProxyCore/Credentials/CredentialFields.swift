import HTTPCore
import ServerTrust
import SessionCore

/// The fields that credentials make, for requests to servers that have proved enough.
final class CredentialFields: GuardedFields {
    private let values: [CredentialValue]
    private let rule: RuleCredentials?

    /// - Parameter rule: nil for fields that no server may have.
    init(_ fields: HeaderFields, _ values: [CredentialValue], for rule: RuleCredentials?) {
        self.values = values
        self.rule = rule
        super.init(fields)
    }

    /// Whether they are made of these values.
    func isMade(of others: [CredentialValue]) -> Bool {
        guard values.count == others.count else { return false }
        for index in values.indices where values[index] !== others[index] { return false }
        return true
    }

    override func mayGo(under evaluation: TrustEvaluation?) -> Bool {
        guard let rule else { return false }
        return switch evaluation?.verdict {
        case .pass: true
        case .notPinned: rule.allowsUnpinned
        case .fail, .reportOnly, .unverified, .expired, nil: false
        }
    }

    override func isHeld(in fields: borrowing HeaderFields) -> Bool {
        for value in values {
            for index in 0..<fields.count {
                if value.mask.holds(fields.value(at: index)) || value.mask.holds(fields.name(at: index)) { return true }
            }
        }
        return false
    }

    override func mask(_ fields: inout HeaderFields) {
        for value in values { value.mask.apply(to: &fields) }
    }

    /// Whether a field of a response holds what a mask leaves of a credential: eight stars at least.
    static func isMasked(_ name: FieldName, of fields: borrowing HeaderFields) -> Bool {
        guard let index = fields.first(name) else { return false }
        let value = fields.value(at: index)
        var run = 0
        for place in 0..<value.count {
            run = value[place] == UInt8(ascii: "*") ? run + 1 : 0
            if run == CredentialOutput.leastBytes { return true }
        }
        return false
    }
}
