// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
public import HTTPSessionCore

extension ResponseStream {
    /// A value of each line that is not blank: JSON Lines (ndjson).
    ///
    /// - Parameters:
    ///   - type: of the values.
    ///   - decoder: of one line; nil for the manager's.
    public func decodables<Value: Decodable & Sendable>(
        _ type: Value.Type = Value.self,
        decoder: (any DataDecoder)? = nil
    ) -> Decodables<Value> {
        Decodables(stream: self, decoder: decoder ?? self.decoder ?? JSONDecoder())
    }

    /// The values of a body of JSON Lines.
    public struct Decodables<Value: Decodable & Sendable>: AsyncSequence, Sendable {
        let stream: ResponseStream
        let decoder: any DataDecoder

        /// Reads the body; the second iterator throws.
        public func makeAsyncIterator() -> Iterator { Iterator(LineReader(stream), decoder) }

        /// The place in the body.
        public struct Iterator: AsyncIteratorProtocol {
            private var lines: LineReader
            private let decoder: any DataDecoder

            fileprivate init(_ lines: LineReader, _ decoder: any DataDecoder) {
                self.lines = lines
                self.decoder = decoder
            }

            /// The value of the next line.
            public mutating func next() async throws(RequestFailure) -> Value? { try await next(isolation: nil) }

            /// The value of the next line.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestFailure) -> Value? {
                while let line = try await lines.next(isolation: actor) {
                    guard line.contains(where: { !ASCII.isBlank($0) }) else { continue }
                    do {
                        return try decoder.decode(Value.self, from: line)
                    } catch let fault as JSONFault {
                        throw lines.failure(.invalidJSON(fault))
                    } catch {
                        throw lines.failure(.decodingFailed(error))
                    }
                }
                return nil
            }
        }
    }
}
