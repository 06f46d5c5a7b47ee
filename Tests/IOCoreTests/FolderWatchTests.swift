// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import IOCore
import TestSupport
import Testing

@Suite("Folder watches")
struct FolderWatchTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("one", as: "inside/a.json")
    }

    private func done(_ result: Int32) throws {
        guard result == 0 else { throw IOFailure(code: errno, during: "a change") }
    }

    private var inside: String { "\(folder.path)/inside" }

    /// Events are available when the call that caused them has returned.
    private func isTold(_ names: FolderWatch.Names, of change: () throws -> Void) throws -> Bool {
        let watch = try FolderWatch([inside: names])
        #expect(watch.failures.isEmpty)
        #expect(!watch.drainChanges())
        try change()
        let isReadable = DescriptorPoll.isReadable(watch.descriptor)
        let isTold = watch.drainChanges()
        #expect(isReadable || !isTold)
        #expect(!watch.drainChanges(), "it is told once")
        return isTold
    }

    @Test("a file that is written, made, renamed, removed, or given other permissions is told")
    func changes() throws {
        #expect(try isTold(.all) { try folder.write("two", as: "inside/a.json") })
        #expect(try isTold(.all) { try folder.write("new", as: "inside/b.json") })
        #expect(try isTold(.all) { try done(rename("\(inside)/b.json", "\(inside)/c.json")) })
        #expect(try isTold(.all) { try done(chmod("\(inside)/a.json", 0o400)) })
        #expect(try isTold(.all) { try done(unlink("\(inside)/c.json")) })
        #expect(try isTold(.all) { try done(symlink("a.json", "\(inside)/..data")) })
    }

    @Test("a folder watched for some names reports no others")
    func names() throws {
        let names = FolderWatch.Names.these(["a.json"])
        #expect(try isTold(names) { try folder.write("two", as: "inside/a.json") })
        #expect(try !isTold(names) { try folder.write("log", as: "inside/task.log") })
    }

    @Test("reading is no change")
    func reading() throws {
        #expect(try !isTold(.all) { _ = try String(contentsOfFile: "\(inside)/a.json", encoding: .utf8) })
    }

    @Test("the folder's own end is reported, whatever names are watched")
    func folderItself() throws {
        #expect(try isTold(.these(["a.json"])) { try done(rename(inside, "\(folder.path)/moved")) })
    }

    @Test("many changes at once are all reported")
    func many() throws {
        #expect(
            try isTold(.all) {
                for number in 0..<1000 { try folder.write("", as: "inside/\(number)-a-name-that-is-somewhat-longer") }
            }
        )
    }

    @Test("two paths to one folder are watched for the names of both")
    func twoPaths() throws {
        let link = "\(folder.path)/link"
        #expect(symlink("inside", link) == 0)
        let watch = try FolderWatch([inside: .these(["a.json"]), link: .these(["b.json"])])
        try folder.write("two", as: "inside/a.json")
        #expect(watch.drainChanges())
        try folder.write("two", as: "inside/b.json")
        #expect(watch.drainChanges())
    }

    @Test("a folder that is not there is no failure")
    func missing() throws {
        let watch = try FolderWatch(["\(folder.path)/missing": .all, "\(inside)/a.json": .all, inside: .all])
        #expect(watch.failures.isEmpty)
        try folder.write("two", as: "inside/a.json")
        #expect(watch.drainChanges())
    }
}
