// SPDX-License-Identifier: Apache-2.0

/// Cases 6.5 to 6.23: texts that are UTF-8 and texts that are not, each in one frame. They are those of Markus Kuhn's decoder test,
/// which the suite has, too.
package enum UTF8Cases {
    package struct Sample: Sendable {
        package let bytes: [UInt8]
        package let isValid: Bool
    }

    /// The samples of 6.5, of 6.6, and so on.
    package static let groups: [[Sample]] = {
        let greek: [UInt8] = [0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xCE, 0xBC, 0xCE, 0xB5]
        let ends = [2, 5, 7, 9, 11]
        let prefixes = (1...greek.count).map { Sample(bytes: Array(greek[..<$0]), isValid: ends.contains($0)) }
        let continuations = (0...5).map { count in
            Sample(bytes: (0..<(count + 1)).map { $0.isMultiple(of: 2) ? 0x80 : 0xBF }, isValid: false)
        }
        let lonely = [0xC0..<0xDF, 0xE0..<0xEF, 0xF0..<0xF7, 0xF8..<0xFB, 0xFC..<0xFD].map { range in
            Sample(bytes: range.flatMap { [UInt8($0), 0x20] }, isValid: false)
        }
        let cut: [[UInt8]] = [
            [0xC0], [0xE0, 0x80], [0xF0, 0x80, 0x80], [0xF8, 0x80, 0x80, 0x80], [0xFC, 0x80, 0x80, 0x80, 0x80], [0xDF],
            [0xEF, 0xBF], [0xF7, 0xBF, 0xBF], [0xFB, 0xBF, 0xBF, 0xBF], [0xFD, 0xBF, 0xBF, 0xBF, 0xBF],
        ]
        var nonCharacters: [[UInt8]] = [[0xEF, 0xBF, 0xBE], [0xEF, 0xBF, 0xBF]]
        for first: UInt8 in 0xF0...0xF4 {
            for second: UInt8 in [0x8F, 0x9F, 0xAF, 0xBF]
            where first != 0xF4 && !(first == 0xF0 && second == 0x8F) || first == 0xF4 && second == 0x8F {
                nonCharacters += [[first, second, 0xBF, 0xBE], [first, second, 0xBF, 0xBF]]
            }
        }
        let surrogates: [[UInt8]] = [
            [0xED, 0xA0, 0x80], [0xED, 0xAD, 0xBF], [0xED, 0xAE, 0x80], [0xED, 0xAF, 0xBF], [0xED, 0xB0, 0x80],
            [0xED, 0xBE, 0x80], [0xED, 0xBF, 0xBF],
        ]
        var pairs: [[UInt8]] = []
        for high in surrogates[..<4] { for low in [surrogates[4], surrogates[6]] { pairs.append(high + low) } }
        return [
            valid(
                [0x24],
                [0xC2, 0xA2],
                [0xE2, 0x82, 0xAC],
                [0xF0, 0xA4, 0xAD, 0xA2],
                around: (Array("hello".utf8), Array("world".utf8))
            ) + valid(greek), prefixes, valid([0x00], [0xC2, 0x80], [0xE0, 0xA0, 0x80], [0xF0, 0x90, 0x80, 0x80]),
            invalid([0xF8, 0x88, 0x80, 0x80, 0x80], [0xFC, 0x84, 0x80, 0x80, 0x80, 0x80]),
            valid([0x7F], [0xDF, 0xBF], [0xEF, 0xBF, 0xBF], [0xF4, 0x8F, 0xBF, 0xBF]),
            invalid(
                [0xF7, 0xBF, 0xBF, 0xBF],
                [0xFB, 0xBF, 0xBF, 0xBF, 0xBF],
                [0xFD, 0xBF, 0xBF, 0xBF, 0xBF, 0xBF]
            ),
            valid([0xED, 0x9F, 0xBF], [0xEE, 0x80, 0x80], [0xEF, 0xBF, 0xBD], [0xF4, 0x8F, 0xBF, 0xBF])
                + invalid([0xF4, 0x90, 0x80, 0x80]),
            invalid([0x80], [0xBF]) + continuations[1...] + invalid(Array(0x80..<0xBF)), lonely,
            cut.map { Sample(bytes: $0, isValid: false) }, invalid(cut.flatMap { $0 }),
            invalid([0xFE], [0xFF], [0xFE, 0xFE, 0xFF, 0xFF]),
            invalid(
                [0xC0, 0xAF],
                [0xE0, 0x80, 0xAF],
                [0xF0, 0x80, 0x80, 0xAF],
                [0xF8, 0x80, 0x80, 0x80, 0xAF],
                [0xFC, 0x80, 0x80, 0x80, 0x80, 0xAF]
            ),
            invalid(
                [0xC1, 0xBF],
                [0xE0, 0x9F, 0xBF],
                [0xF0, 0x8F, 0xBF, 0xBF],
                [0xF8, 0x87, 0xBF, 0xBF, 0xBF],
                [0xFC, 0x83, 0xBF, 0xBF, 0xBF, 0xBF]
            ),
            invalid(
                [0xC0, 0x80],
                [0xE0, 0x80, 0x80],
                [0xF0, 0x80, 0x80, 0x80],
                [0xF8, 0x80, 0x80, 0x80, 0x80],
                [0xFC, 0x80, 0x80, 0x80, 0x80, 0x80]
            ), surrogates.map { Sample(bytes: $0, isValid: false) }, pairs.map { Sample(bytes: $0, isValid: false) },
            nonCharacters.map { Sample(bytes: $0, isValid: true) },
            (0xB9...0xBF).map { Sample(bytes: [0xEF, 0xBF, UInt8($0)], isValid: true) },
        ]
    }()

    static let all: [WebSocketCase] = groups.enumerated().flatMap { group, samples in
        samples.enumerated().map { index, sample in
            let name = "6.\(group + 5).\(index + 1)"
            let frames = [WebSocketTestFrame(1, sample.bytes)]
            return sample.isValid
                ? WebSocketCase.echo(name, frames, sample.bytes)
                : WebSocketCase.failing(name, frames, code: 1007)
        }
    }

    private static func valid(_ samples: [UInt8]..., around: (before: [UInt8], after: [UInt8]) = ([], [])) -> [Sample] {
        samples.map { Sample(bytes: around.before + $0 + around.after, isValid: true) }
    }

    private static func invalid(_ samples: [UInt8]...) -> [Sample] {
        samples.map { Sample(bytes: $0, isValid: false) }
    }
}
