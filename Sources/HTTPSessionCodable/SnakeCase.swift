// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// The names of `JSONEncoder.KeyEncodingStrategy.convertToSnakeCase`, by Foundation's rules.
enum SnakeCase {
    /// `myURLProperty` becomes `my_url_property`: a word begins at an upper case letter behind a lower case one, and at
    /// the last of several upper case letters before a lower case one.
    static func encode(_ name: String) -> String {
        guard !name.isEmpty else { return name }
        var words: [Substring] = []
        var start = name.startIndex
        var search = name.index(after: start)
        while let upper = name[search...].firstIndex(where: \.isUpper) {
            words.append(name[start..<upper])
            guard let lower = name[upper...].firstIndex(where: \.isLower) else {
                start = upper
                break
            }
            start = upper
            if lower != name.index(after: upper) {
                start = name.index(before: lower)
                words.append(name[upper..<start])
            }
            search = name.index(after: lower)
        }
        words.append(name[start...])
        return words.map { $0.lowercased() }.joined(separator: "_")
    }
}

extension Character {
    fileprivate var isUpper: Bool { unicodeScalars.first?.properties.generalCategory == .uppercaseLetter }
    fileprivate var isLower: Bool { unicodeScalars.first?.properties.generalCategory == .lowercaseLetter }
}
