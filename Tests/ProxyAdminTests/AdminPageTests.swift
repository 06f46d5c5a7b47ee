// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyAdmin
@testable import ProxyCore

@Suite("The live page's document", .onOwnThreads)
struct AdminPageTests {
    private let text = String(decoding: AdminPage.document, as: UTF8.self)

    @Test("the page is the file of the sources, without outside resources")
    func resources() throws {
        let file = Repository.folder.appendingPathComponent("Sources/ProxyAdmin/page.html")
        #expect(try String(contentsOf: file, encoding: .utf8) == text)
        // The errors' descriptions name schemes.
        let start = try #require(text.range(of: "<dl id=\"error-list\">")),
            end = try #require(text.range(of: "</dl>", range: start.upperBound..<text.endIndex))
        let text = text.replacingCharacters(in: start.lowerBound..<end.upperBound, with: "")
        for outside in ["http:", "https:", "//cdn", "src=", "@import", "url(", "<link", "<iframe", "<form"] {
            #expect(!text.contains(outside), "\(outside)")
        }
    }

    @Test("the page describes every error in the words of docs/errors.md")
    func errors() throws {
        for code in Problem.Code.allCases {
            #expect(text.contains("<dt id=\"error-\(code.rawValue)\" "), "\(code)")
        }
        let script = Repository.folder.appendingPathComponent(".ci/page-errors").path
        let finished = try Programs.run(script, ["--check"])
        #expect(finished.exitCode == 0, "\(finished.errors)")
    }

    @Test("the script makes no markup of text from the network")
    func markup() {
        for means in [
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "createContextualFragment", "DOMParser",
            "eval(", "Function(", "javascript:", "srcdoc", "setHTML",
        ] {
            #expect(!text.contains(means), "\(means)")
        }
        // Handlers and styles in attributes are none of the script and the style whose digests count.
        #expect(text.firstMatch(of: /<[a-z][^>]* (on[a-z]+|style)=/) == nil)
    }

    @Test("the page's policy allows its own script and style alone")
    func policy() throws {
        let policy = AdminPage.contentSecurityPolicy
        for (name, directive) in [("script", "script-src"), ("style", "style-src")] {
            let pattern = try Regex("<\(name)>([\\s\\S]*?)</\(name)>")
            let all = text.matches(of: pattern)
            try #require(all.count == 1, "\(name)")
            let inside = try #require(all[0].output[1].substring)
            let digest = Base64.encode(SecretDigest.sha256(Array(inside.utf8)))
            #expect(policy.contains("\(directive) 'sha256-\(digest)';"))
        }
        for directive in [
            "default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            #expect(policy.contains(directive), "\(directive)")
        }
        #expect(!policy.contains("unsafe"))
    }
}
