// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The fields that the credentials of a rule add to a request, and the values that they are made of.
struct CredentialFields {
    var guarded: GuardedFields
    /// In the order of the rule's credentials.
    let values: [CredentialValue]

    /// Where there is no value, although there was one.
    static var none: CredentialFields {
        CredentialFields(guarded: GuardedFields(HeaderFields(), for: .never, masks: []), values: [])
    }

    /// Whether a field of a response holds what a mask leaves of a credential.
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
