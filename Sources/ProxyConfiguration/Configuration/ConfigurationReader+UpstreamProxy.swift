// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ServerTrust
import SessionCore
import StrictJSON

/// Reads `upstreamProxy`: a URL, or an object with a URL and the place of the credentials. Messages never repeat a
/// value, because it may contain a password.
extension ConfigurationReader {
    enum UpstreamProxyChoice {
        case direct
        case proxy(UpstreamProxyConfiguration)
    }

    /// - Returns: nil when it cannot be read; an issue has the reason.
    mutating func readUpstreamProxy(_ element: DocumentElement) -> UpstreamProxyChoice? {
        switch element.value.content {
        case .null:
            return .direct
        case .string("none"):
            return .direct
        case .object:
            return element.object().flatMap { readUpstreamProxy($0) }
        default:
            guard let proxy = Self.parse(element) else { return nil }
            upstreamProxies.append(Placed(value: proxy, element: element))
            return .proxy(proxy)
        }
    }

    private mutating func readUpstreamProxy(_ object: DocumentObject) -> UpstreamProxyChoice? {
        comment(object)
        let element = object.required("url")
        let file = object["credentialsFile"]
        let variable = object["credentialsEnvironment"]
        object.finish()
        guard let element, var proxy = Self.parse(element) else { return nil }
        let sources = [file, variable].compactMap { $0 }
        if sources.count > 1 || (proxy.credentials != nil && !sources.isEmpty) {
            sources[0].report("the credentials are said twice", remedy: "leave one place for them")
            return nil
        }
        if let file {
            guard let path = file.path() else { return nil }
            switch FileContents.read(path, limit: 4096) {
            case .success(let bytes): proxy.credentials = Self.credentials(bytes, file, "the file")
            case .failure(let fault): file.report(fault.message, remedy: fault.remedy)
            }
            guard proxy.credentials != nil else { return nil }
        } else if let variable {
            guard let name = variable.string() else { return nil }
            guard let value = variables.value(name) else {
                variable.report(
                    "there is no such environment variable",
                    remedy: "set it to user:password, or take the key out"
                )
                return nil
            }
            proxy.credentials = Self.credentials(value, variable, "the variable")
            guard proxy.credentials != nil else { return nil }
        }
        upstreamProxies.append(Placed(value: proxy, element: element))
        return .proxy(proxy)
    }

    /// Reads `user:password`, with or without a newline at the end.
    private static func credentials(
        _ bytes: [UInt8],
        _ element: DocumentElement,
        _ what: String
    ) -> UpstreamProxyConfiguration.Credentials? {
        var bytes = bytes
        while let last = bytes.last, last == 10 || last == 13 { bytes.removeLast() }
        guard let text = String(validating: bytes, as: UTF8.self), let colon = text.firstIndex(of: ":"),
            colon != text.startIndex, !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F })
        else {
            element.report("\(what) does not hold credentials", remedy: "let it hold one line, user:password")
            return nil
        }
        return .init(user: String(text[..<colon]), password: String(text[colon...].dropFirst()))
    }

    /// `http://user:password@host:port`, the same with `https`, `socks5h://host:port`.
    private static func parse(_ element: DocumentElement) -> UpstreamProxyConfiguration? {
        guard let text = element.string() else { return nil }
        let example = "http://proxy.example:3128, https://proxy.example:3129 or socks5h://proxy.example:1080"
        func refuse(_ message: String, _ remedy: String) -> UpstreamProxyConfiguration? {
            element.report(message, remedy: remedy)
            return nil
        }
        guard let schemeEnd = text.firstRange(of: "://") else {
            return refuse("not the URL of a proxy", "write \(example)")
        }
        let kind: UpstreamProxyConfiguration.Kind
        switch text[..<schemeEnd.lowerBound].lowercased() {
        case "http": kind = .http
        case "https": kind = .https
        case "socks5h":
            if let fault = SOCKSLibrary.load() { return refuse(fault, SOCKSLibrary.remedy) }
            kind = .socks5h
        case "socks5":
            return refuse("names would be looked up here and not by the proxy", "write socks5h://…")
        default:
            return refuse("neither an HTTP nor a SOCKS 5 proxy", "write \(example)")
        }
        var rest = text[schemeEnd.upperBound...]
        if rest.last == "/" { rest.removeLast() }
        guard !rest.contains(where: { "/?#\\".contains($0) }) else {
            return refuse(
                "more than scheme, credentials, host and port",
                "write \(example); in credentials %2F stands for a slash, and other signs likewise"
            )
        }
        var credentials: UpstreamProxyConfiguration.Credentials?
        if let at = rest.lastIndex(of: "@") {
            let userinfo = rest[..<at]
            rest = rest[at...].dropFirst()
            let parts = userinfo.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let user = decoded(parts[0]), let password = decoded(parts[1]), !user.isEmpty,
                !user.contains(":")
            else {
                return refuse(
                    "credentials that cannot be read",
                    "write user:password@ with %25 for a percent sign, or name a credentialsFile"
                )
            }
            credentials = .init(user: user, password: password)
        }
        let literalEnd = rest.hasPrefix("[") ? rest.firstIndex(of: "]") ?? rest.endIndex : rest.startIndex
        guard let colon = rest[literalEnd...].lastIndex(of: ":"),
            let port = AddressAndPort.port(Array(rest[colon...].dropFirst().utf8)[...]), port != 0
        else { return refuse("the proxy's port is missing", "write it: \(example)") }
        guard let host = HostName.read(String(rest[..<colon]), on: element) else { return nil }
        return UpstreamProxyConfiguration(kind: kind, host: host, port: port, credentials: credentials)
    }

    /// Decodes percent-encoding; nil for text that is not UTF-8 or contains control characters.
    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let upper = rest.popFirst().flatMap({ ASCII.hexadecimalValue($0) }),
                let lower = rest.popFirst().flatMap({ ASCII.hexadecimalValue($0) })
            else { return nil }
            bytes.append(UInt8(upper) << 4 | UInt8(lower))
        }
        guard !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
