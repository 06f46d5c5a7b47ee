// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Parameters from Encodable types")
struct ParameterEncoderTests {
    private struct Inner: Encodable {
        var z = 1
        var a = [true, false]
    }

    private struct Outer: Encodable {
        var text = "t"
        var missing: Int?
        var inner = Inner()
        var list = [Inner()]
        var big = UInt64.max
        var float: Float = 0.1
        var double = 2.5
        var names = ["k": 1]
        var any: ParameterValue = .set([1])
    }

    @Test("members keep their order, nil is left out, and numbers stay exact")
    func members() throws {
        guard case .dictionary(let members) = try ParameterValue(encoding: Outer()) else {
            Issue.record("no dictionary")
            return
        }
        #expect(members.keys == ["text", "inner", "list", "big", "float", "double", "names", "any"])
        #expect(members["inner"] == ["z": 1, "a": [true, false]])
        #expect(members["list"] == [["z": 1, "a": [true, false]]])
        #expect(members["big"] == .unsigned(.max))
        #expect(members["float"] == 0.1)
        #expect(members["double"] == 2.5)
        #expect(members["names"] == ["k": 1])
        #expect(members["any"] == .set([1]))
    }

    private enum Hand: Encodable {
        case it

        enum Key: CodingKey { case deep, list, none, sup }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            var deep = container.nestedContainer(keyedBy: Key.self, forKey: .deep)
            var list = container.nestedUnkeyedContainer(forKey: .list)
            try list.encodeNil()
            try list.encode(Int8(-1))
            var inner = list.nestedContainer(keyedBy: Key.self)
            try inner.encode("x", forKey: .none)
            var more = list.nestedUnkeyedContainer()
            try more.encode(UInt16(7))
            try deep.encode(true, forKey: .none)
            try container.encodeNil(forKey: .none)
            var single = container.superEncoder(forKey: .sup).singleValueContainer()
            try single.encode("s")
        }
    }

    @Test("nested containers that are filled late and out of order are in place")
    func nestedContainers() throws {
        let expected: ParameterValue = [
            "deep": ["none": true], "list": [nil, -1, ["none": "x"], [7]], "none": nil, "sup": "s",
        ]
        #expect(try ParameterValue(encoding: Hand.it) == expected)
    }

    private class Base: Encodable {
        var base = 1
        enum Key: CodingKey { case base }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(base, forKey: .base)
        }
    }

    private final class Derived: Base {
        enum Key: CodingKey { case own }

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(2, forKey: .own)
            try super.encode(to: encoder)
        }
    }

    @Test("a subclass that shares its encoder with its superclass brings both their members")
    func inheritance() throws {
        #expect(try ParameterValue(encoding: Derived()) == ["own": 2, "base": 1])
    }

    @Test("single values and arrays at the top are what they are")
    func topLevel() throws {
        #expect(try ParameterValue(encoding: 7) == 7)
        #expect(try ParameterValue(encoding: "x") == "x")
        #expect(try ParameterValue(encoding: [1, 2]) == [1, 2])
        #expect(try ParameterValue(encoding: Int?.none) == nil)
    }

    private struct Widths: Encodable {
        var int8 = Int8.min
        var int16 = Int16.min
        var int32 = Int32.min
        var int64 = Int64.min
        var int = Int.max
        var uint8 = UInt8.max
        var uint16 = UInt16.max
        var uint32 = UInt32.max
        var uint64 = UInt64.max
        var uint = UInt(7)
    }

    @Test("whole numbers of every width stay what they are, to their ends")
    func widths() throws {
        let expected: ParameterValue = [
            "int8": -128, "int16": -32768, "int32": -2_147_483_648, "int64": .int(.min), "int": .int(.max),
            "uint8": 255, "uint16": 65535, "uint32": 4_294_967_295, "uint64": .unsigned(.max), "uint": 7,
        ]
        #expect(try ParameterValue(encoding: Widths()) == expected)
        let request = try HTTPRequestSerializer().request(
            .post,
            "https://a.example/",
            parameters: ParameterValue(encoding: Widths())
        )
        #expect(
            request.body.text
                == "int=9223372036854775807&int16=-32768&int32=-2147483648&int64=-9223372036854775808&int8=-128"
                + "&uint=7&uint16=65535&uint32=4294967295&uint64=18446744073709551615&uint8=255"
        )
    }

    @Test("a form has the same parameters")
    func form() throws {
        let request = try HTTPRequestSerializer()
            .request(.post, "https://a.example/", parameters: ParameterValue(encoding: Inner()))
        #expect(request.body.text == "a%5B%5D=1&a%5B%5D=0&z=1")
    }
}
