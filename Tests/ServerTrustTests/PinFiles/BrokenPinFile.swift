// SPDX-License-Identifier: Apache-2.0
import Testing

/// A pin file with one error, the expected place of the issue, and the same file with the error corrected.
struct BrokenPinFile: CustomTestStringConvertible, Sendable {
    var name: String
    var broken: String
    var mended: String
    var pointer: String
    var message: String
    var remedy: String

    var testDescription: String { name }

    /// A whole file.
    static func file(
        _ name: String,
        _ broken: String,
        mended: String,
        at pointer: String,
        _ message: String,
        _ remedy: String = ""
    ) -> BrokenPinFile {
        .init(name: name, broken: broken, mended: mended, pointer: pointer, message: message, remedy: remedy)
    }

    /// The body of one domain, `api.example.com`.
    static func domain(
        _ name: String,
        _ broken: String,
        mended: String,
        at pointer: String,
        _ message: String,
        _ remedy: String = ""
    ) -> BrokenPinFile {
        func whole(_ body: String) -> String {
            "{ \"version\": 1, \"pinnedDomains\": { \"api.example.com\": { \(body) } } }"
        }
        return .file(
            name,
            whole(broken),
            mended: whole(mended),
            at: "/pinnedDomains/api.example.com" + pointer,
            message,
            remedy
        )
    }

    /// One domain by the given name, in mode `none`.
    static func name(
        _ name: String,
        _ broken: String,
        mended: String,
        extra: String = "",
        at pointer: String? = nil,
        _ message: String,
        _ remedy: String = ""
    ) -> BrokenPinFile {
        func whole(_ domain: String) -> String {
            "{ \"version\": 1, \"pinnedDomains\": { \"\(domain)\": { \"pinningMode\": \"none\" \(extra) } } }"
        }
        return .file(
            name,
            whole(broken),
            mended: whole(mended),
            at: pointer ?? "/pinnedDomains/" + broken.replacing("/", with: "~1"),
            message,
            remedy
        )
    }
}
