// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@Suite("Fields")
struct HeaderFieldsTests {
    private func fields(_ pairs: [(String, String)]) throws -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in pairs { try fields.append(name: name, value: value) }
        return fields
    }

    private func wire(_ fields: HeaderFields) -> String {
        var buffer = ByteBuffer()
        fields.serialize(into: &buffer)
        return String(copying: buffer.bytes)
    }

    @Test(
        "a field set in another spelling is one field, in the latest spelling",
        arguments: ["Accept", "X-Own"]
    )
    func spelling(name: String) throws {
        var fields = try fields([(name, "1"), ("Other", "o"), (name.uppercased(), "2")])
        try fields.set(name: name.lowercased(), value: "3")
        #expect(fields.list.map(\.name) == ["Other", name.lowercased()])
        #expect(fields.values(for: name) == ["3"])
        try fields.set(name: name, value: "4")
        #expect(wire(fields) == "Other: o\r\n\(name): 4\r\n")
        // Invalid fields change nothing.
        #expect(throws: HTTPFieldFault.self) { try fields.set(name: name, value: "a\nb") }
        #expect(fields.value(for: name) == "4")
    }

    @Test("every known name is recognised in any case, and no similar one")
    func names() {
        for name in FieldName.allCases where name != .other {
            let text = "\(name.text)"
            for spelling in [text, text.lowercased(), text.uppercased()] {
                #expect(FieldName(Array(spelling.utf8).span) == name)
            }
            for near in [text + "x", "x" + text, String(text.dropLast()), String(text.dropFirst())] {
                #expect(FieldName(Array(near.utf8).span) != name)
            }
        }
        #expect(FieldName(Array("".utf8).span) == .other)
        // `|0x20` makes `^` of `~`, and of a letter only a letter: a name with other bytes is another name.
        #expect(FieldName(Array("H\u{4F}st".utf8).span) == .host)
        #expect(FieldName(Array("Keep\u{0D}Alive".utf8).span) == .other)
    }

    @Test("order, case and repetition are kept")
    func order() throws {
        let fields = try fields([("B", "1"), ("a", "2"), ("b", "3"), ("Set-Cookie", "x"), ("set-cookie", "y")])
        #expect(wire(fields) == "B: 1\r\na: 2\r\nb: 3\r\nSet-Cookie: x\r\nset-cookie: y\r\n")
        #expect(fields.values(for: "b") == ["1", "3"])
        #expect(fields.count(of: .setCookie) == 2)
        #expect(fields.first(.setCookie) == 3)
        #expect(fields.next(.setCookie, after: 3) == 4)
        #expect(fields.first(.host) == nil)
        #expect(fields.first(named: Array("A".utf8).span) == 1)
    }

    @Test("removal and replacement leave the others in order")
    func removal() throws {
        var fields = try fields([("Host", "a"), ("Via", "1"), ("X", "2"), ("via", "3"), ("Y", "4")])
        fields.remove(.via)
        #expect(wire(fields) == "Host: a\r\nX: 2\r\nY: 4\r\n")
        #expect(!fields.contains(.via))
        fields.set(.host, "b")
        fields.set(.server, "s")
        #expect(wire(fields) == "Host: b\r\nX: 2\r\nY: 4\r\nServer: s\r\n")
        fields.remove(at: 1)
        fields.remove(name: "y")
        #expect(wire(fields) == "Host: b\r\nServer: s\r\n")
        try fields.set(name: "host", value: "c")
        #expect(wire(fields) == "Server: s\r\nhost: c\r\n")
        fields.removeAll(keepingCapacity: true)
        #expect(fields.isEmpty && wire(fields).isEmpty)
        fields.append(.age, decimal: 12)
        #expect(wire(fields) == "Age: 12\r\n")
    }

    @Test("white space at a value's ends is left out")
    func blanks() {
        var fields = HeaderFields()
        for value in [" a b\t", "a b; ", "\t ", ""] { fields.append(.cookie, Array(value.utf8).span) }
        #expect(wire(fields) == "Cookie: a b\r\nCookie: a b;\r\nCookie: \r\nCookie: \r\n")
    }

    @Test("set keeps one field where there were several")
    func setSeveral() throws {
        var fields = try fields([("Via", "1"), ("X", "2"), ("Via", "3"), ("Via", "4")])
        fields.set(.via, "5")
        #expect(wire(fields) == "Via: 5\r\nX: 2\r\n")
    }

    @Test(
        "a value with CR, LF, NUL or a control character cannot be put in",
        arguments: ["a\r\nB: c", "a\n", "\ra", "a\0", "\u{01}", "a\u{7F}", " a", "a ", "\t"]
    )
    func injection(value: String) throws {
        var fields = try fields([("A", "kept")])
        #expect(throws: HTTPFieldFault.invalidValue(name: "A")) { try fields.append(name: "A", value: value) }
        #expect(throws: HTTPFieldFault.invalidValue(name: "A")) { try fields.set(name: "A", value: value) }
        #expect(wire(fields) == "A: kept\r\n")
    }

    @Test(
        "a name that is no token cannot be put in",
        arguments: ["", "a b", "a:", "a\r\n", "ä", "a\0", "(", "a\u{7F}"]
    )
    func invalidNames(name: String) {
        var fields = HeaderFields()
        #expect(throws: HTTPFieldFault.invalidName(name)) { try fields.append(name: name, value: "x") }
        #expect(fields.isEmpty)
    }

    @Test("equality ignores the case of names and nothing else")
    func equality() throws {
        #expect(try fields([("A", "b")]) == fields([("a", "b")]))
        #expect(try fields([("A", "b")]) != fields([("A", "B")]))
        #expect(try fields([("A", "b"), ("C", "d")]) != fields([("C", "d"), ("A", "b")]))
    }

    @Test("rule 44: hop-by-hop fields are recognised")
    func hopByHop() throws {
        let fields = try fields([
            (
                "Connection",
                "X-Mine, keep-alive, Host, Content-Length, Authorization, Cookie, Cache-Control, Via, X-Forwarded-For, Date"
            ),
            ("connection", "other,TE"), ("X-Mine", "1"), ("Other", "2"), ("Another", "3"), ("Host", "a"),
            ("Content-Length", "0"),
            ("Authorization", "x"), ("Cookie", "x"), ("Cache-Control", "x"), ("Via", "x"), ("X-Forwarded-For", "x"),
            ("Date", "x"),
            ("Keep-Alive", "x"), ("TE", "trailers;q=0.5, gzip"), ("Upgrade", "x"), ("Proxy-Connection", "x"),
            ("Proxy-Authorization", "x"),
            ("Proxy-Authenticate", "x"), ("Proxy-Features", "x"), ("Transfer-Encoding", "chunked"),
            ("Proxy-Status", "x"), ("Set-Cookie", "x"),
            ("Trailer", "x"), ("Proxied", "x"),
        ])
        let options = ConnectionOptions(fields)
        #expect(options.namesFields && options.keepAlive && !options.close && !options.upgrade)
        let kept = (0..<fields.count).filter { !fields.isHopByHop(at: $0, options) }.map {
            String(copying: fields.name(at: $0))
        }
        #expect(
            kept == [
                "Another", "Host", "Content-Length", "Authorization", "Cookie", "Cache-Control", "Via",
                "X-Forwarded-For", "Date",
                "Proxy-Status", "Set-Cookie", "Trailer", "Proxied",
            ]
        )
        #expect(fields.acceptsTrailers)
        #expect(try !self.fields([("TE", "gzip")]).acceptsTrailers)
    }

    @Test("a Connection of close or keep-alive names no field")
    func plainConnection() throws {
        #expect(try !ConnectionOptions(fields([("Connection", "close")])).namesFields)
        #expect(try !ConnectionOptions(fields([("Connection", "Keep-Alive, , te, Upgrade")])).namesFields)
    }

    @Test("a name that is taken out of Connection is a field of the message")
    func removedFromConnection() throws {
        var fields = try fields([
            ("Connection", "X-Own, x-id , close"), ("X-Id", "1"), ("X-Own", "2"), ("Connection", "X-ID"),
        ])
        let options = ConnectionOptions(fields)
        let name = Array("X-Id".utf8)
        fields.removeFromConnection(name.span)
        let kept = (0..<fields.count).filter { !fields.isHopByHop(at: $0, options) }.map {
            String(copying: fields.name(at: $0))
        }
        #expect(kept == ["X-Id"])
        let index = try #require(fields.first(.connection))
        #expect(
            String(copying: fields.value(at: index)) == "X-Own, close" && fields.next(.connection, after: index) == nil
        )
    }

    @Test("methods are known as safe and idempotent")
    func methods() throws {
        let safe: [HTTPMethod] = [.get, .head, .options, .trace]
        for method in safe { #expect(method.isSafe && method.isIdempotent) }
        for method in [HTTPMethod.put, .delete] { #expect(!method.isSafe && method.isIdempotent) }
        for method in [HTTPMethod.post, .patch, .connect, .other([65])] {
            #expect(!method.isSafe && !method.isIdempotent)
        }
        for text in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "get", "X"] {
            #expect(try #require(HTTPMethod(text)).description == text)
        }
        #expect(HTTPMethod("A B") == nil)
        #expect(HTTPMethod("") == nil)
    }

    @Test("heads are written with the empty line at the end")
    func heads() throws {
        var buffer = ByteBuffer()
        buffer.appendRequestLine(.get, target: Array("/a".utf8).span)
        buffer.appendField(.host, Array("b".utf8).span)
        buffer.appendField(.contentLength, decimal: 5)
        buffer.appendHeadEnd()
        buffer.appendStatusLine(200)
        buffer.appendStatusLine(502)
        buffer.appendStatusLine(299)
        buffer.appendField(.connection, "close")
        #expect(
            String(copying: buffer.bytes)
                == "GET /a HTTP/1.1\r\nHost: b\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nHTTP/1.1 502 Bad Gateway\r\nHTTP/1.1 299 \r\nConnection: close\r\n"
        )
    }
}
