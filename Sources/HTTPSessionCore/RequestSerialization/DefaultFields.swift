// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore

/// The fields that request serializers set by default.
enum DefaultFields {
    static func all() -> HeaderFields {
        var fields = HeaderFields()
        let languages = acceptLanguage { getenv($0).map { String(cString: $0) } }
        if let languages { fields.append(.acceptLanguage, Array(languages.utf8).span) }
        fields.append(.userAgent, Array(userAgent(program: CommandLine.arguments.first ?? "").utf8).span)
        return fields
    }

    /// The user's languages in descending preference, at most six: `de-DE;q=1, en;q=0.9`.
    ///
    /// They are read from the environment as by gettext(3): `LANGUAGE`, unless the locale is `C`, then the locale
    /// itself, which is the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that is set. nil when these name no language.
    static func acceptLanguage(environment: (String) -> String?) -> String? {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
        guard let own = languageTag(locale) else { return nil }
        let list = (environment("LANGUAGE") ?? "").split(separator: ":").compactMap { languageTag(String($0)) }
        var tags: [String] = []
        for tag in list.isEmpty ? [own] : list where !tags.contains(tag) { tags.append(tag) }
        return tags.prefix(6).enumerated()
            .map { $0 == 0 ? "\($1);q=1" : "\($1);q=0.\(10 - $0)" }
            .joined(separator: ", ")
    }

    /// Converts `de_DE.UTF-8@euro` to `de-DE`; nil for `C`, `POSIX` and names that are no language.
    private static func languageTag(_ locale: String) -> String? {
        let name = locale.prefix { $0 != "." && $0 != "@" }
        let subtags = name.split(omittingEmptySubsequences: false) { $0 == "_" || $0 == "-" }
        guard let language = subtags.first, (2...3).contains(language.utf8.count),
            language.utf8.allSatisfy(ASCII.isLetter),
            subtags.allSatisfy({ tag in
                (1...8).contains(tag.utf8.count)
                    && tag.utf8.allSatisfy { ASCII.isLetter($0) || ASCII.isDigit($0) }
            })
        else { return nil }
        return subtags.joined(separator: "-")
    }

    /// The program's name and this library's, as products (RFC 9110, section 10.1.5). It reveals nothing about the user
    /// or the host.
    static func userAgent(program: String) -> String {
        let name = program.split(separator: "/").last.map(String.init) ?? ""
        let token = name.utf8.map { ASCII.isToken($0) ? $0 : UInt8(ascii: "-") }
        let product = token.isEmpty ? "program" : String(decoding: token, as: UTF8.self)
        return "\(product) (Linux) SessionCore/0.1.0"
    }
}
