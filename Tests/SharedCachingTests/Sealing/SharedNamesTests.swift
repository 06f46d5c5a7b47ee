// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("Names in Redis")
struct SharedNamesTests {
    private typealias Stage = SealingStage

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test("names are those that another implementation computes")
    func vectors() throws {
        let secret = try Stage.secret()
        let names = secret.names(of: Stage.key(), under: Stage.policy)
        #expect(Self.text(names.key) == "p:{BW30P2q_-MoeKy1YMD1-7VYUZsv}")
        #expect(names.field == Stage.bytes("c90661838075df87865676a4e1cafed9"))
        #expect(Self.text(names.lease) == "p:{BW30P2q_-MoeKy1YMD1-7VYUZsv}:l:yQZhg4B134eGVnak4cr-2Q")
        let request = try Stage.fields([("Accept-Encoding", "gzip, BR")])
        let varied = names.field(for: request, names: ["accept-encoding", "x-kind"].map { Array($0.utf8) }, secret)
        #expect(varied == Stage.bytes("949aa338af27f3b942071b9428caa8e5"))
        #expect(Self.text(secret.countName) == "p:{purges}:n")
        #expect(Self.text(secret.purgeName(120)) == "p:{purges}:120" && SharedNames.generation == Array("g".utf8))
    }

    @Test("a URI's keys are in one slot; its partitions and policies have different fields")
    func differences() throws {
        let secret = try Stage.secret()
        let names = secret.names(of: Stage.key(), under: Stage.policy)
        #expect(secret.names(of: Stage.key(), under: Stage.policy).field == names.field)
        #expect(names.lease.starts(with: names.key) && names.field.count == SharedNames.fieldLength)
        let ofSameURI = [
            secret.names(of: Stage.key(part: ""), under: Stage.policy),
            secret.names(of: Stage.key(part: "tean"), under: Stage.policy),
            secret.names(of: Stage.key(), under: PolicyDigest([1, 2])),
            secret.names(of: Stage.key(), under: .none),
        ]
        for other in ofSameURI { #expect(other.key == names.key && other.field != names.field) }
        #expect(Set(ofSameURI.map(\.field)).count == 4 && Set(ofSameURI.map(\.lease)).count == 4)
        // The border of part and digest is part of the name.
        let one = secret.names(of: Stage.key(part: "ab"), under: PolicyDigest(Array("c".utf8)))
        #expect(one.field != secret.names(of: Stage.key(part: "a"), under: PolicyDigest(Array("bc".utf8))).field)
    }

    @Test("another URI, secret or prefix has other names")
    func others() throws {
        let secret = try Stage.secret()
        let names = secret.names(of: Stage.key(), under: Stage.policy)
        for uri in ["GET https://a.example:443/x?z", "HEAD https://a.example:443/x?y", ""] {
            let other = secret.names(of: Stage.key(uri), under: Stage.policy)
            #expect(other.key != names.key && other.field != names.field && other.key.count == names.key.count)
        }
        let stranger = try #require(SharedSecret(Array(1...32), prefix: secret.prefix))
        let foreign = stranger.names(of: Stage.key(), under: Stage.policy)
        #expect(foreign.key != names.key && foreign.field != names.field)
        let moved = try Stage.secret(prefix: "").names(of: Stage.key(), under: Stage.policy)
        #expect(moved.key == Array(names.key.dropFirst(2)) && moved.field == names.field)
    }

    @Test("names have no bytes that base64url does not have")
    func alphabet() throws {
        let secret = try Stage.secret()
        let letters = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for number in 0..<200 {
            let names = secret.names(of: Stage.key("GET https://a.example:443/\(number)"), under: Stage.policy)
            #expect(names.key.count == 31 && names.lease.count == 31 + 3 + 22)
            #expect(names.key.starts(with: Array("p:{".utf8)) && names.key.last == UInt8(ascii: "}"))
            #expect(
                names.key[3..<30].allSatisfy(letters.contains) && names.lease.suffix(22).allSatisfy(letters.contains)
            )
        }
    }

    @Test("requests that select the same response have the same field")
    func varied() throws {
        let secret = try Stage.secret()
        let names = secret.names(of: Stage.key(), under: Stage.policy)
        let varying = ["accept-encoding", "accept-language"].map { Array($0.utf8) }
        func field(_ pairs: [(String, String)], _ names: SharedNames, _ varying: [[UInt8]]) throws -> [UInt8] {
            names.field(for: try Stage.fields(pairs), names: varying, secret)
        }
        let same: [[(String, String)]] = [
            [("Accept-Encoding", "gzip, br"), ("Accept-Language", "de")],
            [("accept-language", "DE"), ("Accept-Encoding", "BR ,gzip"), ("X", "1")],
            [("Accept-Encoding", "br"), ("Accept-Language", "de"), ("Accept-Encoding", "gzip")],
        ]
        let known = try field(same[0], names, varying)
        for pairs in same {
            #expect(try field(pairs, names, varying) == known)
            #expect(try field(pairs, names, varying.reversed()) == known)
            #expect(try field(pairs, names, varying + ["Accept-Encoding"].map { Array($0.utf8) }) == known)
        }
        let different: [[(String, String)]] = [
            [], [("Accept-Encoding", "gzip, br")], [("Accept-Encoding", "gzip, br"), ("Accept-Language", "")],
            [("Accept-Encoding", "gzip, br"), ("Accept-Language", "en")],
        ]
        var fields: Set = [known, names.field]
        for pairs in different { fields.insert(try field(pairs, names, varying)) }
        fields.insert(try field(same[0], names, Array(varying[..<1])))
        fields.insert(try field(same[0], secret.names(of: Stage.key(part: ""), under: Stage.policy), varying))
        fields.insert(try field(same[0], secret.names(of: Stage.key(), under: .none), varying))
        fields.insert(try field(same[0], secret.names(of: Stage.key("GET x"), under: Stage.policy), varying))
        #expect(fields.count == 10 && fields.allSatisfy { $0.count == SharedNames.fieldLength })
    }

    @Test("chunks have names of their own behind that of the record")
    func chunks() {
        let field = [UInt8](repeating: 9, count: 16)
        #expect(SharedNames.chunk(field, 0) == field + [0, 0, 0, 0])
        #expect(SharedNames.chunk(field, 63) == field + [0, 0, 0, 63])
        #expect(SharedNames.chunk(field, 0x0102_0304) == field + [1, 2, 3, 4])
    }
}
