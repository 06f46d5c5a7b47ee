// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Checks JSON against a JSON Schema (draft 2020-12), with those keywords alone that the schemas of this project use: another
/// one is an error, so that nothing of a schema stays unchecked.
package struct SchemaCheck {
    private let root: [String: Any]

    package struct UnknownKeyword: Error {
        package let name: String
    }

    /// - Parameter name: the name of a file in `docs/schema`.
    package init(_ name: String) throws {
        let file = Repository.folder.appendingPathComponent("docs/schema/\(name)")
        try self.init(text: [UInt8](Data(contentsOf: file)))
    }

    package init(text: [UInt8]) throws {
        root = try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any] ?? [:]
    }

    /// - Returns: what of the document the schema does not allow, each with its JSON pointer.
    package func issues(of document: [UInt8]) throws -> [String] {
        try issues(JSONSerialization.jsonObject(with: Data(document), options: .fragmentsAllowed), root, "")
    }

    private func issues(_ value: Any, _ schema: [String: Any], _ place: String) throws -> [String] {
        var found: [String] = []
        for (keyword, rule) in schema {
            let isKept: Bool
            switch (keyword, rule) {
            case ("$schema", _), ("$id", _), ("title", _), ("description", _), ("$defs", _): continue
            case ("$ref", let path as String):
                let name = path.split(separator: "/").last.map(String.init) ?? ""
                guard let definition = (root["$defs"] as? [String: Any])?[name] as? [String: Any] else {
                    throw UnknownKeyword(name: path)
                }
                found += try issues(value, definition, place)
                continue
            case ("type", let type as String): isKept = Self.isOf(type, value)
            case ("enum", let all as [Any]): isKept = all.contains { Self.areEqual($0, value) }
            case ("const", _): isKept = Self.areEqual(rule, value)
            case ("minimum", let bound as NSNumber):
                isKept = (value as? NSNumber).map { $0.doubleValue >= bound.doubleValue } ?? true
            case ("maximum", let bound as NSNumber):
                isKept = (value as? NSNumber).map { $0.doubleValue <= bound.doubleValue } ?? true
            case ("minItems", let bound as Int): isKept = (value as? [Any]).map { $0.count >= bound } ?? true
            case ("pattern", let pattern as String):
                isKept = (value as? String).map { $0.range(of: pattern, options: .regularExpression) != nil } ?? true
            case ("format", let format as String):
                isKept = (value as? String).map { Self.isOf(format: format, $0) } ?? true
            case ("required", let names as [String]):
                let object = value as? [String: Any]
                isKept = names.allSatisfy { object == nil || object?[$0] != nil }
            case ("items", let items as [String: Any]):
                for (index, one) in (value as? [Any] ?? []).enumerated() {
                    found += try issues(one, items, "\(place)/\(index)")
                }
                continue
            case ("properties", let properties as [String: Any]):
                for (name, one) in value as? [String: Any] ?? [:] {
                    guard let property = properties[name] as? [String: Any] else { continue }
                    found += try issues(one, property, "\(place)/\(name)")
                }
                continue
            case ("propertyNames", let names as [String: Any]):
                for name in (value as? [String: Any] ?? [:]).keys {
                    found += try issues(name, names, "\(place)/\(name)")
                }
                continue
            case ("additionalProperties", let others):
                let known = schema["properties"] as? [String: Any] ?? [:]
                for (name, one) in value as? [String: Any] ?? [:] where known[name] == nil {
                    if let rule = others as? [String: Any] {
                        found += try issues(one, rule, "\(place)/\(name)")
                    } else {
                        found.append("\(place)/\(name): not known")
                    }
                }
                continue
            default: throw UnknownKeyword(name: keyword)
            }
            if !isKept { found.append("\(place): \(keyword) \(rule)") }
        }
        return found
    }

    private static func isBool(_ value: Any) -> Bool {
        (value as? NSNumber).map { String(cString: $0.objCType) == "c" } ?? false
    }

    private static func isOf(_ type: String, _ value: Any) -> Bool {
        switch type {
        case "object": value is [String: Any]
        case "array": value is [Any]
        case "string": value is String
        case "boolean": isBool(value)
        case "integer": (value as? NSNumber).map { !isBool($0) && $0.doubleValue == $0.doubleValue.rounded() } ?? false
        default: false
        }
    }

    private static func areEqual(_ one: Any, _ other: Any) -> Bool {
        if let one = one as? String { return one == other as? String }
        if let one = one as? NSNumber { return isBool(one) == isBool(other) && one == other as? NSNumber }
        return false
    }

    private static func isOf(format: String, _ text: String) -> Bool {
        switch format {
        case "date-time": text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/) != nil
        case "date": text.wholeMatch(of: /\d{4}-\d\d-\d\d/) != nil
        default: false
        }
    }
}
