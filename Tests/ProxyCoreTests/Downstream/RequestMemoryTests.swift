// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyCore

@Suite struct RequestMemoryTests {
    private func fields(_ memory: inout RequestMemory, _ value: String) -> HeaderFields {
        var fields = memory.takeFields()
        #expect(fields.isEmpty)
        fields.append(.accept, Array(value.utf8).span)
        memory.keep(fields)
        return fields
    }

    @Test("A living request keeps its fields and target when the next one begins")
    func earlier() {
        var memory = RequestMemory()
        let first = fields(&memory, "text/plain")
        let firstTarget = memory.copy(Array("/first/and/longer".utf8).span)
        let second = fields(&memory, "image/png")
        let secondTarget = memory.copy(Array("/second".utf8).span)
        #expect(first.list.map(\.value) == ["text/plain"])
        #expect(second.list.map(\.value) == ["image/png"])
        #expect(firstTarget == Array("/first/and/longer".utf8))
        #expect(secondTarget == Array("/second".utf8))
    }

    @Test("A large head and a large target do not stay in memory")
    func large() {
        var memory = RequestMemory()
        let long = String(repeating: "a", count: 60_000)
        #expect(fields(&memory, long).footprint > 60_000)
        #expect(memory.takeFields().footprint < 60_000)
        #expect(memory.copy(Array(long.utf8).span) == Array(long.utf8))
        #expect(memory.copy(Array("/".utf8).span).capacity < 60_000)
    }
}
