// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The libraries of the program", .onOwnThreads)
struct LinkedLibrariesTests {
    /// The member `libraries` of `version --json`.
    private static func libraries(in finished: Programs.Finished) throws -> [String: Any] {
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let object = try JSONSerialization.jsonObject(with: Data(finished.output.utf8)) as? [String: Any]
        return try #require(object?["libraries"] as? [String: Any])
    }

    @Test("the program is linked with nothing of Foundation")
    func noFoundation() throws {
        let libraries = try Programs.run("ldd", [try Programs.built("pinproxy")]).output
        #expect(libraries.contains("libssl") && !libraries.contains("Foundation"), "\(libraries)")
        #expect(!libraries.contains("libcurl"), "\(libraries)")
    }

    @Test("libcurl is loaded for a SOCKS proxy alone")
    func libcurl() throws {
        for (upstream, isLoaded) in [("http://127.0.0.1:1", false), ("socks5h://127.0.0.1:1", true)] {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.members["upstreamProxy"] = upstream
            let proxy = try ProxyUnderTest(settings)
            #expect(try proxy.get("http://\(Stage.host)/").status == 502)
            // Foundation reads no more than the first page of this file.
            let maps = try Programs.run("cat", ["/proc/\(proxy.identifier)/maps"]).output
            #expect(maps.contains("libcurl.so.4") == isLoaded)
        }
    }

    @Test("without libcurl a SOCKS proxy is an error of the configuration, and nothing else")
    func noLibcurl() throws {
        let folder = try TemporaryFolder()
        _ = try folder.write("not a library", as: "libcurl.so.4")
        let environment = Programs.environment.merging(["LD_LIBRARY_PATH": folder.path]) { $1 }
        func pinproxy(_ words: String...) throws -> Programs.Finished {
            try Programs.run(try Programs.built("pinproxy"), words, environment: environment)
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin(Stage.host, to: .unrelated(7))
        settings.members["upstreamProxy"] = "http://127.0.0.1:1"
        #expect(try pinproxy("check", "--config", settings.write(to: folder)).exitCode == 0)
        settings.members["upstreamProxy"] = "socks5h://127.0.0.1:1"
        let refused = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(refused.exitCode == 78)
        #expect(refused.errors.contains("/upstreamProxy: libcurl, which speaks SOCKS, cannot be loaded"))
        #expect(refused.errors.contains("libcurl4t64"), "\(refused.errors)")
        let version = try pinproxy("version")
        #expect(version.exitCode == 0 && version.output.contains("\nlibcurl not installed"))
        // Whatever reads the JSON finds no version there; the others stay.
        let without = try Self.libraries(in: pinproxy("version", "--json"))
        let with = try Self.libraries(in: Programs.run(try Programs.built("pinproxy"), ["version", "--json"]))
        #expect(with["libcurl"] is String)
        #expect(without.keys.sorted() == with.keys.filter { $0 != "libcurl" }.sorted())
    }
}
