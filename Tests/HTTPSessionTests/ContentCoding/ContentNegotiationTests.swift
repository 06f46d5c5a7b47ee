// SPDX-License-Identifier: Apache-2.0
import SessionCore
import Testing

@testable import HTTPCore
@testable import HTTPSessionCore

@Suite("The negotiation of a response's content")
struct ContentNegotiationTests {
    private static let brotli = ContentDecoder(name: "br") { nil }
    /// RFC 9530, appendix B.
    private static let content = Array("{\"hello\": \"world\"}\n".utf8)
    private static let digest = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"

    private func head(_ framing: BodyFraming, _ coding: String? = nil) throws -> ResponseHead {
        var head = ResponseHead()
        head.framing = framing
        if let coding { try head.fields.append(name: "Content-Encoding", value: coding) }
        return head
    }

    /// What a request with such a field asks for.
    private func asked(
        _ negotiation: inout ContentNegotiation,
        _ field: String? = nil,
        isDecoder: Bool = true,
        others: [ContentDecoder] = []
    ) throws -> String? {
        var fields = HeaderFields()
        if let field { try fields.append(name: field, value: "own") }
        try negotiation.ask(isDecoder, for: others, in: &fields)
        return fields.value(for: "Accept-Encoding")
    }

    private func begin(
        _ negotiation: inout ContentNegotiation,
        _ head: ResponseHead,
        isSwitched: Bool = false,
        others: [ContentDecoder] = [],
        check: DigestCheck = .off
    ) {
        negotiation.begin(head, isSwitched: isSwitched, others, check)
    }

    @Test("a decoding session requests its codings, unless the request has others or a range")
    func asks() throws {
        var negotiation = ContentNegotiation()
        #expect(try asked(&negotiation) == "gzip, deflate")
        #expect(try asked(&negotiation, others: [Self.brotli]) == "gzip, deflate, br")
        #expect(try asked(&negotiation, isDecoder: false) == nil)
        #expect(try asked(&negotiation, "Range") == nil)
        #expect(try asked(&negotiation, "Accept-Encoding") == "own")
    }

    @Test("the session undoes a coding that it has asked for, and no other")
    func codings() throws {
        var negotiation = ContentNegotiation()
        _ = try asked(&negotiation, others: [Self.brotli])
        begin(&negotiation, try head(.length(9), "gzip, br"), others: [Self.brotli])
        #expect(negotiation.codings == [.gzip, .other(Self.brotli)])
        begin(&negotiation, try head(.length(9), "unknown"), others: [Self.brotli])
        #expect(negotiation.codings == [], "nothing is left of the response before")
        _ = try asked(&negotiation, "Range")
        begin(&negotiation, try head(.length(9), "gzip"))
        #expect(negotiation.codings == [] && negotiation.expectedLength == 9)
        _ = try asked(&negotiation)
        begin(&negotiation, try head(.length(9), "gzip"))
        #expect(negotiation.codings == [.gzip])
    }

    @Test("the length is that of a body without codings, of the same protocol")
    func length() throws {
        var negotiation = ContentNegotiation()
        _ = try asked(&negotiation)
        for (framing, length) in [
            (BodyFraming.none, 0), (.length(7), 7), (.chunked, nil), (.untilClose, nil),
        ] {
            begin(&negotiation, try head(framing))
            #expect(negotiation.expectedLength == length)
            begin(&negotiation, try head(framing), isSwitched: true)
            #expect(negotiation.expectedLength == nil)
        }
        begin(&negotiation, try head(.length(7), "gzip"))
        #expect(negotiation.expectedLength == nil)
    }

    @Test("the body is compared with the digest of a field or a trailer, once")
    func digest() throws {
        for isTrailer in [false, true] {
            for content in [Self.content, Self.content + [1]] {
                var negotiation = ContentNegotiation()
                var head = try head(.chunked)
                var trailers = HeaderFields()
                if isTrailer {
                    try trailers.append(name: "Content-Digest", value: Self.digest)
                } else {
                    try head.fields.append(name: "Content-Digest", value: Self.digest)
                }
                begin(&negotiation, head, check: .ifPresent)
                negotiation.receive(content.span)
                negotiation.receive(trailers: trailers)
                #expect(negotiation.end()?.code == (content == Self.content ? nil : .responseInvalid))
                #expect(negotiation.end() == nil)
            }
        }
        var negotiation = ContentNegotiation()
        begin(&negotiation, try head(.chunked), check: .required)
        #expect(negotiation.end()?.code == .responseInvalid, "it has no digest")
        begin(&negotiation, try head(.chunked), check: .off)
        #expect(negotiation.end() == nil)
    }
}
