// SPDX-License-Identifier: Apache-2.0
/// Reads typed values from a `JSONDocument`, and collects all issues instead of stopping at the first: a hundred with
/// their texts, of more their number.
///
/// Each document has one reader. A getter that finds a wrong type records an issue and returns `nil`, as for an absent
/// key: continue with a default, and check `issues` at the end. `DocumentObject.finish()` reports keys that were never
/// requested.
package final class DocumentReader {
    package let file: String
    /// The issues in the order in which they were found.
    package var issues: [DocumentIssue] { errorList.elements }
    /// The issues in the order of the text.
    package var issuesInOrder: [DocumentIssue] { errorList.inOrder }
    /// The number of issues so far.
    package var issueCount: Int { errorList.count }
    /// Warnings for every start, which do not prevent the use of the document.
    package var warnings: [DocumentIssue] { warningList.elements }
    /// The warnings in the order of the text.
    package var warningsInOrder: [DocumentIssue] { warningList.inOrder }
    private var errorList = IssueList()
    private var warningList = IssueList("warnings")
    /// The document's value; `nil` when it could not be parsed (see the issues), and after `forget`.
    package private(set) var root: DocumentValue?

    package init(_ document: JSONDocument) {
        file = document.file
        root = document.root
        errorList.append(contentsOf: document.issues)
    }

    /// Makes a reader for a document that could not be loaded.
    package init(file: String, issue: DocumentIssue) {
        self.file = file
        root = nil
        errorList.append(contentsOf: [issue])
    }

    /// The whole document, which must be an object.
    package func rootObject() -> DocumentObject? {
        guard let root else { return nil }
        return DocumentElement(value: root, pointer: "", reader: self).object()
    }

    /// Frees the document after it was read; issues and warnings stay.
    package func forget() { root = nil }

    /// The texts are only made for an issue that is kept.
    package func report(
        _ message: @autoclosure () -> String,
        remedy: @autoclosure () -> String,
        pointer: @autoclosure () -> String = "",
        place: DocumentValue.Place? = nil
    ) {
        errorList.append(issue(message(), remedy(), pointer(), place), of: file)
    }

    package func warn(
        _ message: @autoclosure () -> String,
        remedy: @autoclosure () -> String,
        pointer: @autoclosure () -> String = "",
        place: DocumentValue.Place? = nil,
        code: String? = nil
    ) {
        warningList.append(issue(message(), remedy(), pointer(), place, code), of: file)
    }

    private func issue(
        _ message: String,
        _ remedy: String,
        _ pointer: String,
        _ place: DocumentValue.Place?,
        _ code: String? = nil
    ) -> DocumentIssue {
        var issue = DocumentIssue(
            file: file,
            pointer: pointer,
            message: message,
            remedy: remedy,
            line: place?.line,
            column: place?.column
        )
        issue.code = code
        return issue
    }
}

/// One value of a document with its pointer, for reports of issues.
package struct DocumentElement {
    package let value: DocumentValue
    package let pointer: String
    package let reader: DocumentReader

    package init(value: DocumentValue, pointer: String, reader: DocumentReader) {
        self.value = value
        self.pointer = pointer
        self.reader = reader
    }

    package func report(_ message: @autoclosure () -> String, remedy: @autoclosure () -> String) {
        reader.report(message(), remedy: remedy(), pointer: pointer, place: value.place)
    }

    package func warn(_ message: @autoclosure () -> String, remedy: @autoclosure () -> String, code: String? = nil) {
        reader.warn(message(), remedy: remedy(), pointer: pointer, place: value.place, code: code)
    }

    package func string() -> String? {
        if case .string(let text) = value.content { return text }
        return wrongKind("a string")
    }

    package func bool() -> Bool? {
        if case .bool(let flag) = value.content { return flag }
        return wrongKind("true or false")
    }

    /// A whole number without fraction or exponent, inside `range`.
    package func int(in range: ClosedRange<Int>) -> Int? {
        guard case .number(let text) = value.content else { return wrongKind("a whole number") }
        guard let number = Int(text) else {
            report("\(LegibleText.excerpt(text)) is no whole number", remedy: "write one from \(Self.shown(range))")
            return nil
        }
        guard range.contains(number) else {
            report("\(number) is out of range", remedy: "write a number from \(Self.shown(range))")
            return nil
        }
        return number
    }

    package func elements() -> [DocumentElement]? {
        guard case .array(let values) = value.content else { return wrongKind("an array") }
        return values.enumerated().map { index, value in
            DocumentElement(value: value, pointer: JSONPointer.element(index, of: pointer), reader: reader)
        }
    }

    package func object() -> DocumentObject? {
        guard case .object(let members) = value.content else { return wrongKind("an object") }
        return DocumentObject(element: self, members: members)
    }

    /// An array of strings; elements of another type are reported and skipped.
    package func strings() -> [String]? {
        elements()?.compactMap { $0.string() }
    }

    /// One of the spellings of a `String` enumeration.
    package func choice<Choice>(
        _ type: Choice.Type = Choice.self
    ) -> Choice? where Choice: RawRepresentable<String> & CaseIterable {
        guard let text = string() else { return nil }
        if let choice = Choice(rawValue: text) { return choice }
        report(
            "unknown value \"\(LegibleText.excerpt(text))\"",
            remedy: Self.remedy(text, Choice.allCases.map(\.rawValue))
        )
        return nil
    }

    private static func remedy(_ text: String, _ known: [String]) -> String {
        let listed = known.map { "\"\($0)\"" }.joined(separator: ", ")
        return Spelling.nearest(to: text, among: known).map { "did you mean \"\($0)\"? Known: \(listed)" }
            ?? "write one of \(listed)"
    }

    private static func shown(_ range: ClosedRange<Int>) -> String {
        range.upperBound == Int.max ? "\(range.lowerBound) on" : "\(range.lowerBound) to \(range.upperBound)"
    }

    private func wrongKind<Result>(_ wanted: String) -> Result? {
        // An unreadable value has its issue from the scanner.
        if case .unreadable = value.content { return nil }
        report("must be \(wanted), is \(value.kindForPeople)", remedy: "write \(wanted)")
        return nil
    }
}

