// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@testable import IOCore

@Suite("Files that are invisible until they are published")
struct UnnamedFileTests {
    private func names(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path)
    }

    @Test("appended bytes are read, and have their name after publication", arguments: [false, true])
    func publishes(isHidden: Bool) throws {
        let folder = try TemporaryFolder()
        let file = try UnnamedFile(in: folder.path, mode: 0o640, isHidden: isHidden)
        try file.append(Array("hello ".utf8))
        try file.append([])
        try file.append(Array("world".utf8))
        #expect(file.size == 11)
        #expect(try file.read(at: 6, count: 100) == Array("world".utf8))
        #expect(try file.read(at: 0, count: 5) == Array("hello".utf8))
        #expect(try names(folder).filter { !$0.hasPrefix(".") }.isEmpty)
        try file.publish(as: "\(folder.path)/there")
        #expect(try names(folder) == ["there"])
        #expect(try String(contentsOfFile: "\(folder.path)/there", encoding: .utf8) == "hello world")
        let mode = try FileManager.default.attributesOfItem(atPath: "\(folder.path)/there")[.posixPermissions] as? Int
        #expect(mode.map { $0 & 0o027 } == 0)
    }

    @Test("an existing name is left alone, and the file goes", arguments: [false, true])
    func taken(isHidden: Bool) throws {
        let folder = try TemporaryFolder()
        try folder.write("mine", as: "there")
        do {
            let file = try UnnamedFile(in: folder.path, isHidden: isHidden)
            try file.append([1])
            #expect(throws: IOFailure(code: EEXIST, during: "link")) { try file.publish(as: "\(folder.path)/there") }
        }
        #expect(try names(folder) == ["there"])
        #expect(try String(contentsOfFile: "\(folder.path)/there", encoding: .utf8) == "mine")
    }

    @Test("an unpublished file leaves nothing, and a forgotten one disappears")
    func vanishes() throws {
        let folder = try TemporaryFolder()
        for isHidden in [false, true] {
            do {
                let file = try UnnamedFile(in: folder.path, isHidden: isHidden)
                try file.append([1, 2, 3])
                #expect(try names(folder).count == (isHidden ? 1 : 0))
                withExtendedLifetime(file) {}
            }
            #expect(try names(folder).isEmpty)
        }
        let file = try UnnamedFile(in: folder.path, isHidden: true)
        try file.append([1, 2, 3])
        file.forgetName()
        #expect(try names(folder).isEmpty)
        #expect(try file.read(at: 0, count: 3) == [1, 2, 3])
    }

    @Test("a folder that is not there is a failure that says so")
    func missing() {
        #expect(throws: IOFailure(code: ENOENT, during: "open")) { try UnnamedFile(in: "/nowhere/at/all") }
    }
}
