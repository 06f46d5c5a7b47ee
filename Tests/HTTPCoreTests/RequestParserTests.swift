import HTTPCore
import Testing

@Suite("The request parser")
struct RequestParserTests {
    @Test("a head is understood in absolute-form")
    func absoluteForm() throws {
        let head = try accept(
            "GET http://Example.COM:8080/a?b HTTP/1.1\r\nHost: example.com:8080\r\nAccept: */*\r\n\r\n"
        )
        #expect(head.method == .get)
        #expect(head.form == .absolute)
        #expect(head.scheme == .http)
        #expect(head.port == 8080)
        #expect(head.host?.description == "example.com")
        #expect(String(copying: head.target) == "/a?b")
        #expect(String(copying: head.rawHost) == "Example.COM")
        #expect(head.fields.count == 2)
        #expect(head.keepAlive)
        #expect(head.framing == .none)
    }
}
