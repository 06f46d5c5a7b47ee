// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Messages of routing sockets")
struct NetlinkMessageTests {
    private func bytes<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
        withUnsafeBytes(of: number) { Array($0) }
    }

    private func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + Array(repeating: 0, count: (4 - bytes.count % 4) % 4)
    }

    private func message(_ type: UInt16, sequence: UInt32 = 5, _ body: [UInt8]) -> [UInt8] {
        let length = UInt32(16 + body.count)
        return padded(bytes(length) + bytes(type) + bytes(UInt16(2)) + bytes(sequence) + bytes(UInt32(0)) + body)
    }

    private func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
        padded(bytes(UInt16(4 + value.count)) + bytes(type) + value)
    }

    private func link(_ attributes: [UInt8]) -> [UInt8] {
        bytes(UInt16(0)) + bytes(UInt16(1)) + bytes(Int32(7)) + bytes(UInt32(0x41)) + bytes(UInt32(0)) + attributes
    }

    private func route(prefixLength: UInt8 = 0, type: UInt8 = 1, _ attributes: [UInt8]) -> [UInt8] {
        [2, prefixLength, 0, 0, 254, 3, 0, type] + bytes(UInt32(0)) + attributes
    }

    private func read(_ datagram: [UInt8]) -> [NetlinkMessage]? {
        NetlinkMessage.messages(in: datagram.span, sequence: 5)
    }

    @Test("a link has an index, flags, hardware, a name and a kind")
    func links() {
        let info = attribute(18, attribute(1, Array("veth".utf8) + [0]))
        let datagram = message(16, link(attribute(3, Array("eth0".utf8) + [0]) + info)) + message(3, bytes(UInt32(0)))
        let expected = NetworkLink(index: 7, flags: 0x41, hardware: 1, name: "eth0", kind: "veth")
        #expect(read(datagram) == [.link(expected), .done])
    }

    @Test("a default route covers every address; a route has link and metric")
    func routes() {
        let attributes = attribute(4, bytes(UInt32(7))) + attribute(6, bytes(UInt32(100)))
        #expect(
            read(message(24, route(attributes))) == [.route(NetworkRoute(isDefault: true, link: 7, metric: 100))]
        )
        #expect(
            read(message(24, route(prefixLength: 24, attributes)))
                == [.route(NetworkRoute(isDefault: false, link: 7, metric: 100))]
        )
        // RTN_BLACKHOLE.
        #expect(
            read(message(24, route(type: 6, []))) == [.route(NetworkRoute(isDefault: false, isUnicast: false, link: 0))]
        )
    }

    @Test("a route with several hops counts by its first")
    func severalHops() {
        let hops = bytes(UInt16(8)) + [0, 0] + bytes(UInt32(7)) + bytes(UInt16(8)) + [0, 0] + bytes(UInt32(8))
        #expect(read(message(24, route(attribute(9, hops)))) == [.route(NetworkRoute(isDefault: true, link: 7))])
    }

    @Test("errors have their number, and replies to other requests are left out")
    func errorsAndOthers() {
        let datagram = message(2, sequence: 4, bytes(Int32(-1))) + message(2, bytes(Int32(-101)))
        #expect(read(datagram) == [.error(101)])
        // The one number that has no positive counterpart.
        #expect(read(message(2, bytes(Int32.min))) == [.error(.min)])
    }

    @Test("a datagram that ends too early is malformed, wherever it is cut")
    func truncation() {
        let datagram = message(
            16,
            link(attribute(3, Array("eth0".utf8) + [0]) + attribute(18, attribute(1, [120, 0])))
        )
        for count in 1..<(datagram.count - 3) { #expect(read(Array(datagram[..<count])) == nil) }
        #expect(read([]) == [])
    }

    @Test("lengths that do not fit are malformed")
    func lies() {
        var tooLong = message(16, link([]))
        tooLong[0] = 200
        #expect(read(tooLong) == nil)
        var tooShort = message(16, link([]))
        tooShort[0] = 3
        #expect(read(tooShort) == nil)
        #expect(read(message(16, link(bytes(UInt16(3)) + bytes(UInt16(3))))) == nil)
        #expect(read(message(24, route(attribute(4, [1])))) == nil)
        #expect(read(message(2, [1, 2])) == nil)
    }

    @Test("random bytes crash nothing")
    func randomBytes() {
        var generator = Generator(state: 20_261_121)
        let datagram = message(16, link(attribute(3, Array("eth0".utf8)))) + message(24, route(attribute(9, [8, 0])))
        for _ in 0..<5000 {
            var mutated = datagram
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                mutated[Int.random(in: 0..<mutated.count, using: &generator)] = UInt8.random(
                    in: 0...255,
                    using: &generator
                )
            }
            _ = read(mutated)
        }
    }

    private struct Generator: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ state >> 29
        }
    }
}
