// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore

/// The tags for purging groups of stored responses: from `Surrogate-Key` (separated by spaces) and `Cache-Tag`
/// (separated by commas, as CDNs write it).
public enum SurrogateKeys {
    /// Longer tags, and those after the 128th, are ignored.
    private static let longest = 1024
    static let most = 128

    /// Tags as bytes, each once.
    public static func tags(of response: HeaderFields) -> [[UInt8]] {
        var tags: [[UInt8]] = []
        collect(response, "surrogate-key", UInt8(ascii: " "), &tags)
        collect(response, "cache-tag", UInt8(ascii: ","), &tags)
        return tags
    }

    private static func collect(
        _ response: HeaderFields,
        _ name: StaticString,
        _ separator: UInt8,
        _ tags: inout [[UInt8]]
    ) {
        guard let first = response.first(named: name.bytes) else { return }
        for index in first..<response.count where response.name(at: index).equalsIgnoringCase(name) {
            let value = response.value(at: index)
            var start = 0
            while start <= value.count {
                let end = value.firstIndex(of: separator, from: start) ?? value.count
                let tag = value.extracting(value.trimmingBlanks(start..<end))
                if tag.count > 0, tag.count <= longest, tags.count < most {
                    let bytes = [UInt8](copying: tag)
                    if !tags.contains(bytes) { tags.append(bytes) }
                }
                start = end + 1
            }
        }
    }
}
