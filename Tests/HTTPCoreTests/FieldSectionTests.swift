// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

/// The result of a request's fields.
private struct Outcome {
    let isWellFormed: Bool
    let fault: RequestFault?
    let form: RequestHead.Form
    let scheme: RequestHead.Scheme?
    let port: UInt16?
    let version: UInt8
    let framing: BodyFraming
    let target: String
    let rawTarget: String
    let host: String
    let fields: HeaderFields

    init(_ head: borrowing RequestHead, isWellFormed: Bool = true, fault: RequestFault? = nil) {
        self.isWellFormed = isWellFormed
        self.fault = fault
        form = head.form
        scheme = head.scheme
        port = head.port
        version = head.majorVersion
        framing = head.framing
        target = String(copying: head.target)
        rawTarget = String(copying: head.rawTarget)
        host = String(copying: head.hostBytes)
        fields = head.fields
    }
}

/// Builds the head of an HTTP/2 request from its fields.
private func section(
    _ fields: [(String, String)],
    isForOrigin: Bool = false,
    endsStream: Bool = true,
    limits: HeadLimits = HeadLimits()
) -> Outcome {
    var section = RequestSection(limits: limits)
    return outcome(of: fields, in: &section, isForOrigin: isForOrigin, endsStream: endsStream)
}

/// Builds a head from its fields with a section that may have served another one.
private func outcome(
    of fields: [(String, String)],
    in section: inout RequestSection,
    isForOrigin: Bool = false,
    endsStream: Bool = true
) -> Outcome {
    var head = RequestHead()
    for (name, value) in fields {
        let isWell = section.append(name: Array(name.utf8).span, value: Array(value.utf8).span, into: &head)
        guard isWell else { return Outcome(head, isWellFormed: false) }
    }
    let fault = section.conclude(isForOrigin: isForOrigin, endsStream: endsStream, into: &head)
    return Outcome(head, fault: fault)
}

private let get = [(":method", "GET"), (":scheme", "http"), (":authority", "api.example.com"), (":path", "/v1?q=1")]

private func replacing(_ name: String, _ value: String?) -> [(String, String)] {
    get.compactMap { $0.0 == name ? value.map { (name, $0) } : $0 }
}

@Suite("Heads of HTTP/2, field by field")
struct FieldSectionTests {
    @Test("a request to a proxy becomes one in absolute-form")
    func absolute() {
        let request = section(get + [("accept", "*/*")])
        #expect(request.fault == nil)
        #expect(request.form == .absolute)
        #expect(request.scheme == .http)
        #expect(request.port == 80)
        #expect(request.target == "/v1?q=1")
        #expect(request.host == "api.example.com")
        #expect(request.rawTarget == "http://api.example.com/v1?q=1")
        #expect(request.framing == BodyFraming.none)
        #expect(request.version == 2)
    }

