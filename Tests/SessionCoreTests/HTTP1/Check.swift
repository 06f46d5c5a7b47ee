// SPDX-License-Identifier: Apache-2.0
import Testing

/// `#expect` for values that cannot be copied: the macro copies what its expression uses.
func check(_ condition: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(condition, comment, sourceLocation: sourceLocation)
}
