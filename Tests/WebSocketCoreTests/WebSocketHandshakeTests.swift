// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing
import WebSocketCore

struct WebSocketHandshakeTests {
    private static let key = Array("dGhlIHNhbXBsZSBub25jZQ==".utf8)
    private static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

    private static func head(_ fields: [(String, String)], status: Int = 101) throws -> ResponseHead {
        var all = HeaderFields()
        for (name, value) in fields { try all.append(name: name, value: value) }
        return ResponseHead(status: status, fields: all, contentLength: nil, hasBody: false)
    }

    private static let usual = [
        ("Upgrade", "WebSocket"), ("Connection", "keep-alive, Upgrade"), ("Sec-WebSocket-Accept", accept),
    ]

    private static func offer(protocols: [String] = [], deflate: PermessageDeflateOffer? = nil) -> WebSocketOffer {
        WebSocketOffer(protocols: protocols, deflate: deflate, key: key)
    }

    @Test func `The value for a key is that of RFC 6455, section 1.3`() {
        #expect(WebSocketKey.accept(Self.key) == Array(Self.accept.utf8))
    }

    @Test func `A key has sixteen random bytes, another for each connection`() {
        let keys = Set((0..<100).map { _ in WebSocketOffer().key })
        #expect(keys.count == 100)
        #expect(keys.allSatisfy { $0.count == 24 && $0.suffix(2) == Array("==".utf8) })
    }

