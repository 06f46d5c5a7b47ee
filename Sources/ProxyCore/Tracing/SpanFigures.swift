// SPDX-License-Identifier: Apache-2.0

/// The numbers of sampled requests whose spans were delivered, or lost.
package struct SpanFigures: Equatable, Sendable {
    package var delivered = 0
    package var lost: [SpanLoss: Int] = [:]

    static func + (one: SpanFigures, other: SpanFigures) -> SpanFigures {
        SpanFigures(delivered: one.delivered + other.delivered, lost: one.lost.merging(other.lost, uniquingKeysWith: +))
    }
}
