// SPDX-License-Identifier: Apache-2.0
import Foundation

#if canImport(FoundationXML)
import FoundationXML
#endif

/// Whether bytes are well-formed XML (XML 1.0, section 2.1). Foundation on Linux alone cannot tell: `XMLParser.parse`
/// accepts truncated documents; `XMLDocument` repairs broken ones by guessing, and crashes for empty ones.
enum XMLWellFormedness {
    /// - Returns: the fault, for people; nil for none.
    static func fault(in data: Data) -> String? {
        let watch = Watch()
        let parser = XMLParser(data: data)
        parser.shouldResolveExternalEntities = false
        parser.delegate = watch
        let isParsed = parser.parse()
        guard watch.fault == nil, isParsed, watch.openElements == 0, watch.hasRoot else {
            return "\(watch.fault ?? "it breaks off"), line \(parser.lineNumber)"
        }
        return nil
    }

    /// Counts elements, and keeps the first error of well-formedness.
    private final class Watch: NSObject, XMLParserDelegate {
        private(set) var openElements = 0
        private(set) var hasRoot = false
        private(set) var fault: String?

        /// libxml's codes (xmlerror.h) of its warnings and of faults in namespaces, with which a document is still
        /// well-formed.
        private static let pardoned: Set<Int> = [27, 97, 98, 99, 100, 107, 200, 201, 202, 203, 204, 205]

        func parser(
            _ parser: XMLParser,
            didStartElement elementName: String,
            namespaceURI: String?,
            qualifiedName qName: String?,
            attributes attributeDict: [String: String] = [:]
        ) {
            hasRoot = true
            openElements += 1
        }

        func parser(
            _ parser: XMLParser,
            didEndElement elementName: String,
            namespaceURI: String?,
            qualifiedName qName: String?
        ) {
            openElements -= 1
        }

        func parser(_ parser: XMLParser, parseErrorOccurred parseError: any Error) {
            let number = (parseError as NSError).code
            guard fault == nil, !Self.pardoned.contains(number) else { return }
            fault = "it is not well-formed (libxml's error \(number))"
        }
    }
}
