// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import Testing

@testable import ProxyConfiguration

@Suite("Files of users and of tokens")
struct CredentialFileTests {
    // Each of "secret", as Debian's libcrypt makes them.
    private static let sha512 =
        "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/"

    private static func fault(_ text: String) -> PasswordFile.Fault? {
        do throws(PasswordFile.Fault) {
            _ = try PasswordFile(Array(text.utf8))
            return nil
        } catch {
            return error
        }
    }

    @Test("users are read line by line, without comments and empty lines")
    func reads() throws {
        let file = try PasswordFile(Array("# people\n\nalice:\(Self.sha512)\r\nbob:\(Self.sha512)\n".utf8))
        #expect(file.users == [Array("alice".utf8), Array("bob".utf8)])
        #expect(file.hashes[Array("bob".utf8)] == Self.sha512)
    }

    @Test(
        "an unprotected password is refused, and not repeated in the message",
        arguments: [
            "alice:secret", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "alice:$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.",
            "alice:$1$salt$qJH7.N4xYta3aEG/dfqo/0", "alice:rl0uE2G3xFv9I", "alice:!", "alice:",
            "alice:$5$salt$Gcm6FsVtF/Qa77ZKD.iwsJlCVPY0XSMgLJL0Hnww/c1",
        ]
    )
    func refusesWeakHashes(line: String) {
        let fault = Self.fault("# one\n\(line)\n")
        #expect(fault?.line == 2)
        #expect(fault?.remedy.contains("htpasswd -B") == true)
        #expect(fault?.message.contains("secret") == false)
    }

    @Test(
        "damaged lines are refused",
        arguments: [
            ("alice", "not a user and a hash"), (":$6$x", "not a user and a hash"),
            ("alice:$6$", "damaged"), ("alice:$6$saltsalt$short", "damaged"),
            ("alice:$2y$99$abcdefghijklmnopqrstuuTs3NoC9VL7RYQUpxzR8TIOx5p/t5ckq", "cost of 99"),
            ("a\tb:\(sha512)", "control character"),
            ("alice:\(sha512)\nalice:\(sha512)", "second time"),
            ("# nobody", "no user"), ("", "no user"),
        ]
    )
    func refusesDamage(text: String, says: String) {
        #expect(Self.fault(text)?.message.contains(says) == true, "\(String(describing: Self.fault(text)))")
    }

    @Test(
        "names of users are UTF-8 without control characters, for the log",
        arguments: [
            ([0xC3, 0xA9], true), (Array("zoé <b>\"".utf8), true), ([0xE9], false), ([0x61, 0xC3], false),
            ([0xED, 0xA0, 0x80], false), ([0x61, 0x1B], false), (Array("a\u{9B}".utf8), false),
            (Array("a\u{202E}".utf8), false), ([], false),
        ] as [([UInt8], Bool)]
    )
    func names(name: [UInt8], isOne: Bool) {
        let user = try? PasswordFile(name + Array(":\(Self.sha512)\n".utf8))
        #expect((user != nil) == isOne)
        let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"
        let token = try? TokenFile(name + Array(":\(digest)\n".utf8))
        #expect((token != nil) == isOne)
    }

    @Test(
        "names that processes or certificates could have are refused",
        arguments: [
            ("uid 0", "unixPeers"), ("uid 1000", "unixPeers"), ("uid bob", "unixPeers"), ("spiffe://", "certificates"),
            ("spiffe://example.org/agent", "certificates"), ("CN = alice", "subject"), ("2.5.4.3 = alice", "subject"),
            ("uid", nil), ("uid0", nil), ("fluid 0", nil), ("UID 0", nil), ("alice@spiffe", nil), ("a=b", nil),
            ("= b", nil),
        ]
    )
    func collisions(name: String, kind: String?) {
        let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"
        func fault(_ read: () throws(PasswordFile.Fault) -> Void) -> PasswordFile.Fault? {
            do throws(PasswordFile.Fault) {
                try read()
                return nil
            } catch {
                return error
            }
        }
        let faults = [
            // In a file of users a colon ends the name.
            name.contains(":") ? nil : Self.fault("a:\(Self.sha512)\n\(name):\(Self.sha512)\n"),
            fault { () throws(PasswordFile.Fault) in _ = try TokenFile(Array("# t\n\(name):\(digest)\n".utf8)) },
        ]
        if let kind {
            for fault in faults where fault != nil || !name.contains(":") {
                #expect(fault?.line == 2 && fault?.message.contains(kind) == true, "\(String(describing: fault))")
                #expect(fault?.remedy == "give the user another name")
            }
            #expect(faults[1] != nil)
        } else {
            #expect(faults == [nil, nil])
        }
    }

    @Test("hashes that would take too long are refused")
    func refusesCost() {
        let bcrypt = "alice:$2y$31$abcdefghijklmnopqrstuuTs3NoC9VL7RYQUpxzR8TIOx5p/t5ckq"
        #expect(Self.fault(bcrypt)?.message.contains("cost of 31") == true)
        let rounds = "alice:" + Self.sha512.replacing("rounds=1000", with: "rounds=999999999")
        #expect(Self.fault(rounds)?.message.contains("rounds") == true)
    }

    @Test("an unknown user costs the same hash each time")
    func standsIn() throws {
        let file = try PasswordFile(Array("alice:\(Self.sha512)\n".utf8))
        #expect(file.stand(inFor: Array("nobody".utf8)) == Self.sha512)
        #expect(file.stand(inFor: []) == Self.sha512)
    }

    @Test("tokens are known by their digests alone")
    func tokens() throws {
        let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"
        let file = try TokenFile(Array("ci: runner:\(digest)\nother:\(String(digest.reversed()))\n".utf8))
        #expect(file.name(of: Array("open-sesame".utf8)) == Array("ci: runner".utf8))
        #expect(file.name(of: Array("open-sesamE".utf8)) == nil)
        #expect(file.name(of: []) == nil)
    }

    @Test(
        "a file without tokens, or with other contents, is refused",
        arguments: [
            "", "ci", "ci:open-sesame", ":\(String(repeating: "0", count: 64))",
            "ci:\(String(repeating: "g", count: 64))",
        ]
    )
    func refusesTokens(text: String) {
        #expect(throws: PasswordFile.Fault.self) { try TokenFile(Array(text.utf8)) }
    }

    @Test(
        "credentials of clients are compared exactly",
        arguments: [
            ("Basic YWxpY2U6YTpi", PresentedCredentials.basic(user: Array("alice".utf8), password: Array("a:b".utf8))),
            ("basic  YWxpY2U6", .basic(user: Array("alice".utf8), password: [])),
            ("BEARER abc", .bearer(token: Array("abc".utf8))),
            ("Basic", .none), ("Basic YWxpY2U", .none), ("Basic YWxpY2U=", .none),
            ("Basic YWxp\u{e9}2U6", .none), ("Digest username=\"alice\"", .none), ("YWxpY2U6YTpi", .none),
        ]
    )
    func readsField(value: String, expected: PresentedCredentials) {
        var fields = HeaderFields()
        fields.append(.proxyAuthorization, Array(value.utf8).span)
        #expect(PresentedCredentials(fields) == expected)
        fields.append(.proxyAuthorization, Array(value.utf8).span)
        #expect(PresentedCredentials(fields) == .none)
    }
}
