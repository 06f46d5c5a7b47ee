/// Where two bodies differ, for people; nil where they do not.
///
/// For anything large in the place of `==`: the testing library works out a whole edit script for a comparison that fails,
/// which takes minutes for megabytes.
package func firstDifference(_ one: [UInt8]?, _ other: [UInt8]) -> String? {
    guard let one else { return "there is none" }
    guard one != other else { return nil }
    if let index = zip(one, other).enumerated().first(where: { $0.element.0 != $0.element.1 })?.offset {
        return "\(one.count) and \(other.count) bytes differ from byte \(index) on: \(one[index]) and \(other[index])"
    }
    return "\(one.count) bytes are the same, then one ends before the other, of \(other.count)"
}
