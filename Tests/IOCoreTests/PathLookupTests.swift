// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import TestSupport
import Testing

@Suite("Path lookups")
struct PathLookupTests {
    private let folder: TemporaryFolder
    /// The path without symbolic links, wherever the system's temporary folder is.
    private let root: String

    init() throws {
        folder = try TemporaryFolder()
        root = try #require(PathLookup(folder.path).destination)
    }

    /// The lookup alone, and together with others in its folder.
    private func lookup(_ path: String) -> PathLookup {
        let alone = PathLookup("\(root)/\(path)")
        var lookups = PathLookups()
        for _ in 0..<2 { #expect(lookups.lookup("\(root)/\(path)") == alone) }
        return alone
    }

    private func entry(_ folder: String, _ name: String) -> FolderEntry {
        FolderEntry(folder: folder.isEmpty ? root : "\(root)/\(folder)", name: name)
    }

    @Test("a file depends on its own entry and on that of its folder")
    func plain() throws {
        try folder.write("", as: "pins/a.json")
        #expect(lookup("pins/a.json").entries == [entry("pins", "a.json"), entry("", "pins")])
        #expect(lookup("pins/a.json").destination == "\(root)/pins/a.json")
        #expect(lookup("./pins//./a.json").destination == "\(root)/pins/a.json")
    }

    @Test("many files in a folder share the look-up of the folder")
    func folderOnce() throws {
        for name in ["a", "b", "c"] { try folder.write("", as: "pins/\(name).json") }
        #expect(symlink("a.json", "\(root)/pins/d.json") == 0)
        var lookups = PathLookups()
        let first = lookups.lookup("\(root)/pins/a.json")
        #expect(first == PathLookup("\(root)/pins/a.json"))
        for name in ["b", "c", "d", "missing"] {
            let path = "\(root)/pins/\(name).json"
            #expect(lookups.lookup(path) == PathLookup(path))
        }
        #expect(rename("\(root)/pins", "\(root)/other") == 0 && symlink("other", "\(root)/pins") == 0)
        #expect(lookups.lookup("\(root)/pins/b.json").entries == [entry("pins", "b.json"), entry("", "pins")])
        #expect(PathLookup("\(root)/pins/b.json").entries.count == 3)
        for path in ["", "/", "x", "/x.json", "\(root)/", "\(root)/other/.", "\(root)/other/..", "./x", "../x", "."] {
            #expect(lookups.lookup(path) == PathLookup(path), "\(path)")
        }
    }

    @Test("symbolic links on the way count, and lead to where the file really is")
    func links() throws {
        try folder.write("", as: "pins/..1/a.json")
        #expect(symlink("..1", "\(root)/pins/..data") == 0)
        #expect(symlink("..data/a.json", "\(root)/pins/a.json") == 0)
        let found = lookup("pins/a.json")
        #expect(
            found.entries
                == [
                    entry("pins", "a.json"), entry("pins", "..data"), entry("pins/..1", "a.json"), entry("pins", "..1"),
                ]
        )
        #expect(found.destination == "\(root)/pins/..1/a.json")
    }

    @Test("a link to an absolute path and one of a folder are followed")
    func absoluteLink() throws {
        try folder.write("", as: "releases/7/a.json")
        #expect(symlink("\(root)/releases/7", "\(root)/pins") == 0)
        let found = lookup("pins/a.json")
        #expect(found.entries == [entry("", "pins"), entry("releases/7", "a.json"), entry("releases", "7")])
        #expect(found.destination == "\(root)/releases/7/a.json")
    }

    @Test("the way to a missing file ends where it breaks off")
    func missing() throws {
        let found = lookup("one/two/a.json")
        #expect(found.entries.last == entry("", "one"))
        #expect(found.destination == nil)
        #expect(symlink("nowhere", "\(root)/dangling") == 0)
        #expect(lookup("dangling").entries.contains(entry("", "nowhere")))
    }

    @Test("a circle of links is given up")
    func circle() throws {
        #expect(symlink("b", "\(root)/a") == 0)
        #expect(symlink("a", "\(root)/b") == 0)
        #expect(lookup("a").destination == nil)
        #expect(Set(lookup("a").entries) == [entry("", "a"), entry("", "b")])
    }

    @Test("a path upwards and a relative path are followed")
    func relative() throws {
        try folder.write("", as: "pins/a.json")
        #expect(lookup("pins/../pins/a.json").destination == "\(root)/pins/../pins/a.json")
        #expect(
            PathLookup("a-file-that-no-test-makes").entries == [
                FolderEntry(folder: ".", name: "a-file-that-no-test-makes")
            ]
        )
        #expect(PathLookup("/").destination == "/")
    }
}
