// SPDX-License-Identifier: Apache-2.0
import CShims
import HTTPCore
import ServerTrust
import StrictJSON

/// A file of users and hashed passwords, one `user:hash` on each line, as `htpasswd -B` and `mkpasswd` make them.
package struct PasswordFile: Sendable {
    /// By user.
    package private(set) var hashes: [[UInt8]: String] = [:]
    /// In the order of the file.
    private(set) var users: [[UInt8]] = []

    /// A fault of a file.
    struct Fault: Error, Equatable {
        var line: Int
        var message: String
        var remedy: String
    }

    /// The prefixes of those crypt(5) hashes that are expensive to guess.
    private static let prefixes = ["$2y$", "$2b$", "$6$", "$y$"]
    /// Each step doubles the time; 15 takes seconds.
    private static let greatestBcryptCost = 15
    private static let mostRounds = 5_000_000

    init(_ bytes: [UInt8]) throws(Fault) {
        for (number, line) in SecretLines(bytes) {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex else {
                throw Fault(line: number, message: "not a user and a hash", remedy: "write user:hash, one a line")
            }
            let user = Array(line[..<colon])
            guard SecretLines.isName(user) else {
                throw Fault(
                    line: number,
                    message: "a user that is not UTF-8, or has a control character",
                    remedy: "write the name in UTF-8"
                )
            }
            if let fault = SecretLines.collision(of: user, on: number) { throw fault }
            guard hashes[user] == nil else {
                throw Fault(line: number, message: "a user for the second time", remedy: "leave one of the lines")
            }
            hashes[user] = try Self.hash(line[(colon + 1)...], number)
            users.append(user)
        }
        guard !users.isEmpty else {
            throw Fault(line: 0, message: "no user in it", remedy: "add one: htpasswd -B -c FILE USER")
        }
    }

    private static func hash(_ bytes: ArraySlice<UInt8>, _ number: Int) throws(Fault) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        // An unknown prefix is not repeated in the message, because it may be the password itself.
        guard let prefix = prefixes.first(where: { text.hasPrefix($0) }) else {
            throw Fault(
                line: number,
                message: "a password that is not hashed, or in a way that does not protect it",
                remedy: "make it anew with bcrypt, SHA-512 or yescrypt: htpasswd -B FILE USER"
            )
        }
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }),
            pinproxy_password_hash_is_known(text), text.utf8.count > prefix.utf8.count + 20
        else {
            throw Fault(line: number, message: "a damaged hash", remedy: "make it anew: htpasswd -B FILE USER")
        }
        let rest = text.dropFirst(prefix.count)
        if prefix.hasPrefix("$2"), let cost = Int(rest.prefix(2)), cost > greatestBcryptCost {
            throw Fault(
                line: number,
                message: "a bcrypt cost of \(cost), which takes too long for each look",
                remedy: "make it anew with a cost of 10 to \(greatestBcryptCost)"
            )
        }
        if prefix == "$6$", rest.hasPrefix("rounds="), Int(rest.dropFirst(7).prefix { $0 != "$" }) ?? 0 > mostRounds {
            throw Fault(
                line: number,
                message: "more than \(mostRounds) rounds, which take too long for each look",
                remedy: "make it anew with fewer"
            )
        }
        return text
    }

    /// A hash for an unknown user, so that its verification takes as long as a known user's.
    package func stand(inFor user: [UInt8]) -> String {
        // The same name always gets the same hash: if the hashes differ in cost, repeated attempts show nothing.
        let number = user.reduce(5381) { ($0 &* 33) ^ UInt64($1) } % UInt64(users.count)
        return hashes[users[Int(number)]] ?? ""
    }
}

/// The lines of a file of secrets, with their numbers from 1. Empty lines and comments (`#`) are left out, and carriage
/// returns are removed.
struct SecretLines: Sequence {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Whether bytes can be the name of a user, which goes into the task log: UTF-8 (RFC 7617, section 2.1) without
    /// control characters.
    static func isName(_ bytes: [UInt8]) -> Bool {
        guard !bytes.isEmpty, let text = String(validating: bytes, as: UTF8.self) else { return false }
        return text.unicodeScalars.allSatisfy { !$0.disturbsLine }
    }

    /// The fault of a name that a client could also have from elsewhere: a process by its user, a certificate by its names. What
    /// is said of one, or of all of a kind, would then hold for the other, too.
    static func collision(of name: [UInt8], on line: Int) -> PasswordFile.Fault? {
        let attribute = name.prefix { ASCII.isLetter($0) || ASCII.isDigit($0) || $0 == UInt8(ascii: ".") }
        let kind: String
        if name.starts(with: "uid ".utf8) {
            kind = "uid …, which names processes of this machine (unixPeers, localUsers)"
        } else if name.starts(with: SPIFFEID.prefix.utf8) {
            kind = "\(SPIFFEID.prefix), which names clients by their certificates"
        } else if !attribute.isEmpty, name.dropFirst(attribute.count).starts(with: " = ".utf8) {
            let text = String(decoding: attribute, as: UTF8.self)
            kind = "\(text) = …, which is the subject of a client's certificate"
        } else {
            return nil
        }
        return PasswordFile.Fault(
            line: line,
            message: "a name of the form \(kind)",
            remedy: "give the user another name"
        )
    }

    func makeIterator() -> some IteratorProtocol<(number: Int, line: ArraySlice<UInt8>)> {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        return lines.enumerated().lazy
            .map { number, line in (number: number + 1, line: line.last == 13 ? line.dropLast() : line) }
            .filter { !$0.line.isEmpty && $0.line.first != UInt8(ascii: "#") }
            .makeIterator()
    }
}
