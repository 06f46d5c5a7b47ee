// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore
@testable import SessionCore

@Suite("How the body of a request goes on")
final class RequestUploadTests {
    private var upload = RequestUpload()

    /// Gives bytes of the client, and says what becomes of them.
    private func feed(_ text: String) -> String {
        let bytes = Array(text.utf8)
        var (position, outcome) = (0, "more")
        while position < bytes.count {
            let rest = Array(bytes[position...])
            switch upload.next(rest.span) {
            case .data(let range, let consumed): (position, outcome) = (position + consumed, "data \(range.count)")
            case .needMore(let consumed): position += max(1, consumed)
            case .end(let consumed): (position, outcome) = (position + consumed, "end")
            case .failed(let problem): return problem.code.rawValue
            }
        }
        return outcome
    }

    /// Ends the client's HTTP/2 stream, and says whether the body ends with it.
    private func streamEnded(trailers: HeaderFields?) -> Bool {
        upload.inputEnded(.stream(trailers: trailers)) == .whole
    }

    private func fields(_ names: [String]) -> HeaderFields {
        var fields = HeaderFields()
        for name in names {
            let (bytes, value) = (Array(name.utf8), Array("value".utf8))
            fields.append(name: bytes.span, value: value.span)
        }
        return fields
    }

    private func names(_ fields: HeaderFields?) -> [String]? {
        fields.map { fields in
            (0..<fields.count).map { String(decoding: Array(copying: fields.name(at: $0)), as: UTF8.self) }
        }
    }

    private static func route(_ change: (inout HostConfiguration) -> Void = { _ in }, rules: String? = nil) throws
        -> Route
    {
        var configuration = HostConfiguration()
        change(&configuration)
        let read = try rules.map {
            try #require(readConfiguration(#"{"version": 1, "requests": {"rules": [\#($0)]}}"#).configuration.requests)
        }
        let host = try Host("a.example")
        return Route(
            destination: .refused(Problem(.hostDenied, "not used")),
            isUpgraded: false,
            rewritesUpgraded: false,
            logPrefix: [],
            hooks: HostHooks.make(configuration),
            rules: read.map { RequestRules($0).rules(for: host, port: 80, defaultPort: 80) }
        )
    }

    // MARK: The end

    @Test("Bodies of HTTP/1.1 end with their last byte, those of HTTP/2 with their stream")
    func ends() {
        for (version, atOnce) in [(UInt8(1), true), (2, false)] {
            upload.reset()
            #expect(upload.begin(.length(4), limit: nil) == nil && !upload.isComplete)
            #expect(feed("ab") == "data 2" && !upload.endsHere(majorVersion: version) && upload.count == 2)
            #expect(feed("cd") == "data 2" && upload.isComplete && upload.count == 4)
            #expect(upload.endsHere(majorVersion: version) == atOnce && upload.hasEnded == atOnce)
            #expect(atOnce || streamEnded(trailers: nil))
            #expect(upload.hasEnded && upload.trailers(to: nil, with: nil) == nil)
        }
    }

    @Test("A stream that ends before its body is no end of it")
    func truncation() {
        #expect(upload.begin(.length(4), limit: nil) == nil)
        #expect(feed("abc") == "data 3")
        #expect(!streamEnded(trailers: nil) && !upload.hasEnded && !upload.isComplete)
        upload.reset()
        #expect(upload.begin(.untilClose, limit: nil) == nil)
        #expect(feed("abc") == "data 3" && !upload.isComplete)
        #expect(streamEnded(trailers: nil) && upload.hasEnded && upload.isComplete)
    }

    @Test("A body beyond its limit fails, also where a reload has lowered it")
    func limits() {
        #expect(upload.begin(.length(4), limit: 3)?.code == .requestTooLarge)
        #expect(upload.begin(.untilClose, limit: 4) == nil && feed("abcd") == "data 4")
        #expect(upload.hold(to: 4, .untilClose) == nil && upload.hold(to: 3, .untilClose)?.code == .requestTooLarge)
        #expect(upload.hold(to: 4, .untilClose) == nil && feed("e") == "request_too_large" && upload.count == 4)
    }

    @Test("Nothing of a body is left for the next request")
    func reset() {
        #expect(upload.begin(.untilClose, limit: nil) == nil && feed("abcd") == "data 4")
        upload.expect(true, originDecides: true)
        #expect(streamEnded(trailers: fields(["X-A"])) == true)
        upload.reset()
        #expect(upload.count == 0 && !upload.hasEnded && upload.trailers(to: nil, with: nil) == nil)
        #expect(upload.begin(.untilClose, limit: nil) == nil && streamEnded(trailers: nil))
        #expect(upload.trailers(to: nil, with: nil) == nil && !upload.originDecides)
        // Nor has the client had its 100 (Continue) already.
        upload.reset()
        #expect(upload.begin(.untilClose, limit: nil) == nil)
        upload.expect(true, originDecides: false)
        #expect(upload.bodyIsWanted() == true)
        upload.reset()
        upload.expect(true, originDecides: false)
        #expect(upload.bodyIsWanted() == true)
    }

