import CLibcurl
import CShims
import HTTPCore
import Testing

@testable import SessionCore

@Suite("Fields as libcurl takes them")
struct FieldListTests {
    /// The entries of a list as libcurl would read them.
    private func entries(_ list: UnsafeMutablePointer<curl_slist>?) -> [String] {
        var entries: [String] = []
        var node = list
        while let entry = node {
            entries.append(String(cString: entry.pointee.data))
            node = entry.pointee.next
        }
        return entries
    }

    private func fields(_ pairs: [(String, String)]) throws -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in pairs { try fields.append(name: name, value: value) }
        return fields
    }

    @Test("all fields are one entry, in their order, with CRLF between them")
    func oneEntry() throws {
        var list = FieldList()
        list.addLines(try fields([("A", "1"), ("B", ""), ("A", "2")]), hasZeroLength: false)
        #expect(entries(list.link()) == ["A: 1\r\nB: \r\nA: 2"])
    }

    @Test("a body of no bytes has its length said")
    func zeroLength() throws {
        var list = FieldList()
        list.addLines(try fields([("A", "1")]), hasZeroLength: true)
        #expect(entries(list.link()) == ["A: 1\r\nContent-Length: 0"])
        list.removeAll()
        list.addLines(HTTPFields(), hasZeroLength: true)
        #expect(entries(list.link()) == ["Content-Length: 0"])
    }

    @Test("one field without a value is spelt as libcurl wants it")
    func soleEmptyField() throws {
        var list = FieldList()
        list.addLines(try fields([("X-Empty", "")]), hasZeroLength: false)
        #expect(entries(list.link()) == ["X-Empty;"])
    }

    @Test("names are suppressed before the fields, whose entry libcurl sees last")
    func suppression() throws {
        var list = FieldList()
        list.suppress("Accept:")
        list.suppress("Expect:")
        list.addLines(try fields([("A", "1")]), hasZeroLength: false)
        #expect(entries(list.link()) == ["Accept:", "Expect:", "A: 1"])
    }

    @Test("no fields make no entry, and nothing at all no list")
    func nothing() {
        var list = FieldList()
        list.addLines(HTTPFields(), hasZeroLength: false)
        let isEmpty = list.link() == nil
        #expect(isEmpty)
    }

    @Test("what was added stays right when the memory grows, and when it is used again")
    func growth() throws {
        var list = FieldList()
        for round in 1...3 {
            list.removeAll()
            let target = list.addText(Array("/\(round)".utf8).span)
            let method = list.addMethod(.get)
            let other = list.addMethod(try #require(HTTPMethod("REPORT")))
            list.suppress("Accept:")
            let long = String(repeating: "x", count: 2000 * round)
            list.addLines(try fields((0..<20).map { ("X-\($0)", long) }), hasZeroLength: false)
            let expected = (0..<20).map { "X-\($0): \(long)" }.joined(separator: "\r\n")
            #expect(entries(list.link()) == ["Accept:", expected])
            #expect(String(cString: list.text(at: target)) == "/\(round)")
            #expect(String(cString: list.text(at: method)) == "GET")
            #expect(String(cString: list.text(at: other)) == "REPORT")
        }
    }
}
