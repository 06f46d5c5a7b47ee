// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    /// - Parameter ofHost: false for the defaults, which apply to any host and so must not send secrets.
    func readHeaders(_ object: DocumentObject, ofHost: Bool) -> HeaderRules {
        comment(object)
        var headers = HeaderRules()
        if let object = object.object("request") {
            headers.request = readChanges(object)
            if !ofHost { refuseCredentials(headers.request, object) }
        }
        if let object = object.object("response") { headers.response = readChanges(object) }
        object.finish()
        return headers
    }

    private func readChanges(_ object: DocumentObject) -> FieldChanges {
        comment(object)
        var changes = FieldChanges()
        if let object = object.object("set") { readFields(object, into: &changes, adds: false) }
        if let object = object.object("add") { readFields(object, into: &changes, adds: true) }
        for element in object.elements("remove") ?? [] { readRemoval(element, into: &changes) }
        object.finish()
        return changes
    }

    private func refuseCredentials(_ changes: FieldChanges, _ object: DocumentObject) {
        guard changes.givesCredentials else { return }
        object.element.report(
            "every host without an entry of its own would be sent these credentials",
            remedy: "say it in the entry of the host that they are for; Authorization, Cookie and values from the "
                + "environment or a file do not belong into defaults"
        )
    }

    /// Reads names with their values.
    func readFields(_ object: DocumentObject, into changes: inout FieldChanges, adds: Bool) {
        var seen: Set<String> = []
        for (name, element) in object.entries {
            _ = object[name]
            guard fieldName(name, element) else { continue }
            if !seen.insert(name.lowercased()).inserted {
                element.report("the field stands here twice", remedy: "take one out; case makes no difference")
                continue
            }
            guard let (value, source) = readFieldValue(element) else { continue }
            if adds { changes.add(name, value, from: source) } else { changes.set(name, value, from: source) }
        }
    }

    func readRemoval(_ element: DocumentElement, into changes: inout FieldChanges) {
        if let name = element.string(), fieldName(name, element) { changes.remove(name) }
    }

    /// Whether a field of that name may be changed.
    func fieldName(_ name: String, _ element: DocumentElement) -> Bool {
        let bytes = Array(name.utf8)
        guard HeaderFields.isValidName(bytes.span) else {
            element.report("not a field name", remedy: "write letters, digits and hyphens, as in \"X-Request-Source\"")
            return false
        }
        let isOurs: Bool
        // Its twins would be removed with it.
        let hyphenated = bytes.map(CGIName.folded)
        switch FieldName(hyphenated.span) {
        case .host, .connection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade, .via, .expect, .maxForwards,
            .http2Settings, .underscoredTransferEncoding, .underscoredContentLength, .contentLength:
            isOurs = true
        default:
            isOurs = hyphenated.span.hasPrefixIgnoringCase("proxy-")
        }
        guard isOurs else { return true }
        element.report(
            "\(name) belongs to the connection, the framing or the route, and is made by pinproxy alone",
            remedy: "take it out"
        )
        return false
    }

    /// Reads a string, `{ "env": NAME }` or `{ "file": PATH }`. No issue ever shows the value.
    private func readFieldValue(_ element: DocumentElement) -> (value: [UInt8], source: FieldChanges.Source)? {
        if case .string(let text) = element.value.content {
            return fieldValue(Array(text.utf8), element, "the value").map { ($0, .literal) }
        }
        guard case .object = element.value.content, let object = element.object() else {
            element.report(
                "must be a string or an object",
                remedy: "write the value, { \"env\": \"NAME\" } or { \"file\": \"PATH\" }"
            )
            return nil
        }
        comment(object)
        let prefix = object.string("prefix") ?? ""
        let environment = object["env"]
        let file = object["file"]
        object.finish()
        guard (environment == nil) != (file == nil) else {
            element.report("one of \"env\" and \"file\" has to be there", remedy: "say where the value comes from")
            return nil
        }
        let found: [UInt8]
        let source: FieldChanges.Source
        if let environment {
            guard let name = environment.string() else { return nil }
            guard let value = variables.value(name), !value.isEmpty else {
                environment.report("the variable is not set, or is empty", remedy: "set it, and start pinproxy anew")
                return nil
            }
            (found, source) = (value, .environment(name))
        } else {
            guard let file, let path = file.path() else { return nil }
            switch FileContents.read(path, limit: 64 << 10) {
            case .failure(let fault):
                file.report("\(path): \(fault.message)", remedy: fault.remedy)
                return nil
            case .success(let bytes):
                (found, source) = (Self.withoutNewline(bytes), .file(path))
                if found.isEmpty {
                    file.report("\(path) is empty", remedy: "write the value into it")
                    return nil
                }
            }
        }
        return fieldValue(Array(prefix.utf8) + found, element, "what it names").map { ($0, source) }
    }

    /// Removes one newline at the end, as editors and `echo` write it.
    private static func withoutNewline(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.last == UInt8(ascii: "\n") else { return bytes }
        let line = bytes.dropLast()
        return Array(line.last == UInt8(ascii: "\r") ? line.dropLast() : line)
    }

    /// The value, if it is a valid field value.
    func fieldValue(_ value: [UInt8], _ element: DocumentElement, _ what: String) -> [UInt8]? {
        if HeaderFields.isValidValue(value.span) { return value }
        element.report(
            "\(what) holds a line break or another control character, or white space at an end: no field can",
            remedy: "write one line"
        )
        return nil
    }
}
