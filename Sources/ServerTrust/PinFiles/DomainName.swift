// SPDX-License-Identifier: Apache-2.0
import CIDN2
import CPSL
package import HTTPCore
import StrictJSON

/// The names of domains in pin files, brought to the one normal form in which requests are compared.
package enum DomainName {
    /// The reason why a text is not a domain.
    package struct Fault: Error, Hashable, Sendable {
        package var message: String
        package var remedy: String
    }

    /// Reads a domain: an ASCII name, an international one (U-labels, by UTS #46 without transitional mappings), or an
    /// IP literal, IPv6 with or without brackets.
    package static func host(_ text: String) throws(Fault) -> Host {
        if text.utf8.contains(UInt8(ascii: "*")) {
            let rest = text.split(separator: ".").drop { $0.utf8.contains(UInt8(ascii: "*")) }.joined(separator: ".")
            throw Fault(
                message: "a pattern is no domain",
                remedy:
                    "name \"\(LegibleText.excerpt(rest.isEmpty ? "example.com" : rest))\" with \"includeSubdomains\": true"
            )
        }
        if text.utf8.contains(UInt8(ascii: "/")) {
            throw Fault(message: "a URL is no domain", remedy: "write the host's name alone")
        }
        if text.utf8.contains(UInt8(ascii: ":")), !text.hasPrefix("[") {
            if let address = try? Host("[\(text)]") { return address }
            throw Fault(message: "a domain has no port", remedy: "write the host's name, and the port under \"ports\"")
        }
        let ascii = text.utf8.allSatisfy { $0 < 0x80 } ? text : try aLabels(text)
        do {
            return try Host(ascii)
        } catch {
            throw Fault(message: "\(error)", remedy: "write a host's name as in api.example.com")
        }
    }

    /// Whether the public can register names below it (the Public Suffix List, both sections). Names below unlisted
    /// top-level domains (`corp`) are not meant: those belong to the network they are used in.
    package static func isPublicSuffix(_ host: Host) -> Bool {
        guard host.kind == .name else { return false }
        // Without a built-in list in libpsl only single labels can be recognised.
        guard let list = psl_builtin() else { return !host.bytes.contains(UInt8(ascii: ".")) }
        return psl_is_public_suffix2(list, host.description, PSL_TYPE_ANY | PSL_TYPE_NO_STAR_RULE) == 1
    }

    /// The suffix of a registry (the ICANN section of the Public Suffix List) directly above a host: `co.uk` for
    /// `example.co.uk`; nil for a name that is not directly below one.
    package static func registry(above host: Host) -> String? {
        guard host.kind == .name, let dot = host.bytes.firstIndex(of: UInt8(ascii: ".")) else { return nil }
        let parent = String(decoding: host.bytes[(dot + 1)...], as: UTF8.self)
        guard let list = psl_builtin() else { return parent.contains(".") ? nil : parent }
        return psl_is_public_suffix2(list, parent, PSL_TYPE_ICANN | PSL_TYPE_NO_STAR_RULE) == 1 ? parent : nil
    }

    private static func aLabels(_ text: String) throws(Fault) -> String {
        var output: UnsafeMutablePointer<CChar>?
        let flags = Int32(IDN2_NFC_INPUT.rawValue | IDN2_NONTRANSITIONAL.rawValue)
        let result = idn2_to_ascii_8z(text, &output, flags)
        defer { idn2_free(output) }
        guard result == IDN2_OK.rawValue, let output else {
            let reason = idn2_strerror(result).map { String(cString: $0) } ?? "error \(result)"
            throw Fault(message: "no international domain name: \(reason)", remedy: "write its A-label form (xn--…)")
        }
        return String(cString: output)
    }
}
