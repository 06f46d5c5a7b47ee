// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Mutated pin files")
struct PinFileFuzzTests {
    private static let pieces = [
        "true", "false", "null", "0", "-1", "[]", "{}", "\"\"", "\"any\"", "\"publicKey\"", "\"none\"",
        "\"certificate\"",
        "\"sha256/\"", "[null]", "{\"a\":1}", "1e9", "\"2027-02-30\"", "\"/\"", "\"*.example.com\"", "\"xn--\"",
    ]

    @Test("a mutated pin file is refused with places, or loads without contradictions")
    func mutations() throws {
        let good = """
            { "version": 1, "pinnedDomains": { "api.example.com": { "ports": [443], "includeSubdomains": true,
            "pinningMode": "publicKey", "allowInvalidCertificates": false, "validatesDomainName": true,
            "pins": [ { "spki-sha256": "\(PublicKeyPin.unrelated(1))", "scope": "leaf" }, "\(PublicKeyPin.unrelated(2))" ],
            "forbiddenPins": [], "expiration": "2027-01-31", "onExpiration": "deny", "enforcePinning": true,
            "allowSinglePin": false, "reportUris": [], "minTLSVersion": "1.2" },
            "old.example.com": { "excludeFromParentPolicy": true } } }
            """
        let tokens = Self.tokens(good)
        var random = SeededGenerator(seed: 99)
        var loads = 0
        for _ in 0..<1000 {
            var mutated = tokens
            for _ in 0...(random.next() % 2) {
                let place = Int(random.next() % UInt64(mutated.count))
                let other = Int(random.next() % UInt64(mutated.count))
                switch random.next() % 4 {
                case 0: mutated[place] = Self.pieces[Int(random.next() % UInt64(Self.pieces.count))]
                case 1: mutated[place] = mutated[other]
                case 2: mutated.swapAt(place, other)
                default: mutated.remove(at: place)
                }
            }
            do {
                let loaded = try PinFile.load(text: mutated.joined(separator: " "), file: "f", at: 1_800_000_000)
                loads += 1
                for domain in loaded.domains.domains {
                    #expect(domain.policy?.configuration.faults().isEmpty ?? true)
                }
            } catch {
                #expect(!error.issues.isEmpty)
                #expect(error.issues.allSatisfy { $0.line != nil && !$0.message.isEmpty && !$0.remedy.isEmpty })
            }
        }
        #expect(loads > 10 && loads < 800)
    }

    /// The tokens of a text: strings, words, and single characters except white space.
    private static func tokens(_ text: String) -> [String] {
        var tokens: [String] = []
        var isInString = false
        var isWord = false
        for character in text {
            if isInString || (isWord && (character.isLetter || character.isNumber)) {
                tokens[tokens.count - 1].append(character)
                if character == "\"" { isInString = false }
            } else if !character.isWhitespace {
                tokens.append(String(character))
                isInString = character == "\""
                isWord = character.isLetter || character.isNumber
            } else {
                isWord = false
            }
        }
        return tokens
    }
}
