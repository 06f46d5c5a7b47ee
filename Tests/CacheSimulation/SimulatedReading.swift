// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// A body that a request reads while another one receives it.
final class SimulatedReading {
    let number: Int
    private let reader: GrowingReader
    private let wanted: Range<Int>
    private let expected: [UInt8]
    private var position: Int
    private var taken: [UInt8] = []

    /// - Parameter expected: the bytes of `wanted`.
    init(_ number: Int, _ reader: GrowingReader, _ wanted: Range<Int>, expected: [UInt8]) {
        self.number = number
        self.reader = reader
        self.wanted = wanted
        self.expected = expected
        position = wanted.lowerBound
    }

    /// The state after a reading.
    enum Progress { case waits, complete, broken }

    /// Reads what there is, in pieces.
    ///
    /// - Parameter disk: has written all that it was given.
    func read(_ disk: DiskStore?, pieceSize: Int) -> Progress {
        while position < wanted.upperBound {
            switch reader.read(at: position, atMost: min(pieceSize, wanted.upperBound - position), wake: {}) {
            case .bytes(let bytes): take(bytes)
            case .file(let file, let count):
                let found = Locked<[UInt8]?>(nil)
                let done = Latch(count: 1)
                disk?.read(file, at: position, count: count, deliver: { $0() }) { bytes in
                    found.withLock { $0 = bytes }
                    done.countDown()
                }
                done.wait()
                guard let bytes = found.withLock({ $0 }) else { return .broken }
                take(bytes)
            case .wait: return .waits
            case .end: return .complete
            case .broken: return .broken
            }
        }
        return .complete
    }

    private func take(_ bytes: [UInt8]) {
        taken += bytes
        position += bytes.count
    }

    /// Whether what was read is right, and so far complete if it must be.
    func isRight(isWhole: Bool) -> Bool {
        isWhole ? taken == expected : expected.starts(with: taken)
    }
}
