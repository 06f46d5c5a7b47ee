// SPDX-License-Identifier: Apache-2.0
import Foundation
import FuzzTargets
import TestSupport
import Testing

/// The fuzzer's corpus as ordinary tests: a bug that was found once stays fixed, and the properties are checked on
/// machines without a fuzzer.
@Suite("The fuzzer's corpus")
struct FuzzCorpusTests {
    private static func corpus(_ target: FuzzTarget) throws -> [URL] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fuzzing/Corpus/\(target.rawValue)")
        guard FileManager.default.fileExists(atPath: folder.path) else { return [] }
        return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .sorted { $0.lastPathComponent < $1.lastPathComponent }
    }

    @Test("every input of a target's corpus keeps the properties of its reader", arguments: FuzzTarget.allCases)
    func corpus(target: FuzzTarget) throws {
        let session = try FuzzSession(target)
        var inputs = 0
        for file in try Self.corpus(target) {
            inputs += 1
            try run([UInt8](Data(contentsOf: file)), in: session, file.lastPathComponent)
        }
        for (number, seed) in try session.seeds.enumerated() {
            inputs += 1
            try run(seed, in: session, "made-\(number)")
        }
        #expect(inputs >= 7, "\(target.rawValue) has no corpus")
    }

    @Test("make fuzz runs every target")
    func listed() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fuzzing/fuzz.mk")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        let list = try #require(lines.first { $0.hasPrefix("FUZZ_TARGETS := ") })
        #expect(
            list.split(separator: " ").dropFirst(2).sorted()
                == FuzzTarget.allCases.map { Substring($0.rawValue) }.sorted()
        )
    }

    @Test("a damaged corpus keeps them too", arguments: FuzzTarget.allCases)
    func mutations(target: FuzzTarget) throws {
        let session = try FuzzSession(target)
        var random = SeededGenerator(seed: 7)
        let inputs = try Self.corpus(target).map { [UInt8](try Data(contentsOf: $0)) } + session.seeds
        for round in 0..<60 {
            var bytes = inputs[round % inputs.count]
            guard !bytes.isEmpty else { continue }
            for _ in 0...(random.next() % 3) {
                bytes[Int(random.next() % UInt64(bytes.count))] ^= 1 << UInt8(random.next() % 8)
            }
            if round % 5 == 0 { bytes.removeLast(Int(random.next() % UInt64(bytes.count))) }
            try run(bytes, in: session, "round \(round)")
        }
    }

    @Test("random spellings of a host have the same pins, rules and address")
    func spellings() throws {
        var random = SeededGenerator(seed: 11)
        for round in 0..<1500 {
            let bytes = (0..<120).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            do {
                try SpellingProperties.spellings(bytes)
            } catch {
                Issue.record("round \(round): \(error)")
            }
        }
    }

    @Test("the corpus has no folder without a target")
    func folders() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fuzzing/Corpus")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(names.allSatisfy { FuzzTarget(rawValue: $0) != nil }, "\(names)")
    }

    private func run(_ bytes: [UInt8], in session: FuzzSession, _ name: String) throws {
        do {
            try session.run(bytes)
        } catch {
            Issue.record("\(name): \(error.message)")
        }
    }
}
