// SPDX-License-Identifier: Apache-2.0
/// Guesses the intended key from a misspelt one.
package enum Spelling {
    /// The candidate nearest to `word`, if one is near enough to be worth naming.
    package static func nearest(to word: String, among candidates: [String]) -> String? {
        // Long outside text is no typing error, and the distance costs the product of the lengths.
        guard word.utf8.count <= 64 else { return nil }
        let wanted = Array(word.lowercased().utf8)
        var best: (String, Int)?
        for candidate in candidates {
            let distance = distance(wanted, Array(candidate.lowercased().utf8))
            if distance < best?.1 ?? Int.max { best = (candidate, distance) }
        }
        guard let (candidate, distance) = best else { return nil }
        return distance <= max(1, min(candidate.utf8.count, wanted.count) / 3) ? candidate : nil
    }

    /// Damerau and Levenshtein's distance: insertions, deletions, substitutions and swaps of neighbours.
    private static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        var rows = [Array(0...b.count)]
        for i in 1..<(a.count + 1) {
            var row = [i]
            for j in 1..<(b.count + 1) {
                var cost = min(rows[i - 1][j] + 1, row[j - 1] + 1)
                cost = min(cost, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
                    cost = min(cost, rows[i - 2][j - 2] + 1)
                }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
