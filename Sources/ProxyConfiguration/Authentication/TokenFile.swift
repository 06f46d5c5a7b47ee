// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// A file of bearer tokens, one `name:digest` on each line; the digest is the token's SHA-256 in hexadecimal.
///
/// Tokens are random and long (as `openssl rand -hex 32` makes them), so a fast digest protects them as well as a slow
/// one.
package struct TokenFile: Sendable {
    private var tokens: [(name: [UInt8], digest: [UInt8])] = []

    init(_ bytes: [UInt8]) throws(PasswordFile.Fault) {
        let remedy = "write NAME:DIGEST, where DIGEST is of printf %s TOKEN | openssl dgst -sha256 -r"
        var digests: Set<[UInt8]> = []
        for (number, line) in SecretLines(bytes) {
            guard let colon = line.lastIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                SecretLines.isName(Array(line[..<colon])),
                let digest = Self.digest(Array(line[(colon + 1)...]))
            else {
                throw PasswordFile.Fault(
                    line: number,
                    message: "not a name in UTF-8 and a SHA-256 digest",
                    remedy: remedy
                )
            }
            let name = Array(line[..<colon])
            if let fault = SecretLines.collision(of: name, on: number) { throw fault }
            guard digests.insert(digest).inserted else {
                throw PasswordFile.Fault(
                    line: number,
                    message: "a token for the second time",
                    remedy: "leave one of the lines"
                )
            }
            tokens.append((name, digest))
        }
        guard !tokens.isEmpty else { throw PasswordFile.Fault(line: 0, message: "no token in it", remedy: remedy) }
    }

    private static func digest(_ text: [UInt8]) -> [UInt8]? {
        guard text.count == 64 else { return nil }
        var digest: [UInt8] = []
        for place in stride(from: 0, to: 64, by: 2) {
            guard let upper = ASCII.hexadecimalValue(text[place]), let lower = ASCII.hexadecimalValue(text[place + 1])
            else { return nil }
            digest.append(UInt8(upper) << 4 | UInt8(lower))
        }
        return digest
    }

    /// The digests of that name's tokens, in the order of the file.
    func digests(of name: [UInt8]) -> [[UInt8]] { tokens.filter { $0.name == name }.map(\.digest) }

    /// The name of a token's owner. Compares with every token, so that the time does not depend on the match.
    package func name(of token: [UInt8]) -> [UInt8]? {
        let digest = SecretDigest.sha256(token)
        var found: [UInt8]?
        for entry in tokens where SecretDigest.areEqual(entry.digest, digest) { found = entry.name }
        return found
    }
}
