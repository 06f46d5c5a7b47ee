// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import HTTPCore

@Suite("Fields whose memory serves again")
struct PreparedFieldTests {
    @Test("a prepared field is the same as one that is put together")
    func prepared() throws {
        var fields = HeaderFields()
        try fields.append(name: "Date", value: "now")
        fields.append(PreparedField(name: Array("Via".utf8).span, value: Array("1.1 us".utf8).span))
        fields.append(PreparedField(name: Array("CDN-Loop".utf8).span, value: Array("us".utf8).span))
        #expect(fields.first(.via) == 1 && fields.first(.date) == 0)
        #expect(fields.list.map(\.name) == ["Date", "Via", "CDN-Loop"])
        #expect(fields["via"] == "1.1 us" && fields["cdn-loop"] == "us")
    }

    @Test("entries of former fields are never seen again")
    func reuse() throws {
        var fields = HeaderFields()
        for number in 0..<5 { try fields.append(name: "A-\(number)", value: "\(number)") }
        fields.removeAll(keepingCapacity: true)
        #expect(fields.isEmpty && fields.first(named: Array("A-1".utf8).span) == nil)
        try fields.append(name: "Vary", value: "b")
        try fields.append(name: "Age", value: "1")
        let copy = fields
        fields.remove(.vary)
        #expect(fields.list.map(\.name) == ["Age"] && copy.list.map(\.name) == ["Vary", "Age"])
        try fields.append(name: "Date", value: "c")
        try fields.set(name: "Age", value: "2")
        fields.removeAll { fields, index in fields.id(at: index) == .date }
        #expect(fields.list.map(\.value) == ["2"])
        #expect(fields.count(of: .age) == 1 && fields.next(.age, after: 0) == nil)
    }
}
