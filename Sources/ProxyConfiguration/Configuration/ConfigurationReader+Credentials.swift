// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON

// `credentials`: what pinproxy writes into requests that a rule allows. No issue ever shows a value.

extension ConfigurationReader {
    mutating func readCredentials(_ object: DocumentObject) {
        for (name, element) in object.entries {
            _ = object[name]
            credentialNames.insert(name)
            let isNamed = Self.isIdentifier(name)
            if !isNamed {
                element.report(
                    "\"\(LegibleText.excerpt(name))\" is not a name for a credential",
                    remedy: "write 1 to 64 letters, digits, \"-\", \".\" or \"_\": log and metrics show it"
                )
            }
            guard let object = element.object() else { continue }
            guard let definition = readCredential(object, name), isNamed else { continue }
            configuration.credentials.append(definition)
            credentials.append(Placed(value: definition, element: element))
        }
    }

    /// Letters, digits and some signs, which need no quotes anywhere.
    static func isIdentifier(_ text: String) -> Bool {
        let isValid = text.utf8.allSatisfy { ASCII.isUnreserved($0) && $0 != UInt8(ascii: "~") }
        return isValid && (1...64).contains(text.utf8.count)
    }

    private mutating func readCredential(_ object: DocumentObject, _ name: String) -> CredentialDefinition? {
        comment(object)
        let source = readSource(object)
        var definition = CredentialDefinition(name: name, source: source ?? .env(name: ""))
        let isSigned = if case .awsSigV4? = source { true } else { false }
        if let element = object["header"], let text = element.string(), fieldName(text, element) {
            definition.header = text
            if isSigned {
                element.report("a signature is in Authorization", remedy: "take \"header\" out")
            }
        }
        let isAuthorization = FieldName(Array(definition.header.utf8).span) == .authorization
        if !isAuthorization { definition.prefix = "" }
        readBasicUser(object, into: &definition, isAuthorization: isAuthorization, isSigned: isSigned)
        if let element = object["prefix"], let text = element.string() {
            if definition.basicUser != nil || isSigned {
                element.report(
                    isSigned
                        ? "a signature has its own form" : "\"basicUser\" says already what stands before the value",
                    remedy: "take \"prefix\" out"
                )
            } else if Self.isPrefix(text) {
                definition.prefix = text
            } else {
                element.report(
                    "no field begins like this",
                    remedy:
                        "write visible ASCII characters, and a space at the end where the scheme has one: \"Token \""
                )
            }
        }
        if let element = object["ttl"] { definition.ttl = element.duration() }
        if let element = object["placeholder"], let text = element.string() {
            if Self.isVisible(text) {
                definition.placeholder = text
            } else {
                element.report(
                    "the placeholder is empty, or no client can send it",
                    remedy: "write visible ASCII characters, as the program has them in place of its key"
                )
            }
        }
        if let flag = object.bool("allowUnpinned") { definition.allowUnpinned = flag }
        object.finish { key in
            switch key {
            case "field": "did you mean \"header\"?"
            case "refresh": "did you mean \"ttl\"?"
            case "clientSecretFile", "clientID", "tokenURL", "scopes", "secretIn", "parameters":
                "move it into \"oauth2\""
            case "region", "service": "move it into \"awsSigV4\""
            case "value", "token", "key":
                "the value does not belong into this file: name a \"file\", a variable (\"env\") or a \"command\""
            default: nil
            }
        }
        return source == nil ? nil : definition
    }

