// SPDX-License-Identifier: Apache-2.0
package import Foundation

/// A folder of its own for one test, with files in it; gone when the test is over.
package final class ConfigurationFolder {
    package let url: URL

    package init(_ files: [String: String] = [:]) throws {
        url = FileManager.default.temporaryDirectory
            .appendingPathComponent("pinproxy-configuration-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        for (name, text) in files { try write(name, text) }
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    package func path(_ name: String) -> String { url.appendingPathComponent(name).path }

    package func write(_ name: String, _ text: String) throws {
        let file = url.appendingPathComponent(name)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try Data(text.utf8).write(to: file)
    }

    package func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(
            at: url.appendingPathComponent(name),
            withIntermediateDirectories: true
        )
    }
}

/// A good pin file for one domain.
package func pinFile(_ domain: String, members: String = "") -> String {
    """
    { "version": 1, "pinnedDomains": { "\(domain)": {
      "pinningMode": "publicKey",\(members)
      "pins": [
        { "spki-sha256": "63LDVBzj6umZKwz1BpUM6YqEg6apfcsRHlVH8DoXWNM=" },
        { "spki-sha256": "oYBO6E4ngUgFopw2s9p8K9VaXkCbisp7rLkunEq7Ako=", "backup": true }
      ]
    } } }
    """
}
