// SPDX-License-Identifier: Apache-2.0
package import StrictJSON

/// Reads one entry of `pins` or `forbiddenPins`: a `sha256/…` string or an object.
enum PinReader {
    /// The pin; `nil` after an issue.
    static func read(_ element: DocumentElement, allowsBackup: Bool) -> Pin? {
        if case .string(let text) = element.value.content {
            guard text.hasPrefix("sha256/") else {
                element.report(
                    "a pin that is a string begins with \"sha256/\"",
                    remedy: "write \"sha256/…\", or { \"spki-sha256\": \"…\" }"
                )
                return nil
            }
            return key(text, element).map { Pin($0) }
        }
        guard case .object = element.value.content, let object = element.object() else {
            element.report(
                "a pin is a string or an object, is \(element.value.kindForPeople)",
                remedy: "write \"sha256/…\", or { \"spki-sha256\": \"…\" }"
            )
            return nil
        }
        let digest = object.required("spki-sha256")
        let scope = object["scope"]?.choice(Pin.Scope.self)
        let comment = object.string("comment")
        let isBackup = allowsBackup ? object.bool("backup") ?? false : false
        object.finish()
        guard let digest, let text = digest.string(), let key = key(text, digest) else { return nil }
        return Pin(key, scope: scope ?? .any, isBackup: isBackup, comment: comment ?? "")
    }

    private static func key(_ text: String, _ element: DocumentElement) -> PublicKeyPin? {
        let remedy = "write the 44 base64 characters that pinproxy pins show prints"
        do throws(PublicKeyPin.Fault) {
            return try PublicKeyPin(text)
        } catch {
            switch error {
            case .notBase64: element.report("the pin is not base64", remedy: remedy)
            case .wrongLength(let count): element.report("the pin has \(count) bytes, not 32", remedy: remedy)
            case .unknownDigest: element.report("the pin's digest is not SHA-256", remedy: remedy)
            }
            return nil
        }
    }
}

/// Reads `trustAnchors`: `{ "system": true, "files": [] }`, in pin files and in the configuration alike.
enum TrustAnchorReader {
    /// The anchors; `nil` after an issue.
    ///
    /// - Parameter mayBeEmpty: whether an empty set is allowed.
    package static func read(
        _ element: DocumentElement,
        library: TrustAnchorLibrary,
        mayBeEmpty: Bool = false
    ) -> TrustAnchors? {
        guard let object = element.object() else { return nil }
        let system = object["system"]
        let usesSystem = system.map { $0.bool() } ?? true
        let files = object.elements("files") ?? []
        object.finish()
        let issues = element.reader.issueCount
        let paths = files.compactMap { file -> String? in
            guard file.certificates() != nil, let path = file.string() else { return nil }
            return element.reader.resolve(path: path)
        }
        guard let usesSystem, paths.count == files.count, element.reader.issueCount == issues else { return nil }
        if !usesSystem, paths.isEmpty, !mayBeEmpty {
            element.report(
                "no trust anchor at all: every server would be refused",
                remedy: "name a file, or set \"system\" to true"
            )
            return nil
        }
        return (usesSystem ? system ?? element : element).reported { () throws(CertificateFault) in
            try library.anchors(system: usesSystem, files: paths)
        }
    }
}

extension DocumentElement {
    /// The contents of the file that this string names, relative to the document; `nil` after an issue.
    ///
    /// - Parameter remedyIfMissing: what to do when there is no such file; nil for naming another.
    package func fileContents(remedyIfMissing: String? = nil) -> [UInt8]? {
        guard let path = string() else { return nil }
        switch FileContents.read(reader.resolve(path: path), limit: 16 << 20) {
        case .success(let bytes): return bytes
        case .failure(let fault):
            let remedy = fault == FileContents.missing ? remedyIfMissing : nil
            report("the file \"\(LegibleText.excerpt(path))\" \(fault.message)", remedy: remedy ?? fault.remedy)
            return nil
        }
    }

    /// The certificates of the file that this string names; `nil` after an issue.
    package func certificates() -> [Certificate]? {
        guard let bytes = fileContents() else { return nil }
        return reported { () throws(CertificateFault) in try Certificate.certificates(in: bytes) }
    }

    /// The revocation lists of files. An invalid one is an issue at the element that names it, one that is not in force a warning.
    ///
    /// - Parameters:
    ///   - time: seconds since 1970.
    ///   - effect: what becomes of the certificates that a list which is not in force should cover.
    /// - Returns: nil without any, or with an invalid one.
    package static func revocationLists(
        of elements: [DocumentElement],
        at time: Int64,
        effect: String
    ) -> RevocationLists? {
        let contents = elements.compactMap { $0.fileContents() }
        guard !elements.isEmpty, contents.count == elements.count else { return nil }
        // Each file is tried alone first, so that the issue names the invalid file.
        for (element, bytes) in zip(elements, contents) {
            let lists = element.reported { () throws(CertificateFault) in try RevocationLists(contents: [bytes]) }
            for fault in lists?.notInForce(at: time) ?? [] {
                element.warn("\(fault): \(effect)", remedy: "fetch the issuer's current list")
            }
        }
        return try? RevocationLists(contents: contents)
    }

    /// Runs `body`; a fault becomes an issue here.
    func reported<Result>(_ body: () throws(CertificateFault) -> Result) -> Result? {
        do throws(CertificateFault) {
            return try body()
        } catch {
            let file: String =
                if case .string(let path) = value.content { "the file \"\(LegibleText.excerpt(path))\": " } else { "" }
            let cause = error.underlying?.entries.first.map { " [\($0.text)]" } ?? ""
            report(file + error.message + cause, remedy: error.remedy)
            return nil
        }
    }
}
