// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyConfiguration

@Suite("Changes of fields")
struct FieldChangesTests {
    private static let long = "X-" + String(repeating: "a", count: 80)
    private static let otherLong = "X-" + String(repeating: "b", count: 90)

    private func fields(_ names: [String]) -> HeaderFields {
        var fields = HeaderFields()
        for name in names { fields.append(name: Array(name.utf8).span, value: Array("value".utf8).span) }
        return fields
    }

    private func names(_ fields: HeaderFields) -> [String] {
        (0..<fields.count).map { String(decoding: [UInt8](copying: fields.name(at: $0)), as: UTF8.self) }
    }

    @Test(
        "names are removed in any case and punctuation",
        arguments: [
            (["Server"], ["server", "Served"], ["Served"]),
            (["x-internal"], ["X-Internal", "X-Interned", "x-INTERNAL", "X-Int"], ["X-Interned", "X-Int"]),
            (["X-A", "Date", "X-B"], ["x-a", "X-C", "DATE", "X-B", "Age"], ["X-C", "Age"]),
            ([long], [long.uppercased(), otherLong, "X-a"], [otherLong, "X-a"]),
            ([String(repeating: "n", count: 63)], [String(repeating: "N", count: 63)], []),
            (["If-Match", "X-Key"], ["if_match", "X_Key", "x_KEY", "If_Matchs"], ["If_Matchs"]),
            (["X_Key"], ["X-Key", "x_key", "X-Ke"], ["X-Ke"]),
            (["If-Match", "X-Key"], ["If!Match", "X~Key", "x'key", "X-1Key", "XaKey"], ["X-1Key", "XaKey"]),
            (["If_Match", "x.key"], ["If-Match", "if.match", "X-Key", "If-None-Match"], ["If-None-Match"]),
            ([], ["Server", "X-A"], ["Server", "X-A"]),
        ] as [([String], [String], [String])]
    )
    func removed(removed: [String], present: [String], left: [String]) {
        var changes = FieldChanges()
        for name in removed { changes.remove(name) }
        var fields = fields(present)
        changes.apply(to: &fields)
        #expect(names(fields) == left)
    }

    @Test("a set field replaces all of its name")
    func replaced() {
        var changes = FieldChanges()
        changes.set("X-Key", Array("new".utf8), from: .literal)
        changes.set("Server", Array("new".utf8), from: .literal)
        var fields = fields(["server", "x-key", "X-KEY", "X-Other"])
        changes.apply(to: &fields)
        #expect(names(fields) == ["X-Other", "X-Key", "Server"])
    }
}
