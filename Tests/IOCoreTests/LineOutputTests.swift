// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

@testable import IOCore

@Suite("Lines that a full disk cuts")
struct LineOutputTests {
    /// A disk with a limited amount of space.
    private final class Disk: Sendable {
        let room: Monitor<Int>

        init(_ room: Int) { self.room = Monitor(room) }

        func write(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
            room.with { room in
                guard room > 0 else { return -Int(ENOSPC) }
                let written = Glibc.write(descriptor, bytes, min(count, room))
                room -= max(0, written)
                return written
            }
        }
    }

    private static func append(_ text: String, to output: LineOutput) -> (lost: Int, code: Int32) {
        Array(text.utf8).withUnsafeBytes { output.append($0) }
    }

    @Test("a torn line of a file is removed, in each mode of opening", arguments: [O_APPEND, 0])
    func takenBack(flags: Int32) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/log"
        let descriptor = open(path, O_WRONLY | O_CREAT | flags, 0o600)
        defer { close(descriptor) }
        let disk = Disk(12)
        let output = LineOutput(descriptor: descriptor, write: disk.write)
        #expect(Self.append("one\ntwo\nthree\nfour\n", to: output) == (2, ENOSPC))
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "one\ntwo\n")
        #expect(Self.append("five\n", to: output) == (1, ENOSPC))
        disk.room.with { $0 = 100 }
        #expect(Self.append("six\n", to: output) == (0, 0))
        #expect(output.finish() == 0)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "one\ntwo\nsix\n")
    }

    @Test("a torn line of a shared file or a pipe is completed later", arguments: [true, false])
    func completed(isFile: Bool) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/log"
        var ends: [Int32] = [-1, -1]
        if isFile {
            ends[1] = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        } else {
            try #require(pipe(&ends) == 0)
        }
        defer { for end in ends where end >= 0 { close(end) } }
        let disk = Disk(6)
        let output = LineOutput(descriptor: ends[1]) { descriptor, bytes, count in
            let written = disk.write(descriptor, bytes, count)
            // Another process at the same moment.
            if written == -Int(ENOSPC), isFile, disk.room.with({ $0 }) == 0 {
                _ = Glibc.write(descriptor, "*", 1)
                disk.room.with { $0 = -1 }
            }
            return written
        }
        #expect(Self.append("one\ntwo\nthree\n", to: output) == (1, ENOSPC))
        #expect(output.finish() == 1)
        disk.room.with { $0 = 100 }
        #expect(Self.append("four\n", to: output) == (0, 0))
        #expect(output.finish() == 0)
        if isFile {
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "one\ntw*o\nfour\n")
        } else {
            var bytes = [UInt8](repeating: 0, count: 100)
            let count = read(ends[0], &bytes, bytes.count)
            #expect(String(decoding: bytes[..<max(0, count)], as: UTF8.self) == "one\ntwo\nfour\n")
        }
    }
}