/// An object of a document. It records the requested keys, so that `finish` can report the others.
package final class DocumentObject {
    package let element: DocumentElement
    private let members: [DocumentValue.Member]
    private var known: [String] = []
    /// The first member of each name in a large object, where a search for each key would take long.
    private let places: [String: Int]

    /// An object with more members has a table of them.
    private static let searchedMembers = 64

    init(element: DocumentElement, members: [DocumentValue.Member]) {
        self.element = element
        self.members = members
        guard members.count > Self.searchedMembers else {
            places = [:]
            return
        }
        places = Dictionary(
            members.enumerated().map { ($0.element.name, $0.offset) },
            uniquingKeysWith: { old, _ in old }
        )
    }

    package var pointer: String { element.pointer }
    package var reader: DocumentReader { element.reader }

    /// The value of a key, which becomes a known key.
    package subscript(_ key: String) -> DocumentElement? {
        if !known.contains(key) { known.append(key) }
        guard let member = member(key) else { return nil }
        return DocumentElement(value: member.value, pointer: JSONPointer.member(key, of: pointer), reader: reader)
    }

    /// Names are compared by bytes, because Swift's own comparison treats canonically equivalent ones as equal.
    private func member(_ key: String) -> DocumentValue.Member? {
        guard members.count > Self.searchedMembers else {
            return members.first { $0.name.utf8.elementsEqual(key.utf8) }
        }
        guard let place = places[key], members[place].name.utf8.elementsEqual(key.utf8) else { return nil }
        return members[place]
    }

    /// Whether the key exists; it becomes a known key.
    package func has(_ key: String) -> Bool { self[key] != nil }

    /// All members in order, for an object whose keys are data (host names); a duplicate was already reported and
    /// occurs once.
    package var entries: [(name: String, element: DocumentElement)] {
        var seen: Set<String> = []
        return members.compactMap { member in
            guard seen.insert(member.name).inserted else { return nil }
            let pointer = JSONPointer.member(member.name, of: self.pointer)
            return (member.name, DocumentElement(value: member.value, pointer: pointer, reader: reader))
        }
    }

    package func string(_ key: String) -> String? { self[key]?.string() }
    package func bool(_ key: String) -> Bool? { self[key]?.bool() }
    package func int(_ key: String, in range: ClosedRange<Int>) -> Int? { self[key]?.int(in: range) }
    package func elements(_ key: String) -> [DocumentElement]? { self[key]?.elements() }
    package func strings(_ key: String) -> [String]? { self[key]?.strings() }
    package func object(_ key: String) -> DocumentObject? { self[key]?.object() }

    /// A required value.
    package func required(_ key: String) -> DocumentElement? {
        if let element = self[key] { return element }
        element.report("\"\(key)\" is missing", remedy: "add it")
        return nil
    }

    /// Reports every key that was never requested.
    ///
    /// - Parameter move: the remedy for a key that belongs elsewhere in the document; nil for any other.
    package func finish(move: (String) -> String? = { _ in nil }) {
        let known = Set(known)
        var reported: Set<String> = []
        for member in members where !(known.contains(member.name) && isKnown(member.name)) {
            guard reported.insert(member.name).inserted else { continue }
            reader.report(
                "unknown key \"\(LegibleText.excerpt(member.name))\"",
                remedy: move(member.name) ?? remedy(member.name),
                pointer: JSONPointer.member(member.name, of: pointer),
                place: member.namePlace
            )
        }
    }

    private func isKnown(_ name: String) -> Bool { known.contains { $0.utf8.elementsEqual(name.utf8) } }

    private func remedy(_ name: String) -> String {
        if let guess = Spelling.nearest(to: name, among: known) { return "did you mean \"\(guess)\"?" }
        return "take it out; known here: " + known.map { "\"\($0)\"" }.joined(separator: ", ")
    }
}
