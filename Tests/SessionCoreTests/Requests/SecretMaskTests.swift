// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Secrets in heads of responses")
struct SecretMaskTests {
    private func mask(_ secrets: String...) -> SecretMask { SecretMask(secrets.map { SecretBytes(Array($0.utf8)) }) }

    private func masked(_ text: String, _ mask: SecretMask) -> String {
        let bytes = Array(text.utf8)
        return String(decoding: mask.masked(bytes.span), as: UTF8.self)
    }

    private func holds(_ text: some Collection<UInt8>, _ mask: SecretMask) -> Bool {
        let bytes = Array(text)
        return mask.holds(bytes.span)
    }

    @Test("a secret is replaced at equal length, wherever it stands")
    func plain() {
        let mask = mask("s3cr3t/+ key")
        for (text, wanted) in [
            ("s3cr3t/+ key", "************"), ("a=s3cr3t/+ key;b", "a=************;b"),
            ("s3cr3t/+ keys3cr3t/+ key", "************************"), ("s3cr3t/+ ke", "s3cr3t/+ ke"), ("", ""),
            ("s3cr3s3cr3t/+ key", "s3cr3************"),
        ] {
            #expect(masked(text, mask) == wanted)
            #expect(holds(text.utf8, mask) == (text != wanted), "\(text)")
        }
    }

    @Test("a secret is found with any of its bytes percent-encoded")
    func encoded() {
        let mask = mask("s3cr3t/+ key%")
        for text in [
            "s3cr3t%2F%2B%20key%25", "s3cr3t%2f%2b%20key%25", "s3cr3t/%2B+key%",
            "%73%33%63%72%33%74%2F%2B%20%6B%65%79%25",
        ] {
            #expect(
                masked("https://example.com/?k=\(text)&l", mask) == "https://example.com/?k=" + stars(text.utf8.count)
                    + "&l"
            )
            #expect(holds(text.utf8, mask), "\(text)")
        }
        for text in ["s3cr3t%2F%2B%2", "%", "%7", "%73%", "s3cr3t%2F%2B%21key%25"] {
            #expect(!holds(text.utf8, mask) && masked(text, mask) == text, "\(text)")
        }
    }

    private func stars(_ count: Int) -> String { String(repeating: "*", count: count) }

    @Test("names and values of fields are masked, and others stay as they are")
    func fields() throws {
        let mask = mask("s3cr3t-key", "QWxhZGRpbg==")
        var fields = HeaderFields()
        for (name, value) in [
            ("Content-Length", "10"), ("Location", "/?k=s3cr3t-key"), ("x-s3cr3t-key", "1"),
            ("X-Echo", "Basic QWxhZGRpbg=="),
            ("Set-Cookie", "a=b"),
        ] {
            try fields.append(name: name, value: value)
        }
        #expect(mask.apply(to: &fields) == true)
        #expect(
            fields.list.map { "\($0.name): \($0.value)" } == [
                "Content-Length: 10", "Location: /?k=**********", "x-**********: 1", "X-Echo: Basic ************",
                "Set-Cookie: a=b",
            ]
        )
        #expect(fields.first(.contentLength) == 0 && fields.first(.location) == 1)
        #expect(mask.apply(to: &fields) == false)
    }

    @Test("letters are compared without case, as HTTP/2 writes names")
    func cases() {
        let mask = mask("S3cr3t-Key/%2F+")
        for text in [
            "s3cr3t-key/%2f+", "S3CR3T-KEY/%2F+", "s3cr3t-key%2f%252f ", "s3cr3t-key//+", "s3cr3t-key%2f/%20",
        ] {
            #expect(holds(text.utf8, mask) && masked(text, mask) == stars(text.utf8.count), "\(text)")
        }
        #expect(!holds("s3cr3t_key/%2f+".utf8, mask))
        // The secret ends in the middle of what looks encoded.
        #expect(masked("x%41", self.mask("x%4")) == "***1")
    }

    @Test("a secret that repeats itself is found in bytes that do")
    func repeating() {
        let secret = [UInt8](repeating: UInt8(ascii: "a"), count: 4000)
        let mask = SecretMask([SecretBytes(secret + [UInt8(ascii: "b")])])
        // A search that compares at each place would take some billion steps for each of these.
        let plain = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)
        let nearly = plain.enumerated().map { $0.offset % 4000 == 1 ? UInt8(ascii: "b") : $0.element }
        let encoded = Array(repeatElement(Array("%61".utf8), count: 1 << 18).joined())
        for text in [plain, nearly, encoded] {
            #expect(!holds(text, mask) && mask.masked(text.span) == text)
        }
        let whole = encoded + [UInt8(ascii: "B"), UInt8(ascii: "a")]
        let masked = mask.masked(whole.span)
        #expect(
            masked.last == UInt8(ascii: "a") && masked.dropLast().suffix(12001).allSatisfy { $0 == UInt8(ascii: "*") }
        )
        #expect(masked.prefix(whole.count - 12002) == whole.prefix(whole.count - 12002))
        // Each place is the beginning of one.
        let all = SecretMask([SecretBytes(secret)]).masked(plain.span)
        #expect(all.allSatisfy { $0 == UInt8(ascii: "*") })
    }

    @Test("the search finds what a plain comparison of all places finds")
    func search() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<2000 {
            // Few different bytes, so that much is nearly alike.
            let secret = (0..<Int.random(in: 1...9, using: &generator)).map { _ in
                "ab%2".utf8.randomElement(using: &generator)!
            }
            let text = (0..<Int.random(in: 0...40, using: &generator)).map { _ in
                "ab%261".utf8.randomElement(using: &generator)!
            }
            let mask = SecretMask([SecretBytes(secret)])
            let isThere = (0...text.count).contains { text.dropFirst($0).starts(with: secret) }
            if isThere { #expect(holds(text, mask), "\(secret) \(text)") }
            // Both directions of the same question agree.
            let masked = mask.masked(text.span)
            #expect(holds(text, mask) == (masked != text), "\(secret) \(text)")
        }
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 300) + [UInt8(ascii: "b")]
        let mask = SecretMask([SecretBytes(long)])
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: 700) + [UInt8(ascii: "b"), UInt8(ascii: "a")]
        #expect(holds(text, mask) && !holds(text[..<700], mask))
    }

    @Test("without secrets nothing is masked")
    func none() {
        #expect(!holds("anything%20".utf8, SecretMask([])) && masked("anything%20", SecretMask([])) == "anything%20")
    }
}
