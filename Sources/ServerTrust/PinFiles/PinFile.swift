// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
public import StrictJSON

/// Loads pin files: all of them or none. The form is described by `docs/schema/pin-file.schema.json`.
public enum PinFile {
    /// The contents of a set of pin files.
    public struct Loaded: Sendable {
        /// The policies by host.
        public var domains: PinnedDomains
        /// Warnings for every start: servers that pass unidentified, pin sets near their end.
        public var warnings: [DocumentIssue]
        /// The files that were read, in order.
        public var files: [String]
    }

    /// The warning period before the end of a pin set, in seconds: 30 days.
    static let expirationNotice = Expiry.pinSetNotice

    /// Loads a file, or every `*.json` of a folder in the order of their names (hidden ones left out). Blocking disk
    /// I/O: at start and on reload, never on a loop.
    ///
    /// - Parameters:
    ///   - path: a file or a folder.
    ///   - time: seconds since 1970, for the warnings of expiration.
    ///   - library: the source of trust anchors; use the same one for a whole configuration.
    /// - Throws: every issue of every file at once.
    package static func load(
        path: String,
        at time: Int64,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        guard FileContents.isFolder(path) else { return try load(files: [path], at: time, library: library) }
        switch FileContents.names(inFolder: path) {
        case .failure(let fault):
            throw DocumentIssues([fault.issue(file: path)])
        case .success(let names):
            let folder = PinFolder(path: path, names: names)
            guard !folder.files.isEmpty else {
                // An empty mount would otherwise silently remove the pins of every host.
                throw DocumentIssues(
                    [
                        DocumentIssue(
                            file: path,
                            message: "no pin file (*.json) in this folder",
                            remedy: "add one, or take \"pins\" out of the configuration"
                        )
                    ] + folder.issues
                )
            }
            return try load(
                count: folder.files.count,
                readers: { reader(folder.files[$0]) },
                at: time,
                library: library,
                issues: folder.issues,
                warnings: folder.warnings
            )
        }
    }

    /// A shell makes the file of `command > FILE` before the command runs, and leaves it there when that fails.
    private static func reader(_ file: String) -> DocumentReader {
        DocumentReader(
            file: file,
            remedyIfEmpty:
                "the command that should have written it has failed: remove it, and write it with pinproxy pins show "
                + "--pin-file=\(file) HOST, which makes the file only when it is whole"
        )
    }

    /// Loads the files given.
    package static func load(
        files: [String],
        at time: Int64,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(count: files.count, readers: { reader(files[$0]) }, at: time, library: library)
    }

    /// Loads one pin file's text.
    ///
    /// - Parameters:
    ///   - text: the JSON document.
    ///   - file: the name in issues; paths in the text are relative to its folder.
    ///   - time: seconds since 1970, to recognise expired pin sets.
    ///   - library: the source of trust anchors; one for a whole configuration reads the system's bundle once.
    package static func load(
        text: String,
        file: String,
        at time: Int64,
        library: TrustAnchorLibrary = TrustAnchorLibrary()
    ) throws(DocumentIssues) -> Loaded {
        try load(readers: [DocumentReader(JSONDocument(text: text, file: file))], at: time, library: library)
    }

    /// Loads documents that are in memory; paths are relative to the folder of each reader's file.
    ///
    /// - Parameters:
    ///   - issues: issues of the folder that they come from.
    ///   - warnings: warnings about this folder.
    package static func load(
        readers: [DocumentReader],
        at time: Int64,
        library: TrustAnchorLibrary,
        issues folderIssues: [DocumentIssue] = [],
        warnings: [DocumentIssue] = []
    ) throws(DocumentIssues) -> Loaded {
        try load(
            count: readers.count,
            readers: { readers[$0] },
            at: time,
            library: library,
            issues: folderIssues,
            warnings: warnings
        )
    }

    /// One at a time, so that only one document is in memory.
    private static func load(
        count: Int,
        readers: (Int) -> DocumentReader,
        at time: Int64,
        library: TrustAnchorLibrary,
        issues folderIssues: [DocumentIssue] = [],
        warnings: [DocumentIssue] = []
    ) throws(DocumentIssues) -> Loaded {
        var collection = PinFileCollection(time: time, library: library)
        let readers = (0..<count).map { index in
            let reader = readers(index)
            collection.read(reader)
            reader.forget()
            return reader
        }
        collection.destinations.reportLoops(in: collection.domains)
        let issues = IssueList.joined([folderIssues] + readers.map(\.issues))
        guard issues.isEmpty else { throw DocumentIssues(issues) }
        return Loaded(
            domains: collection.domains,
            warnings: IssueList.joined([warnings] + readers.map(\.warnings), "warnings"),
            files: readers.map(\.file)
        )
    }
}

/// The domains of several files while they are read.
private struct PinFileCollection {
    let time: Int64
    let library: TrustAnchorLibrary
    var domains = PinnedDomains()
    var destinations = ReportDestinations()
    /// The first place of each domain, by its normal form.
    private var places: [String: String] = [:]

    init(time: Int64, library: TrustAnchorLibrary) {
        self.time = time
        self.library = library
    }

    mutating func read(_ reader: DocumentReader) {
        guard let root = reader.rootObject() else { return }
        // These keys are for editors and readers.
        _ = (root.string("$schema"), root.string("comment"))
        if let version = root.required("version")?.int(in: 0...Int.max), version != 1 {
            root["version"]?.report("version \(version) of the pin file is not known", remedy: "write 1")
        }
        if let pinned = root.required("pinnedDomains"), let object = pinned.object() {
            if object.entries.isEmpty {
                pinned.report("no domain is named", remedy: "name one, or delete the file")
            }
            for (name, element) in object.entries { read(name, element) }
        }
        root.finish()
    }

    private mutating func read(_ name: String, _ element: DocumentElement) {
        let host: Host?
        do throws(DomainName.Fault) {
            host = try DomainName.host(name)
        } catch {
            element.report(error.message, remedy: error.remedy)
            host = nil
        }
        guard let object = element.object() else { return }
        var reader = DomainReader(object: object, host: host, time: time, library: library)
        let domain = reader.read()
        guard let host else { return }
        let place = "\(element.reader.file): \(element.pointer)"
        if let first = places[host.description] {
            element.report(
                "the domain \(host) is named already, at \(first)",
                remedy: "keep one of the two: policies are not joined"
            )
            return
        }
        places[host.description] = place
        if let domain, domains.insert(domain) { destinations.add(domain, reader.reportElements) }
    }
}