    @Test("A stall is the client's where its body is the part that is missing")
    func stalls() {
        for (isWhole, code, isAllSent, expected) in [
            (false, SessionError.Code.stalled, true, Problem.Code.requestTimeout), (false, .stalled, false, .stalled),
            (false, .connectFailed, true, .connectFailed), (true, .stalled, true, .stalled),
        ] {
            upload.reset()
            #expect(upload.begin(.length(4), limit: nil) == nil && feed(isWhole ? "abcd" : "abc") != "more")
            #expect(upload.problem(for: SessionError(code, "x"), isAllSent: isAllSent).code == expected)
        }
    }

    @Test("A connection ends no body: one that is not whole is cut")
    func cut() {
        for (framing, text) in [(BodyFraming.none, ""), (.length(3), "abc"), (.chunked, "1\r\na\r\n0\r\n\r\n")] {
            upload.reset()
            #expect(upload.begin(framing, limit: nil) == nil)
            if !text.isEmpty { _ = feed(text) }
            #expect(upload.inputEnded(.connection) == .known && !upload.hasEnded)
        }
        for (framing, text) in [(BodyFraming.length(3), "ab"), (.chunked, "1\r\na\r\n"), (.untilClose, "abc")] {
            upload.reset()
            #expect(upload.begin(framing, limit: nil) == nil)
            _ = feed(text)
            #expect(upload.inputEnded(.connection) == .cut && !upload.isComplete && !upload.hasEnded)
        }
    }

    @Test("A stream's end ends a body of unknown length, and cuts a known one")
    func streams() {
        for (framing, text, expected) in [
            (BodyFraming.untilClose, "abc", RequestUpload.Completeness.whole), (.untilClose, "", .whole),
            (.length(3), "abc", .whole), (.length(3), "ab", .cut), (.none, "", .whole),
        ] {
            upload.reset()
            #expect(upload.begin(framing, limit: nil) == nil)
            if !text.isEmpty { _ = feed(text) }
            #expect(upload.inputEnded(.stream(trailers: fields(["X-A"]))) == expected)
            #expect(upload.hasEnded == (expected == .whole) && upload.hasTrailers == upload.hasEnded)
        }
    }

    // MARK: Trailers

    @Test("Trailers of both versions of HTTP go on")
    func trailers() throws {
        #expect(upload.begin(.chunked, limit: nil) == nil)
        #expect(feed("3\r\nabc\r\n") == "data 3" && upload.count == 3, "without their framing")
        #expect(feed("0\r\nX-A: value\r\n\r\n") == "end" && upload.endsHere(majorVersion: 1))
        #expect(names(upload.trailers(to: try Self.route(), with: nil)) == ["X-A"])
        upload.reset()
        #expect(upload.begin(.untilClose, limit: nil) == nil && streamEnded(trailers: fields(["X-B"])))
        #expect(names(upload.trailers(to: try Self.route(), with: nil)) == ["X-B"])
    }

    @Test("Trailers do not undo what was decided about the head")
    func prunedTrailers() throws {
        let removing = try Self.route { $0.headers.request.remove("X-A") }
        func end(_ names: String...) {
            upload.reset()
            #expect(upload.begin(.untilClose, limit: nil) == nil)
            #expect(streamEnded(trailers: fields(names)) == true)
        }
        end("X-A", "X-B")
        #expect(names(upload.trailers(to: removing, with: nil)) == ["X-B"])
        // What one hop may not get, a later one does not get either.
        #expect(names(upload.trailers(to: try Self.route(), with: nil)) == ["X-B"])

        let definition = CredentialDefinition(name: "key", source: .command(["/bin/true"]))
        end("Authorization", "X-B")
        let credentials = RuleCredentials(["key"], of: [definition], place: 0)
        #expect(names(upload.trailers(to: try Self.route(), with: credentials)) == ["X-B"])

        var configuration = Configuration()
        configuration.requestID = RequestIDConfiguration(field: "X-Request-Id")
        let identity = RequestIdentity(IdentityFields(configuration, RandomPool()), trace: nil, span: 0, id: nil)
        end("X-Request-Id", "X-B")
        #expect(names(upload.trailers(to: nil, with: nil, as: identity)) == ["X-B"])

        let rule = #"{"id": "get", "host": "a.example", "method": "GET", "then": "allow"}"#
        let ruled = try Self.route(rules: rule)
        end("X-HTTP-Method-Override", "X-B")
        #expect(names(upload.trailers(to: ruled, with: nil)) ?? [] == [])
        end("X-B")
        #expect(names(upload.trailers(to: ruled, with: nil)) == ["X-B"])
        end("X-HTTP-Method-Override")
        #expect(names(upload.trailers(to: try Self.route(), with: nil)) == ["X-HTTP-Method-Override"])
    }

