// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// The live page: one document without outside resources.
enum AdminPage {
    /// The document with its media type, and the policy under which a browser shows it.
    static let document = PackageResources.page_html

    /// The value of Content-Security-Policy (www.w3.org/TR/CSP3). Only the script and the style of the document itself
    /// are used, by their digests; it connects to its own listener alone, and no other page can frame it.
    static let contentSecurityPolicy: String = {
        "default-src 'none'; script-src \(digest(of: "script")); style-src \(digest(of: "style")); connect-src 'self'; "
            + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    }()

    /// The digest of the text of the only element of that name.
    private static func digest(of name: String) -> String {
        let (start, end) = (Array("<\(name)>".utf8), Array("</\(name)>".utf8))
        guard let first = index(of: start, from: 0), let last = index(of: end, from: first) else { return "'none'" }
        let text = Array(document[(first + start.count)..<last])
        var source = Array("'sha256-".utf8)
        Base64.encode(SecretDigest.sha256(text).span, to: &source)
        return String(decoding: source, as: UTF8.self) + "'"
    }

    private static func index(of text: [UInt8], from start: Int) -> Int? {
        var index = start
        while index + text.count <= document.count {
            if document[index] == text[0], document[index..<(index + text.count)].elementsEqual(text) { return index }
            index += 1
        }
        return nil
    }
}
