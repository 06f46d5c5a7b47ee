// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import HTTPCore

@Suite("Secret parameters of URLs")
struct SecretParametersTests {
    private func masked(_ target: String, _ secrets: SecretParameters) -> String {
        let bytes = Array(target.utf8)
        var search = SecretParameters.Search(bytes.span)
        var result: [UInt8] = []
        var written = 0
        while let value = secrets.next(in: bytes.span, &search) {
            result += bytes[written..<value.lowerBound] + Array("*".utf8)
            written = value.upperBound
        }
        return String(decoding: result + bytes[written...], as: UTF8.self)
    }

    @Test("each usual name is masked in every form that an origin may read")
    func usualNames() {
        let secrets = SecretParameters(SecretParameters.usual)
        for name in SecretParameters.usual {
            let upper = name.uppercased()
            let first = "%" + String(name.utf8.first ?? 0, radix: 16)
            let forms = [
                name, upper, first + name.dropFirst(), name + "[]", name + "%5b1%5D", "+" + name, name + "%00x",
                name.filter { $0 != "_" && $0 != "-" },
            ]
            for form in forms {
                #expect(masked("/p?a=1&\(form)=x&b=2", secrets) == "/p?a=1&\(form)=*&b=2")
                #expect(masked("/p;\(form)=x/q?b=2", secrets) == "/p;\(form)=*/q?b=2")
                #expect(masked("/p?a=1;\(form)=x", secrets) == "/p?a=1;\(form)=*")
            }
            #expect(masked("/p?\(name)z=x&y\(name)=x&\(name)", secrets) == "/p?\(name)z=x&y\(name)=x&\(name)")
        }
    }

    @Test("a value ends where the most generous reader of it ends")
    func values() {
        let secrets = SecretParameters(["tok"])
        for (target, wanted) in [
            ("/a?tok=x;y?z/w&b=1", "/a?tok=*&b=1"), ("/tok=x;v=y/q?tok=z", "/tok=*/q?tok=*"), ("/a?tok=", "/a?tok=*"),
            ("/a?tok=&tok=", "/a?tok=*&tok=*"), ("/a?b=?tok=x", "/a?b=?tok=*"), ("tok=x", "tok=*"), ("=x", "=x"),
            ("", ""),
            ("?", "?"), ("/a?&&;tok=x&", "/a?&&;tok=*&"),
        ] {
            #expect(masked(target, secrets) == wanted)
        }
        #expect(masked("/a?tok=x", SecretParameters([])) == "/a?tok=x")
    }

    @Test("one name in several spellings is compared once, in linear time")
    func linear() {
        #expect(SecretParameters.areSame("api_key", "ApiKey[]"))
        #expect(!SecretParameters.areSame("key", "keys"))
        let secrets = SecretParameters(SecretParameters.usual)
        for unit in ["token=&", ";token=", "/token=", "-----", "s%73----="] {
            let start = unit.hasPrefix("t") ? "?" : ""
            let bytes = Array((start + String(repeating: unit, count: 64_000 / unit.count)).utf8)
            let time = ContinuousClock().measure {
                var search = SecretParameters.Search(bytes.span)
                while secrets.next(in: bytes.span, &search) != nil {}
            }
            // A quadratic search takes seconds here, also where tests are slow.
            #expect(time < .milliseconds(500), "\(unit): \(time)")
        }
    }
}
