// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("rules that are proposed for requests that were seen")
struct RequestLearnerTests {
    private func proposal(_ requests: [(method: String, host: String, target: String)]) throws -> [String] {
        var learner = RequestLearner()
        for request in requests {
            let sighting = RequestLearner.Sighting(
                host: try Host(request.host),
                port: nil,
                method: request.method.isEmpty ? nil : request.method,
                target: Array(request.target.utf8)
            )
            #expect(learner.add(sighting) == .learned)
        }
        return learner.proposal.map { rule, requests in
            let hosts = rule.hosts.map(\.description).joined(separator: ",")
            return "\(rule.id): \(hosts) \(rule.methods?.words ?? []) \(rule.paths.map(\.text)) \(requests)"
        }
    }

    @Test("a few names stay, and methods with the same paths share a rule")
    func names() throws {
        let seen = [
            ("GET", "a.example", "/v1/models?x=1"), ("GET", "a.example", "/v1/me"),
            ("POST", "a.example", "/v1/messages"),
        ]
        #expect(
            try proposal(seen) == [
                #"a.example: a.example ["GET"] ["/v1/me", "/v1/models"] 3"#,
                #"a.example-2: a.example ["POST"] ["/v1/messages"] 3"#,
            ]
        )
        #expect(
            try proposal([("GET", "a.example", "/x"), ("HEAD", "a.example", "/x")]) == [
                #"a.example: a.example ["read"] ["/x"] 2"#
            ]
        )
    }

    @Test("hosts with the same methods and paths share a rule")
    func hosts() throws {
        #expect(
            try proposal([("GET", "b.example", "/x"), ("GET", "a.example", "/x")]) == [
                #"a.example: a.example,b.example ["GET"] ["/x"] 2"#
            ]
        )
    }

    @Test(
        "ids become stars",
        arguments: [
            "42", "3f2a9c01", "550e8400-e29b-41d4-a716-446655440000", "usr_9aF31xkQ02LmZz77",
            "7c4a8d09ca3762af61e59520943dc26494f8941b",
        ]
    )
    func ids(_ id: String) throws {
        #expect(
            try proposal([("GET", "a.example", "/users/\(id)/posts")]) == [
                #"a.example: a.example ["GET"] ["/users/*/posts"] 1"#
            ]
        )
    }

    @Test(
        "words, versions and names with a number are no ids",
        arguments: [
            "v1", "users", "python3", "deadbeef", "info", "facade", "git-upload-pack", "requests-2.32.0.tar.gz",
        ]
    )
    func noIDs(_ name: String) { #expect(!RequestLearner.isID(name)) }

    @Test("many names in one position become a star")
    func manyNames() throws {
        let packages = ["requests", "idna", "urllib3", "certifi", "charset-normalizer"]
        #expect(
            try proposal(packages.map { ("GET", "pypi.example", "/simple/\($0)/") }) == [
                #"pypi.example: pypi.example ["GET"] ["/simple/*/"] 5"#
            ]
        )
    }

    @Test("encoded slashes stay spelled")
    func encodedSlashes() throws {
        let names = ["core", "types", "parser", "traverse", "generator"].map {
            ("GET", "npm.example", "/@babel%2f\($0)")
        }
        #expect(try proposal(names) == [#"npm.example: npm.example ["GET"] ["/@*%2F*"] 5"#])
        #expect(
            try proposal([("GET", "npm.example", "/@babel%2fcore")]) == [
                #"npm.example: npm.example ["GET"] ["/@babel%2Fcore"] 1"#
            ]
        )
    }

    @Test("a tunnel gets a rule for its host; an intercepted CONNECT does not")
    func tunnels() throws {
        #expect(try proposal([("", "a.example", "")]) == ["a.example: a.example [] [] 1"])
        #expect(
            try proposal([("", "a.example", ""), ("GET", "a.example", "/x")]) == [
                #"a.example: a.example ["GET"] ["/x"] 2"#
            ]
        )
    }

    @Test("ambiguous requests and literal stars are not learned")
    func notLearned() throws {
        var learner = RequestLearner()
        func add(_ target: String) throws -> RequestLearner.Outcome {
            learner.add(.init(host: try Host("a.example"), port: nil, method: "GET", target: Array(target.utf8)))
        }
        #expect(try add("/v1/*") == .literalStar)
        #expect(try add("/v1/%2A") == .learned)
        #expect(try add("//v1") == .ambiguous(.emptySegment))
        #expect(try add("/v1?_method=DELETE") == .ambiguous(.methodOverride))
        #expect(learner.proposal.map { $0.rule.paths.map(\.text) } == [["/v1/%2A"]])
    }

    @Test("long and many paths become few patterns")
    func hostilePaths() throws {
        func rules(_ targets: [String]) throws -> [String] {
            var learner = RequestLearner()
            for target in targets {
                let sighting = RequestLearner.Sighting(
                    host: try Host("a.example"),
                    port: nil,
                    method: "GET",
                    target: Array(target.utf8)
                )
                #expect(learner.add(sighting) == .learned)
            }
            return learner.proposal.flatMap { $0.rule.paths.map(\.text) }
        }
        // A tree as deep as the path would be walked by functions that call themselves.
        let deep = try rules((0..<3).map { "/" + String(repeating: "a/", count: 20_000) + "x\($0)" })
        #expect(deep.count == 1 && deep[0].hasSuffix("*"), "\(deep.map { $0.prefix(100) })")
        // No place has more than four names, and comparing all patterns with each other would take minutes.
        var wide = [""]
        for _ in 0..<7 { wide = wide.flatMap { path in ["a", "b", "c", "d"].map { "\(path)/\($0)" } } }
        #expect(try rules(wide) == ["/*/*/*/*/*/*/*"])
        var slashes = [""]
        for _ in 0..<7 { slashes = slashes.flatMap { path in ["@s", "t", ""].map { "\(path)\($0)%2F" } } }
        let clear = slashes.map { "/x\($0)y" }.filter {
            RequestReading(path: Array($0.utf8).span).path == nil
        }
        #expect(try rules(clear).allSatisfy { $0.matches(of: /%2F/).count == 7 })
    }

    @Test("invented paths and methods are bounded by their memory")
    func bounded() throws {
        for isMethod in [true, false] {
            var learner = RequestLearner(pathBound: 1 << 20)
            var count = 0
            while count < 10_000 {
                let path = isMethod ? "/" : "/\(count)" + String(repeating: "/a", count: 1000)
                let sighting = RequestLearner.Sighting(
                    host: try Host("a.example"),
                    port: nil,
                    method: isMethod ? "M\(count)" + String(repeating: "X", count: 4000) : "GET",
                    target: Array(path.utf8)
                )
                guard learner.add(sighting) == .learned else { break }
                count += 1
            }
            #expect((30..<600).contains(count))
        }
    }

    @Test("an Upgrade is learned as a word, with methods other than GET")
    func upgrades() throws {
        var learner = RequestLearner()
        for (method, path) in [("GET", "/socket"), ("POST", "/tunnel")] {
            let sighting = RequestLearner.Sighting(
                host: try Host("a.example"),
                port: nil,
                method: method,
                isUpgrade: true,
                target: Array(path.utf8)
            )
            #expect(learner.add(sighting) == .learned)
        }
        let rules = learner.proposal.map { "\($0.rule.methods?.words ?? []) \($0.rule.paths.map(\.text))" }
        #expect(rules.sorted() == [#"["POST", "UPGRADE"] ["/tunnel"]"#, #"["UPGRADE"] ["/socket"]"#])
    }

    @Test("paths that were not found make no star")
    func absent() throws {
        var learner = RequestLearner()
        func add(_ target: String, isAbsent: Bool = true) throws -> RequestLearner.Outcome {
            let target = Array(target.utf8)
            return learner.add(
                .init(host: try Host("a.example"), port: nil, method: "GET", isAbsent: isAbsent, target: target)
            )
        }
        for name in ["a", "b", "c", "d", "e", "12345"] { #expect(try add("/v1/\(name)") == .learned) }
        #expect(learner.proposal.map { $0.rule.paths.count } == [6])
        #expect(!learner.proposal[0].rule.paths.contains { $0.starCount > 0 })
        #expect(try add("/v1/7", isAbsent: false) == .learned)
        #expect(learner.proposal.map { $0.rule.paths.map(\.text) } == [["/v1/*"]])
        for name in 0..<10 { #expect(try add("/v2/\(name)") == .learned) }
        #expect(try add("/v2/x") == .surplus)
        #expect(try add("/v2/1") == .learned)
    }

    @Test("unnameable paths and methods are not learned")
    func unnameable() throws {
        var learner = RequestLearner()
        func add(_ method: String, _ target: String) throws -> RequestLearner.Outcome {
            learner.add(.init(host: try Host("a.example"), port: nil, method: method, target: Array(target.utf8)))
        }
        for path in ["/v1/\"x\"", "/v1/<", "/v1/x>y"] { #expect(try add("POST", path) == .unwritablePath) }
        for method in ["read", "UPGRADE", "get", "CONNECT", "*", "`", "Get", "GET HTTP/1.1", "", "1", "A\u{1b}"] {
            #expect(try add(method, "/v1/x") == .unusualMethod)
        }
        #expect(learner.proposal.isEmpty)
        #expect(try add("M-SEARCH", "/v1/x") == .learned)
        #expect(try add("GET", "/v1/a\"b") == .unwritablePath)
        #expect(learner.proposal.map { $0.rule.paths.map(\.text) } == [["/v1/x"]])
    }

    @Test("the proposal allows every learned request", arguments: 0..<20)
    func coversAll(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        func pick<T>(_ list: [T]) -> T { list[Int(random.next() % UInt64(list.count))] }
        let names = [
            "a", "b", "c", "dd", "ee", "f", "42", "3f2a9c01", "@s%2Fx", "@t%2Fy", "", "x.y", "%20", "g", "h", "i", "j",
            "k",
        ]
        var learner = RequestLearner()
        var seen: [(String, String)] = []
        for _ in 0..<120 {
            let target = "/" + (0..<(1 + Int(random.next() % 12))).map { _ in pick(names) }.joined(separator: "/")
            let method = pick(["GET", "POST", "HEAD"])
            let outcome = learner.add(
                .init(host: try Host("a.example"), port: nil, method: method, target: Array(target.utf8))
            )
            if outcome == .learned { seen.append((method, target)) }
        }
        var requests = RequestsConfiguration()
        requests.rules = learner.proposal.map(\.rule)
        for index in requests.rules.indices {
            #expect(
                requests.rules[index].paths.allSatisfy { $0.starCount <= RulePath.starLimit && $0.ambiguity == nil }
            )
            let words = requests.rules[index].methods?.words ?? []
            requests.rules[index].methods?.methods = Set(
                words.flatMap { $0 == "read" ? RuleMethods.read : [HTTPMethod($0)!] }
            )
        }
        let rules = RequestRules(requests).rules(for: try Host("a.example"), port: 443, defaultPort: 443)
        for (method, target) in seen {
            let verdict = rules.judge(
                HTTPMethod(method)!,
                target: Array(target.utf8).span,
                fields: HeaderFields(),
                user: nil
            )
            #expect(verdict.decision == .allowed, "\(method) \(target)")
        }
    }
}