    @Test func `The request has the fields of section 4.1`() {
        var fields = HeaderFields()
        Self.offer(protocols: ["chat", "superchat"], deflate: PermessageDeflateOffer()).addFields(to: &fields)
        let text = (0..<fields.count).map { String(copying: fields.line(at: $0)) }
        #expect(
            text == [
                "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat, superchat",
                "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
            ]
        )
    }

    @Test func `A response of section 4.2.2 is an agreement`() throws {
        let plain = try Self.offer().agreement(Self.head(Self.usual)).get()
        #expect(plain == WebSocketOffer.Agreement())
        let full = try Self.offer(protocols: ["chat"], deflate: PermessageDeflateOffer()).agreement(
            Self.head(
                Self.usual + [
                    ("Sec-WebSocket-Protocol", "chat"),
                    ("sec-websocket-extensions", "permessage-deflate; server_no_context_takeover"),
                ]
            )
        ).get()
        #expect(full.subprotocol == "chat")
        #expect(full.deflate == PermessageDeflate(serverNoContextTakeover: true))
    }

    @Test func `A response without proof of the handshake, or beyond the offer, is refused`() throws {
        let extensions = "Sec-WebSocket-Extensions"
        let responses: [[(String, String)]] = [
            [("Connection", "Upgrade"), ("Sec-WebSocket-Accept", Self.accept)],
            [("Upgrade", "websocket, h2c"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", Self.accept)],
            [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", Self.accept)],
            [("Upgrade", "websocket"), ("Connection", "Upgrade")],
            [
                ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK="),
            ],
            Self.usual + [("Sec-WebSocket-Accept", Self.accept)],
            Self.usual + [("Sec-WebSocket-Protocol", "other")], Self.usual + [("Sec-WebSocket-Protocol", "")],
            Self.usual + [("Sec-WebSocket-Protocol", "chat"), ("Sec-WebSocket-Protocol", "chat")],
            Self.usual + [(extensions, "x-other")],
            Self.usual + [(extensions, "permessage-deflate, permessage-deflate")],
            Self.usual + [(extensions, "permessage-deflate; client_max_window_bits")],
            Self.usual + [(extensions, "permessage-deflate; client_max_window_bits=7")],
            Self.usual + [(extensions, "permessage-deflate; client_max_window_bits=16")],
            Self.usual + [(extensions, "permessage-deflate; server_max_window_bits=08")],
            Self.usual + [(extensions, "permessage-deflate; server_max_window_bits")],
            Self.usual + [(extensions, "permessage-deflate; server_no_context_takeover=1")],
            Self.usual + [
                (extensions, "permessage-deflate; server_no_context_takeover; server_no_context_takeover")
            ], Self.usual + [(extensions, "permessage-deflate; unknown")],
            Self.usual + [(extensions, "permessage deflate")],
        ]
        let offer = Self.offer(protocols: ["chat"], deflate: PermessageDeflateOffer())
        for fields in responses {
            guard case .failure = offer.agreement(try Self.head(fields)) else {
                Issue.record("\(fields) was taken")
                continue
            }
        }
        guard case .failure = Self.offer().agreement(try Self.head(Self.usual + [(extensions, "permessage-deflate")]))
        else {
            Issue.record("an extension was taken that was not offered")
            return
        }
        guard case .failure(let refusal) = offer.agreement(try Self.head(Self.usual, status: 403)) else {
            Issue.record("403 was taken")
            return
        }
        #expect(refusal.reason == "it has the status 403")
    }

    /// A head of HTTP/2.
    private static func streamHead(_ fields: [(String, String)], status: Int = 200) throws -> ResponseHead {
        var section = ResponseSection()
        var head = ResponseHead()
        var former = HeaderFields()
        for (name, value) in [(":status", "\(status)")] + fields {
            let (name, value) = (Array(name.utf8), Array(value.utf8))
            try #require(section.append(name: name.span, value: value.span, into: &head, behind: &former))
        }
        #expect(section.conclude(answering: .connect, into: &head) == nil)
        return head
    }

    @Test func `A 200 of HTTP/2 is an agreement without proof (RFC 8441, section 5)`() throws {
        let plain = try Self.offer().agreement(Self.streamHead([])).get()
        #expect(plain == WebSocketOffer.Agreement())
        // A proof is no part of the handshake there, right or wrong.
        let proving = try Self.offer().agreement(Self.streamHead([("sec-websocket-accept", "x")])).get()
        #expect(proving == WebSocketOffer.Agreement())
        let offer = Self.offer(protocols: ["chat"], deflate: PermessageDeflateOffer())
        let full = try offer.agreement(
            Self.streamHead([
                ("sec-websocket-protocol", "chat"), ("sec-websocket-extensions", "permessage-deflate"),
            ])
        ).get()
        #expect(full == WebSocketOffer.Agreement(subprotocol: "chat", deflate: PermessageDeflate()))
        for head in [
            try Self.streamHead([], status: 204), try Self.streamHead([], status: 403),
            try Self.streamHead([("sec-websocket-protocol", "other")]),
            try Self.streamHead([("sec-websocket-extensions", "x-other")]),
        ] {
            guard case .failure = offer.agreement(head) else {
                Issue.record("a head with the status \(head.status) was taken")
                continue
            }
        }
        guard case .failure(let refusal) = offer.agreement(try Self.head(Self.usual, status: 200)) else {
            Issue.record("200 of HTTP/1.1 was taken")
            return
        }
        #expect(refusal.reason == "it has the status 200")
    }

    @Test func `A server's agreement fits the client's offer`() throws {
        for (own, response, expected) in [
            (PermessageDeflateOffer(), "permessage-deflate", PermessageDeflate()),
            (
                PermessageDeflateOffer(), "permessage-deflate; client_max_window_bits=\"10\"",
                PermessageDeflate(clientMaxWindowBits: 10)
            ),
            (PermessageDeflateOffer(clientMaxWindowBits: nil), "permessage-deflate; client_max_window_bits=10", nil),
            (
                PermessageDeflateOffer(clientMaxWindowBits: 9), "permessage-deflate",
                PermessageDeflate(clientMaxWindowBits: 9)
            ), (PermessageDeflateOffer(serverMaxWindowBits: 10), "permessage-deflate", nil),
            (
                PermessageDeflateOffer(serverMaxWindowBits: 10), "permessage-deflate; server_max_window_bits=9",
                PermessageDeflate(serverMaxWindowBits: 9)
            ),
            (PermessageDeflateOffer(serverMaxWindowBits: 10), "permessage-deflate; server_max_window_bits=11", nil),
            (PermessageDeflateOffer(serverNoContextTakeover: true), "permessage-deflate", nil),
            (
                PermessageDeflateOffer(clientNoContextTakeover: true), "permessage-deflate",
                PermessageDeflate(clientNoContextTakeover: true)
            ),
        ] as [(PermessageDeflateOffer, String, PermessageDeflate?)] {
            var fields = HeaderFields()
            try fields.append(name: "Sec-WebSocket-Extensions", value: response)
            let list = try #require(WebSocketExtension.list(fields))
            #expect(own.agreement(list[0]) == expected, "\(own.text) / \(response)")
        }
    }

    @Test func `A server reads the handshake, and its response is an agreement`() throws {
        let offer = WebSocketOffer(
            protocols: ["a", "b"],
            deflate: PermessageDeflateOffer(
                clientNoContextTakeover: true,
                serverNoContextTakeover: true,
                serverMaxWindowBits: 12
            )
        )
        var fields = HeaderFields()
        offer.addFields(to: &fields)
        let request = try #require(WebSocketRequest(fields))
        #expect(request.protocols == ["a", "b"])
        let own = try #require(request.offers.first)
        #expect(own == offer.deflate)
        let agreed = own.accepted(wanting: PermessageDeflate(clientMaxWindowBits: 10))
        var response = HeaderFields()
        request.addFields(subprotocol: "b", extensions: own.response(agreed), to: &response)
        let head = ResponseHead(status: 101, fields: response, contentLength: nil, hasBody: false)
        let agreement = try offer.agreement(head).get()
        #expect(agreement == WebSocketOffer.Agreement(subprotocol: "b", deflate: agreed))
        #expect(agreed.clientMaxWindowBits == 10)
        #expect(agreed.serverMaxWindowBits == 12)
    }

    @Test(arguments: ["Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version"])
    func `A request without a field of the handshake is none`(name: String) throws {
        var fields = HeaderFields()
        WebSocketOffer().addFields(to: &fields)
        fields.removeAll { fields, index in String(copying: fields.name(at: index)) == name }
        #expect(WebSocketRequest(fields) == nil)
    }

    @Test func `Subprotocols are tokens, each once`() {
        #expect(WebSocketOffer.areValid(["chat", "v2.chat"]))
        #expect(!WebSocketOffer.areValid(["chat", "chat"]))
        #expect(!WebSocketOffer.areValid(["a b"]))
        #expect(!WebSocketOffer.areValid([""]))
    }
}