    // MARK: 100 (Continue)

    @Test("A waiting client is asked for its body once, unless some of it came")
    func expectation() {
        #expect(upload.begin(.length(4), limit: nil) == nil)
        upload.expect(true, originDecides: true)
        #expect(upload.originDecides)
        #expect(upload.bodyIsWanted() && !upload.bodyIsWanted())
        // The request starts again.
        upload.expect(true, originDecides: true)
        #expect(!upload.originDecides && !upload.bodyIsWanted())

        upload.reset()
        #expect(upload.begin(.length(4), limit: nil) == nil && feed("a") == "data 1")
        upload.expect(true, originDecides: true)
        #expect(!upload.originDecides && !upload.bodyIsWanted())

        upload.reset()
        #expect(upload.begin(.none, limit: nil) == nil)
        upload.expect(true, originDecides: false)
        #expect(upload.bodyIsWanted() == false, "there is no body")
    }

    @Test("With a connection the proxy asks for the body, unless the origin decides")
    func connected() {
        for (isExpected, originDecides, asks) in [
            (true, false, true), (true, true, false), (false, false, false), (false, true, false),
        ] {
            upload.reset()
            #expect(upload.begin(.length(4), limit: nil) == nil)
            upload.expect(isExpected, originDecides: originDecides)
            #expect(upload.originDidConnect() == asks && upload.originDidConnect() == false)
            // What the origin has not decided is still open.
            #expect(upload.bodyIsWanted() == (isExpected && originDecides))
        }
    }

    @Test("101 never goes on, and 100 once, to a client that waits")
    func informational() {
        for (isExpected, originDecides, asks) in [(true, true, true), (true, false, false), (false, true, false)] {
            upload.reset()
            #expect(upload.begin(.length(4), limit: nil) == nil)
            upload.expect(isExpected, originDecides: originDecides)
            for status in [102, 103, 199] { #expect(upload.receiveInformational(status: status) == .pass) }
            #expect(upload.receiveInformational(status: 101) == .drop)
            #expect(upload.receiveInformational(status: 100) == (asks ? .askForBody : .drop))
            #expect(upload.receiveInformational(status: 100) == .drop)
        }
        upload.reset()
        #expect(upload.begin(.length(4), limit: nil) == nil)
        upload.expect(true, originDecides: true)
        #expect(feed("a") == "data 1" && upload.receiveInformational(status: 100) == .drop, "it has begun")
    }

    @Test("The next origin decides anew, where it gets the body")
    func redirects() {
        for (keepsBody, originDecides) in [(true, true), (true, false), (false, true)] {
            upload.reset()
            #expect(upload.begin(.length(4), limit: nil) == nil)
            upload.expect(true, originDecides: false)
            let isForwarded = upload.expectAfterRedirect(keepsBody: keepsBody, originDecides: originDecides)
            #expect(isForwarded == (keepsBody && originDecides) && upload.originDecides == isForwarded)
            #expect(upload.bodyIsWanted() == keepsBody)
        }
        upload.reset()
        #expect(upload.begin(.length(4), limit: nil) == nil && feed("a") == "data 1")
        upload.expect(true, originDecides: false)
        #expect(upload.expectAfterRedirect(keepsBody: true, originDecides: true) == false)
    }

    // MARK: Pace

    @Test("A client that is waited for has to send 1,024 bytes between two checks")
    func pace() {
        let piece = String(repeating: "a", count: 1024)
        #expect(upload.begin(.length(1 << 20), limit: nil) == nil)
        #expect(feed(piece) == "data 1024" && !upload.isTooSlow(isWaitedFor: true))
        #expect(feed(String(piece.dropLast())) == "data 1023" && upload.isTooSlow(isWaitedFor: true))
        #expect(feed("a") == "data 1" && !upload.isTooSlow(isWaitedFor: true), "the mark stays where it was")
        #expect(upload.isTooSlow(isWaitedFor: false) == false, "something else delays it")
        #expect(upload.isTooSlow(isWaitedFor: true) == true)
        #expect(feed(piece) == "data 1024" && !upload.isTooSlow(isWaitedFor: true))
        upload.reset()
        #expect(upload.begin(.length(1 << 20), limit: nil) == nil)
        #expect(feed(piece) == "data 1024" && !upload.isTooSlow(isWaitedFor: true), "the mark is of this body")
    }

    @Test("A client that waits for 100 (Continue) is not too slow")
    func paceOfWaiting() {
        #expect(upload.begin(.length(4), limit: nil) == nil)
        upload.expect(true, originDecides: true)
        #expect(upload.isTooSlow(isWaitedFor: true) == false)
        #expect(upload.bodyIsWanted() && upload.isTooSlow(isWaitedFor: true))
    }
}
