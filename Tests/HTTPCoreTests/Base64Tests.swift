// SPDX-License-Identifier: Apache-2.0
import Foundation
import Testing

@testable import HTTPCore

@Suite("Base64")
struct Base64Tests {
    @Test(
        "base64 of every length, both ways",
        arguments: [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
    )
    func base64(text: String, expected: String) {
        #expect(Base64.encode(Array(text.utf8)) == expected)
        // An empty text is not valid base64 for a pin or credentials.
        #expect(Base64.decode(Array(expected.utf8)) == (text.isEmpty ? nil : Array(text.utf8)))
    }

    @Test("every digit is decoded at every position")
    func digits() {
        let bytes = (0..<259).map { UInt8(truncatingIfNeeded: $0 &* 151) }
        for count in 0..<bytes.count {
            let some = Array(bytes[..<count])
            #expect(Base64.encode(some) == Data(some).base64EncodedString())
        }
    }
}