    @Test("a section that serves the next request keeps nothing of the last one")
    func reused() {
        var section = RequestSection(limits: HeadLimits())
        let long = String(repeating: "a", count: 5000)
        let requests: [[(String, String)]] = [
            replacing(":path", "/\(long)") + [("cookie", "a=1"), ("x-y", "z")],
            replacing(":path", "/short"),
            replacing(":authority", nil),
            [(":method", "CONNECT"), (":authority", "api.example.com:443")],
        ]
        var seen: [String] = []
        for fields in requests {
            section.removeAll(limits: HeadLimits())
            var head = RequestHead()
            for (name, value) in fields {
                let isWell = section.append(name: Array(name.utf8).span, value: Array(value.utf8).span, into: &head)
                #expect(isWell)
            }
            let fault = section.conclude(isForOrigin: false, endsStream: true, into: &head)
            let names = (0..<head.fields.count).map { String(copying: head.fields.name(at: $0)) }
            seen.append(fault.map { "\($0)" } ?? "\(String(copying: head.target).count) \(names)")
        }
        #expect(
            seen == [
                "5001 [\"x-y\", \"Cookie\", \"Host\"]", "6 [\"Host\"]", "hostMissing", "19 [\"Host\"]",
            ]
        )
    }

    @Test("a section that has rested reads the next head as a new one does")
    func rested() {
        let limits = HeadLimits(headBytes: 12_000)
        let large =
            replacing(":path", "/" + String(repeating: "a", count: 7000))
            + [("cookie", String(repeating: "c", count: 1000)), ("x-y", "z")]
        let tooLarge = [("x", String(repeating: "v", count: 12_000))]
        let heads: [([(String, String)], RequestFault?)] = [
            (get, nil), (replacing(":method", nil), .methodInvalid), (replacing(":scheme", nil), .missingTarget),
            (replacing(":authority", nil), .hostMissing), (replacing(":path", nil), .missingTarget),
            ([(":method", "CONNECT"), (":authority", "api.example.com:443")], nil),
            // The limits stay.
            (get + tooLarge, .headTooLarge),
        ]
        for (fields, fault) in heads {
            let fresh = section(fields, limits: limits)
            #expect(fresh.fault == fault)
            var reused = RequestSection(limits: limits)
            func expectTheSame(after what: String) {
                reused.rest()
                let next = outcome(of: fields, in: &reused)
                #expect(next.isWellFormed && next.fault == fault, "\(fields.map { $0.0 }) after \(what)")
                #expect(next.target == fresh.target && next.host == fresh.host, "after \(what)")
                #expect(next.fields == fresh.fields, "after \(what)")
                reused.rest()
            }
            let whole = outcome(of: large, in: &reused)
            #expect(whole.isWellFormed && whole.fault == nil)
            expectTheSame(after: "a large head")
            let refused = outcome(of: large + tooLarge, in: &reused)
            #expect(refused.fault == .headTooLarge)
            expectTheSame(after: "a head beyond the limit")
            var head = RequestHead()
            for (name, value) in large {
                let isWell = reused.append(name: Array(name.utf8).span, value: Array(value.utf8).span, into: &head)
                #expect(isWell)
            }
            expectTheSame(after: "a head without an end")
        }
    }

    @Test("a request to a gateway becomes one in origin-form, with Host")
    func origin() {
        let request = section(replacing(":authority", "LocalHost:9001"), isForOrigin: true)
        #expect(request.fault == nil)
        #expect(request.form == .origin)
        #expect(request.scheme == nil)
        #expect(request.rawTarget == "/v1?q=1")
        #expect(request.host == "localhost")
        #expect(request.port == 9001)
        #expect(request.fields.value(for: "host") == "LocalHost:9001")
    }

    @Test("Host stands in for a missing :authority, and must not differ from it")
    func hostField() {
        let without = section(replacing(":authority", nil) + [("host", "h.example:8080")])
        #expect(without.fault == nil)
        #expect(without.host == "h.example")
        #expect(section(replacing(":authority", nil)).fault == .hostMissing)
        #expect(section(get + [("host", "API.example.com:80")]).fault == nil)
        #expect(section(get + [("host", "other.example.com")]).fault == .hostDiffers)
        #expect(section(get + [("host", "other.example.com")], isForOrigin: true).fault == .hostDiffers)
        #expect(section(get + [("host", "api.example.com"), ("host", "api.example.com")]).fault == .hostRepeated)
    }

    @Test(
        "an authority cannot smuggle a path, a user or a fragment",
        arguments: [
            ("evil.example/x", RequestFault.authorityInvalid), ("evil.example?x", .authorityInvalid),
            ("evil.example#x", .authorityInvalid), ("user@evil.example", .userinfo), ("", .authorityInvalid),
            ("evil.example\\x", .authorityInvalid), ("host:0", .portInvalid), ("0x7f.1", .hostAmbiguousNumber),
            ("a b", .authorityInvalid),
        ]
    )
    func authority(_ authority: String, _ expected: RequestFault) {
        #expect(section(replacing(":authority", authority)).fault == expected)
    }

    @Test("CONNECT to nothing is refused")
    func connectToNothing() {
        #expect(section([(":method", "CONNECT"), (":authority", "")]).fault == .connectWithoutAuthority)
    }

    @Test("an authority is judged the same behind whatever other one")
    func authorityBehindOthers() {
        let long = Array(repeating: "evil", count: 40).joined(separator: ".")
        let names = [
            "evil.example", "evil.exampl", "evil.example/", "evil.exampl/", "user@evil.example", "evil.exampl\u{7F}",
            "EVIL.example", "evil.example:80", "evil.example:", "", long, long + "/x",
        ]
        for first in names {
            for second in names {
                var served = RequestSection(limits: HeadLimits())
                _ = outcome(of: replacing(":authority", first), in: &served)
                served.removeAll(limits: HeadLimits())
                let beside = outcome(of: replacing(":authority", second), in: &served)
                let alone = section(replacing(":authority", second))
                #expect(beside.fault == alone.fault && beside.host == alone.host && beside.port == alone.port)
                #expect(beside.fields == alone.fields && beside.rawTarget == alone.rawTarget)
                served.removeAll(limits: HeadLimits())
                let tunnel = [(":method", "CONNECT"), (":authority", second)]
                #expect(outcome(of: tunnel, in: &served).fault == section(tunnel).fault)
                served.removeAll(limits: HeadLimits())
                let differing = replacing(":authority", second) + [("host", "other.example")]
                #expect(outcome(of: differing, in: &served).fault == section(differing).fault)
            }
        }
    }

    @Test(
        "the path is held to the rules of a request target",
        arguments: [
            ("x", RequestFault.targetForm), ("", .missingTarget), ("/a b", .targetInvalidByte),
            ("/#x", .targetFragment),
            ("*", .asteriskWithoutOptions), ("http://other.example/", .targetForm), ("/\u{7F}", .targetInvalidByte),
        ]
    )
    func path(_ path: String, _ expected: RequestFault) {
        #expect(section(replacing(":path", path)).fault == expected)
        #expect(section(replacing(":path", path), isForOrigin: true).fault == expected)
    }

    @Test("UTF-8 in the path is percent-encoded, as in HTTP/1.1")
    func pathUTF8() {
        #expect(section(replacing(":path", "/caf\u{E9}?\u{E9}")).target == "/caf%C3%A9?%C3%A9")
    }

    @Test("OPTIONS * is asked of the origin as a whole")
    func asterisk() {
        let options = [(":method", "OPTIONS"), (":scheme", "https"), (":authority", "h.example"), (":path", "*")]
        let proxy = section(options)
        #expect(proxy.fault == nil)
        #expect(proxy.form == .absolute)
        #expect(proxy.target == "*")
        #expect(section(options, isForOrigin: true).form == .asterisk)
    }

    @Test("CONNECT has an authority with a port, and neither scheme nor path")
    func connect() {
        let good = section([(":method", "CONNECT"), (":authority", "h.example:443")])
        #expect(good.fault == nil)
        #expect(good.form == .authority)
        #expect(section([(":method", "CONNECT"), (":authority", "h.example")]).fault == .connectWithoutAuthority)
        #expect(
            section([(":method", "CONNECT"), (":authority", "h.example:443"), (":scheme", "https"), (":path", "/")])
                .fault == .connectWithoutAuthority
        )
    }

    @Test(
        "a message that RFC 9113 calls malformed is no request",
        arguments: [
            ("Accept", "*/*"), ("connection", "close"), ("keep-alive", "1"), ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"), ("upgrade", "h2c"), ("te", "gzip"), ("te", "trailers, gzip"),
            (":path", "/again"), (":protocol", "websocket"), ("x", " y"), ("x", "y\t"), ("x", "a\r\nb: c"),
            ("x y", "z"),
            ("", "z"),
        ]
    )
    func malformed(_ name: String, _ value: String) {
        #expect(!section(get + [(name, value)]).isWellFormed)
    }

    @Test("a pseudo-header field behind a field is malformed")
    func pseudoLate() {
        #expect(!section([(":method", "GET"), ("accept", "*/*"), (":path", "/")]).isWellFormed)
    }

    @Test("te: trailers is taken")
    func trailersWelcome() {
        let request = section(get + [("te", "trailers")])
        #expect(request.isWellFormed && request.fault == nil)
        #expect(request.fields.acceptsTrailers)
    }

    @Test("a body has its announced length, or ends with its stream")
    func framing() {
        #expect(section(get, endsStream: false).framing == .untilClose)
        #expect(section(get + [("content-length", "5")], endsStream: false).framing == .length(5))
        #expect(section(get + [("content-length", "05")], endsStream: false).fault == .contentLengthLeadingZero)
        #expect(section(get + [("content-length", "5, 5")], endsStream: false).fault == .contentLengthRepeated)
    }

    @Test("cookies that were split come together again")
    func cookies() {
        let request = section(get + [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")])
        #expect(request.fields.values(for: "cookie") == ["a=1; b=2"])
    }

    @Test("empty pieces of a cookie are left out, wherever they are")
    func emptyCookies() {
        for pieces in [
            ["", "a=1", "b=2"], ["a=1", "", "b=2"], ["a=1", "b=2", ""], ["", "", "a=1", "", "b=2", "", ""],
        ] {
            let request = section(get + pieces.map { ("cookie", $0) })
            #expect(request.fault == nil && request.fields.values(for: "cookie") == ["a=1; b=2"], "\(pieces)")
        }
        for count in 1...3 {
            let request = section(get + [(String, String)](repeating: ("cookie", ""), count: count))
            #expect(request.fault == nil && request.fields.values(for: "cookie") == [""])
        }
    }

    @Test("a head beyond the limits is too large")
    func limits() {
        let many = (0..<101).map { ("x-\($0)", "v") }
        #expect(section(get + many).fault == .tooManyFields)
        let large = section(get + [("x", String(repeating: "v", count: 500))], limits: HeadLimits(headBytes: 400))
        #expect(large.fault == .headTooLarge)
        let long = section(replacing(":path", "/" + String(repeating: "p", count: 9000)))
        #expect(long.fault == .targetTooLong)
        let method = section(replacing(":method", String(repeating: "M", count: 40)))
        #expect(method.fault == .methodTooLong)
        #expect(section(get + [("content_length", "5")]).fault == .underscoredFraming)
        #expect(section(replacing(":method", "TRACE")).fault == .methodTrace)
    }

    // MARK: Responses

    private func response(
        _ fields: [(String, String)],
        to method: HTTPMethod = .get
    ) -> (head: ResponseHead, isWellFormed: Bool, fault: ResponseFault?) {
        var (head, former) = (ResponseHead(), HeaderFields())
        let (isWellFormed, fault) = response(fields, to: method, into: &head, behind: &former)
        return (head, isWellFormed, fault)
    }

    private func response(
        _ fields: [(String, String)],
        to method: HTTPMethod = .get,
        into head: inout ResponseHead,
        behind former: inout HeaderFields
    ) -> (isWellFormed: Bool, fault: ResponseFault?) {
        var section = ResponseSection()
        for (name, value) in fields {
            let (name, value) = (Array(name.utf8), Array(value.utf8))
            guard section.append(name: name.span, value: value.span, into: &head, behind: &former) else {
                return (false, section.fault)
            }
        }
        return (true, section.conclude(answering: method, into: &head))
    }

    @Test("a response has its status, its fields and the framing of HTTP/2")
    func responseHead() {
        let (head, isWell, fault) = response([(":status", "200"), ("content-length", "5"), ("x", "y")])
        #expect(isWell && fault == nil)
        #expect(head.status == 200)
        #expect(head.majorVersion == 2 && head.minorVersion == 0)
        #expect(head.framing == .length(5))
        #expect(head.fields.value(for: "x") == "y")
        #expect(response([(":status", "200")]).head.framing == .untilClose)
        #expect(response([(":status", "204")]).head.framing == BodyFraming.none)
    }

    @Test(
        "a malformed response is refused",
        arguments: [
            [(":status", "20")], [(":status", "2000")], [(":status", "99")], [(":status", "200"), (":status", "200")],
            [("x", "y"), (":status", "200")], [(":status", "200"), ("Connection", "close")],
            [(":status", "200"), ("transfer-encoding", "chunked")], [(":status", "200"), ("x", "a\u{0}b")],
            [(":status", "abc")], [(":path", "/")], [(":status", "200 ")], [(":status", " 20")],
        ]
    )
    func responseMalformed(_ fields: [(String, String)]) {
        #expect(!response(fields).isWellFormed)
    }

    @Test("a response without a status, or with two lengths, is refused")
    func responseFaults() {
        #expect(response([("x", "y")]).fault == .statusInvalid)
        let twice = response([(":status", "200"), ("content-length", "1"), ("content-length", "2")])
        #expect(twice.fault == .contentLengthRepeated)
    }

    @Test("white space around values is removed in a response, refused in a request")
    func blanksAroundValues() {
        let (head, isWell, fault) = response([
            (":status", "999"), ("x", " y z\t "), ("e", "  "), ("content_length", "3"),
        ])
        #expect(isWell && fault == nil && head.status == 999)
        #expect(head.fields.list.map { "\($0.name): \($0.value)" } == ["x: y z", "e: "])
        for (isInResponse, value) in [(true, " 1 "), (true, "1"), (false, "1")] {
            var trailers = TrailerSection()
            let isTaken = trailers.append(
                name: "x".utf8Array.span,
                value: value.utf8Array.span,
                isInResponse: isInResponse
            )
            #expect(isTaken && trailers.fields.list.map(\.value) == ["1"])
        }
        var trailers = TrailerSection()
        let isTaken = trailers.append(name: "x".utf8Array.span, value: " 1".utf8Array.span)
        #expect(!isTaken)
    }

    @Test(
        "a malformed message has its rule",
        arguments: [
            (":status", "201", ResponseFault.pseudoFieldInvalid), (":x", "y", .pseudoFieldInvalid),
            ("X", "y", .upperCaseName),
            ("connection", "close", .connectionField), ("te", "gzip", .connectionField),
            ("a b", "y", .fieldNameInvalid),
            ("x", "a\u{1}b", .fieldValueInvalid), ("x", "a\rb", .fieldValueInvalid),
        ]
    )
    func rulesOfMalformed(name: String, value: String, fault: ResponseFault) {
        let result = response([(":status", "200"), (name, value)])
        #expect(!result.isWellFormed && result.fault == fault)
    }

    @Test("a head is the same behind whatever head")
    func behindOthers() {
        let heads: [[(String, String)]] = [
            [("server", "nginx"), ("etag", "\"1\""), ("content-length", "5")],
            [("server", "nginx"), ("etag", "\"2\""), ("content-length", "5"), ("x", "")],
            [("server", "nginx"), ("x", ""), ("content-length", "5")],
            [("server", "ngin"), ("content-length", "5"), ("content-length", "5")],
            [("server", "ngin"), ("content-length", "05")],
            // As pinproxy itself writes the one of the line before.
            [("server", "ngin"), ("Content-Length", "5")],
            [("server", " nginx "), ("etag", "\"1\"")],
            [("server", "nginx"), ("connection", "close")],
            [("server", "nginx"), ("Etag", "\"1\"")],
            [("server", "nginx"), ("etag", "\"1\""), ("content-length", "x")],
            [],
        ]
        for first in heads {
            for second in heads {
                var (head, former) = (ResponseHead(), HeaderFields())
                let isFirstWell = response([(":status", "200")] + first, into: &head, behind: &former).isWellFormed
                let beside = response([(":status", "200")] + second, into: &head, behind: &former)
                #expect(former.isEmpty == first.isEmpty || !isFirstWell)
                let alone = response([(":status", "200")] + second)
                #expect(alone.isWellFormed == beside.isWellFormed && alone.fault == beside.fault)
                #expect(alone.head.fields.list.map(\.name) == head.fields.list.map(\.name))
                #expect(alone.head.fields.list.map(\.value) == head.fields.list.map(\.value))
                #expect(alone.head.contentLength == head.contentLength)
                #expect(alone.head.byteCount == head.byteCount)
            }
        }
    }

    @Test("the head after a 1xx head begins anew")
    func interim() {
        var section = ResponseSection()
        var head = ResponseHead()
        var former = HeaderFields()
        func take(_ name: String, _ value: String) -> Bool {
            section.append(
                name: Array(name.utf8).span,
                value: Array(value.utf8).span,
                into: &head,
                behind: &former
            )
        }
        #expect(take(":status", "103"))
        #expect(take("link", "</x>"))
        #expect(section.conclude(answering: .get, into: &head) == nil)
        #expect(head.isInterim)
        #expect(take(":status", "200"))
        #expect(section.conclude(answering: .get, into: &head) == nil)
        #expect(head.status == 200)
        #expect(head.fields.isEmpty)
    }

    @Test("trailers of framing and authentication are dropped, malformed ones refused")
    func trailers() {
        var section = TrailerSection(limits: HeadLimits(headBytes: 400))
        func take(_ name: String, _ value: String) -> Bool {
            section.append(name: Array(name.utf8).span, value: Array(value.utf8).span)
        }
        #expect(take("grpc-status", "0"))
        #expect(take("content-length", "3"))
        #expect(take("authorization", "x"))
        #expect(take("proxy-x", "x"))
        #expect(section.fields.list.map(\.name) == ["grpc-status"])
        #expect(!take(":status", "200"))
        #expect(!take("Grpc-Message", "x"))
        #expect(!take("x", String(repeating: "v", count: 400)))
    }
}

extension String {
    fileprivate var utf8Array: [UInt8] { Array(utf8) }
}