    private func readBasicUser(
        _ object: DocumentObject,
        into definition: inout CredentialDefinition,
        isAuthorization: Bool,
        isSigned: Bool
    ) {
        guard let element = object["basicUser"], let text = element.string() else { return }
        definition.basicUser = text
        definition.prefix = ""
        if isSigned {
            element.report("a signature has no user", remedy: "take \"basicUser\" out")
        } else if !isAuthorization {
            element.report("Basic authentication is in Authorization", remedy: "take \"header\" out")
        }
        // RFC 7617, section 2: the first colon ends the user.
        let isUser = !text.isEmpty && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: ":") }
        if !isUser {
            element.report(
                "not a user of Basic authentication",
                remedy: "write a name without a colon; for git, the server's documents say which goes with a token"
            )
        }
    }

    /// What a field value begins with: no white space in front.
    private static func isPrefix(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } && text.utf8.first != UInt8(ascii: " ")
    }

    private static func isVisible(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } && text.utf8.first != UInt8(ascii: " ")
            && text.utf8.last != UInt8(ascii: " ")
    }

    // MARK: Sources

    private static let sources = ["file", "env", "command", "oauth2", "awsSigV4"]

    private func readSource(_ object: DocumentObject) -> CredentialSource? {
        var found: [CredentialSource] = []
        var count = 0
        for key in Self.sources {
            guard let element = object[key] else { continue }
            count += 1
            let source: CredentialSource? =
                switch key {
                case "file": element.path().map { .file(path: $0) }
                case "env": readVariable(element).map { .env(name: $0) }
                case "command": readCommand(element).map { .command($0) }
                case "oauth2": element.object().flatMap { readOAuthClient($0) }.map { .oauth2($0) }
                default: element.object().flatMap { readAWSSource($0) }.map { .awsSigV4($0) }
                }
            if let source { found.append(source) }
        }
        if count != 1 {
            let listed = Self.sources.map { "\"\($0)\"" }.joined(separator: ", ")
            object.element.report(
                count == 0 ? "the value comes from nowhere" : "the value comes from \(count) sources",
                remedy: "write exactly one of \(listed)"
            )
            return nil
        }
        return found.first
    }

    private func readVariable(_ element: DocumentElement) -> String? {
        guard let name = element.string() else { return nil }
        guard !name.isEmpty, !name.utf8.contains(0), !name.utf8.contains(UInt8(ascii: "=")) else {
            element.report("not the name of a variable", remedy: "write the name alone, as in \"API_KEY\"")
            return nil
        }
        variables.note(name)
        return name
    }

    private func readCommand(_ element: DocumentElement) -> [String]? {
        guard let words = element.strings() else { return nil }
        guard let program = words.first, program.hasPrefix("/") else {
            element.report(
                words.isEmpty ? "an empty list" : "the program has no absolute path",
                remedy:
                    "write the program's absolute path, then its arguments, each as a string of its own; there is no shell"
            )
            return nil
        }
        guard !words.contains(where: { $0.utf8.contains(0) }) else {
            element.report("an argument holds a zero byte", remedy: "take it out")
            return nil
        }
        return words
    }

    private func readOAuthClient(_ object: DocumentObject) -> OAuthClient? {
        comment(object)
        let url = object.required("tokenURL").flatMap { readTokenURL($0) }
        let identifier = object.required("clientID")?.string()
        let file = object.required("clientSecretFile")?.path()
        var client: OAuthClient?
        if let url, let identifier, let file {
            client = OAuthClient(tokenURL: url, clientID: identifier, clientSecretFile: file)
        }
        if identifier?.isEmpty == true { object["clientID"]?.report("the client has no name", remedy: "write its ID") }
        if let elements = object.elements("scopes") { client?.scopes = elements.compactMap { readScope($0) } }
        if let place = object["secretIn"]?.choice(OAuthClient.SecretPlace.self) { client?.secretIn = place }
        if let parameters = object.object("parameters") {
            for (name, element) in parameters.entries {
                _ = parameters[name]
                if ["grant_type", "client_id", "client_secret", "scope"].contains(name) {
                    element.report("\(name) is made by pinproxy", remedy: "take it out")
                }
                guard let value = element.string() else { continue }
                client?.parameters.append(OAuthClient.Parameter(name: name, value: value))
            }
            parameters.finish()
        }
        object.finish()
        return client
    }

    private func readTokenURL(_ element: DocumentElement) -> AbsoluteURL? {
        guard let text = element.string() else { return nil }
        guard let url = AbsoluteURL(text), url.origin.scheme == .https, !url.rest.contains(UInt8(ascii: "#")) else {
            element.report(
                "not an https URL without fragment: the client's secret goes there",
                remedy: "write \"https://…\", as the documents of the server name it"
            )
            return nil
        }
        return url
    }

    /// RFC 6749, section 3.3.
    private func readScope(_ element: DocumentElement) -> String? {
        guard let text = element.string() else { return nil }
        let isScope = text.utf8.allSatisfy {
            $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        guard !text.isEmpty, isScope else {
            element.report("not a scope", remedy: "write each scope as a string of its own, without spaces")
            return nil
        }
        return text
    }

    private func readAWSSource(_ object: DocumentObject) -> AWSSource? {
        comment(object)
        let region = object.required("region").flatMap { readScopePart($0, "eu-central-1") }
        let service = object.required("service").flatMap { readScopePart($0, "s3") }
        let file = object["file"]
        let command = object["command"]
        object.finish { key in
            ["accessKeyId", "secretAccessKey", "sessionToken"].contains(key)
                ? "keys do not belong into this file: name a \"file\" or a \"command\" that has them" : nil
        }
        guard (file == nil) != (command == nil) else {
            object.element.report(
                "one of \"file\" and \"command\" has to be there",
                remedy: "name what has the keys in the JSON of AWS's credential_process"
            )
            return nil
        }
        let keys: AWSSource.Keys? =
            if let file { file.path().map { .file(path: $0) } } else {
                command.flatMap { readCommand($0) }.map { .command($0) }
            }
        guard let region, let service, let keys else { return nil }
        return AWSSource(scope: AWSScope(region: region, service: service), keys: keys)
    }

    private func readScopePart(_ element: DocumentElement, _ example: String) -> String? {
        guard let text = element.string() else { return nil }
        let isPart = text.utf8.allSatisfy { ASCII.isLetter($0) || ASCII.isDigit($0) || $0 == UInt8(ascii: "-") }
        guard !text.isEmpty, isPart else {
            element.report("not a part of a signature's scope", remedy: "write it as AWS does, as in \"\(example)\"")
            return nil
        }
        return text
    }

    // MARK: Rules

    /// Reads the `credential` of a rule, one name or several.
    func readRuleCredentials(_ element: DocumentElement, _ rule: RequestRule) -> [Placed<String>] {
        if case .array(let values) = element.value.content, values.isEmpty {
            element.report("an empty list", remedy: "name a credential, or take the key out")
            return []
        }
        var names: [Placed<String>] = []
        for element in element.oneOrMore() {
            guard let name = element.string() else { continue }
            if names.contains(where: { $0.value == name }) {
                element.report("the credential stands here twice", remedy: "take one out")
            } else {
                names.append(Placed(value: name, element: element))
            }
        }
        if rule.action == .deny {
            element.report("a rule that denies sends nothing", remedy: "take \"credential\" out, or write \"allow\"")
        }
        if rule.hosts.isEmpty || rule.hosts.contains(.any) {
            element.report(
                "one credential would be sent to every host",
                remedy: "write \"host\" with the hosts that it is for, and without \"*\""
            )
        }
        return names
    }

    /// Checks `credentials` together with what uses them.
    func checkCredentials() {
        for use in credentialUses { check(use) }
        for credential in credentials {
            let name = credential.value.name
            if !credentialUses.contains(where: { $0.names.contains { $0.value == name } }) {
                credential.element.warn(
                    "no rule of \"requests\" names the credential \"\(name)\"",
                    remedy: "name it in a rule: \"credential\": \"\(name)\""
                )
            }
        }
        checkWhoAsks()
    }

    private func check(_ use: CredentialUse) {
        var headers: [String: String] = [:]
        for name in use.names {
            guard let definition = credentials.first(where: { $0.value.name == name.value })?.value else {
                // One that could not be read has its issue already.
                guard !credentialNames.contains(name.value) else { continue }
                let known = credentials.map { "\"\($0.value.name)\"" }.joined(separator: ", ")
                name.element.report(
                    "there is no credential \"\(LegibleText.excerpt(name.value))\"",
                    remedy: known.isEmpty
                        ? "define it in \"credentials\"" : "define it in \"credentials\", or name one of \(known)"
                )
                continue
            }
            let header = Self.folded(definition.header)
            checkIdentity(header, definition, name.element)
            if let other = headers.updateValue(definition.name, forKey: header) {
                name.element.report(
                    "\"\(other)\" is in the field \(definition.header), too, and one request can have one of them",
                    remedy: "write a rule for each"
                )
            }
            for case .exactly(let host) in use.rule.value.hosts { check(host, definition, use) }
        }
    }

    private func check(_ host: Host, _ definition: CredentialDefinition, _ use: CredentialUse) {
        guard let entry = configuration.hosts.first(where: { $0.host == host }) else { return }
        let changes = entry.headers.request
        if (changes.set + changes.added).contains(where: { Self.folded($0.name) == Self.folded(definition.header) }) {
            use.rule.element.report(
                "the credential \"\(definition.name)\" and the \"headers\" of \(host) both write \(definition.header)",
                remedy: "take the field out of \"headers\""
            )
        }
        if entry.connect == .tunnel {
            use.rule.element.report(
                "the requests to \(host) are not seen, and get no credential: its entry says \"connect\": \"tunnel\"",
                remedy: "write \"intercept\" there, or take \"credential\" out of the rule"
            )
        }
    }

    /// The fields of traces and ids have the client's values.
    private func checkIdentity(_ header: String, _ definition: CredentialDefinition, _ element: DocumentElement) {
        var fields = configuration.tracing == nil ? [] : ["traceparent", "tracestate"]
        if let field = configuration.requestID?.field { fields.append(field) }
        guard fields.contains(where: { Self.folded($0) == header }) else { return }
        element.report(
            "the credential \"\(definition.name)\" is in the field \(definition.header), which \"tracing\" or \"requestID\" writes",
            remedy: "name another field in \"requestID\", or in the credential"
        )
    }

    /// Servers behind CGI cannot tell a hyphen from other punctuation.
    static func folded(_ name: String) -> String {
        String(decoding: name.utf8.map(CGIName.folded), as: UTF8.self)
    }

    /// Whoever reaches a listener at which nobody has to say who it is can use what rules without `user` give.
    private func checkWhoAsks() {
        let open = credentialUses.filter { $0.rule.value.users.isEmpty && !$0.names.isEmpty }
        let listeners =
            self.listeners.isEmpty
            ? configuration.listeners.map { (value: $0, element: DocumentElement?.none) }
            : self.listeners.map { (value: $0.value, element: DocumentElement?.some($0.element)) }
        for listener in listeners where configuration.authentication(of: listener.value) == nil {
            // The permissions of its folder say who may open a Unix socket; a certificate is asked for in TLS.
            guard case .address = listener.value.endpoint, listener.value.tls?.clientCA == nil else { continue }
            let use = open.first { use in
                guard let upstream = listener.value.upstream else { return true }
                return HostPatternSet(use.rule.value.hosts).contains(upstream.host)
            }
            guard let use else { continue }
            if listener.value.allowRemoteClients, let element = listener.element {
                element.report(
                    "every machine that reaches this listener can use the credentials of the rule \"\(use.rule.value.id)\"",
                    remedy: "let the listener have \"authentication\", or the rule a \"user\""
                )
            } else {
                use.rule.element.warn(
                    "every program that reaches \(listener.value.endpoint) can use the credentials of this rule",
                    remedy: "let the listener have \"authentication\""
                )
            }
        }
    }
}
