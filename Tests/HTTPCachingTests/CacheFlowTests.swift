// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// The course of a request as a value: events in, actions out, without a store, a clock or a connection.
@Suite("The course of a request through the cache")
struct CacheFlowTests {
    typealias Stage = CachingStage

    private struct Step: Hashable {
        let from: CacheFlow.State
        let to: CacheFlow.State
    }

    @Test("random events lead to all steps of the table, and to no others")
    func walk() throws {
        var random = SeededGenerator(seed: 1)
        var seen: Set<Step> = []
        for _ in 0..<8_000 { try walk(&random, &seen) }
        let listed = CacheFlowTable.rows.flatMap { row in row.next.map { Step(from: row.state, to: $0) } }
        for step in listed { #expect(seen.contains(step), "\(step.from) was never followed by \(step.to)") }
        for step in seen where step.to != .over {
            #expect(listed.contains(step), "\(step.to) followed \(step.from)")
        }
    }

    @Test("docs/develop/cache.md shows the table")
    func document() throws {
        let page = try String(
            contentsOf: URL(fileURLWithPath: #filePath).appending(path: "../../../docs/develop/cache.md").standardized,
            encoding: .utf8
        )
        for row in CacheFlowTable.rows {
            let next = row.next.map { "`\($0.rawValue)`" }.joined(separator: ", ")
            #expect(page.contains("| `\(row.state.rawValue)` | \(row.meaning) | \(next.isEmpty ? "–" : next) |\n"))
            for state in row.next where state != .over {
                #expect(page.contains("    \(row.state.rawValue) --> \(state.rawValue)\n"))
            }
        }
    }

    // MARK: Events by chance

    private static let heads: [Stage.Pairs] = [
        [("Cache-Control", "max-age=60")], [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")],
        [("Cache-Control", "no-store")], [("Cache-Control", "no-cache"), ("ETag", "\"a\"")], [("ETag", "\"a\"")],
        [("Cache-Control", "max-age=60, stale-while-revalidate=600, stale-if-error=600"), ("ETag", "\"b\"")],
        [("Cache-Control", "max-age=60, must-revalidate"), ("Last-Modified", Stage.anHourBefore)],
        [("Cache-Control", "max-age=60"), ("Vary", "Accept")], [],
        rest,
    ]

    private static let rest = [
        ("Cache-Control", "max-age=60"), ("ETag", "\"a\""), ("Content-Range", "bytes 2-2/3"),
    ]

    private static let requests: [Stage.Pairs] = [
        [], [], [("Cache-Control", "no-cache")], [("Cache-Control", "only-if-cached")], [("Range", "bytes=0-1")],
        [("If-None-Match", "\"a\"")], [("Authorization", "x")], [("Cache-Control", "max-stale")],
    ]

    private static let policies: [RequestPolicy] = [
        .useProtocolCachePolicy, .useProtocolCachePolicy, .reloadIgnoringLocalCacheData, .returnCacheDataElseLoad,
        .returnCacheDataDontLoad,
    ]

    private static let methods: [HTTPMethod] = [.get, .get, .get, .head, .post, .delete]

    private static func pick<Element>(_ elements: [Element], _ random: inout SeededGenerator) throws -> Element {
        try #require(elements.randomElement(using: &random))
    }

    private func walk(_ random: inout SeededGenerator, _ seen: inout Set<Step>) throws {
        let url = try #require(AbsoluteURL("http://a.example/"))
        let request = try Stage.request(
            Self.pick(Self.requests, &random),
            method: Self.pick(Self.methods, &random),
            policy: Self.pick(Self.policies, &random)
        )
        let first = CacheFlow(
            CacheFlow.Question(
                url: url,
                request: request,
                rules: [],
                keyRules: CacheKeyRules(),
                digest: Stage.digest,
                options: Stage.shared,
                key: try Stage.key("http://a.example/")
            )
        )
        var flow = try perhapsRefreshing(first, &random)
        flow.mayShare = Bool.random(using: &random)
        var event = CacheFlow.Event.request
        for _ in 0..<40 where flow.state != .over {
            let before = flow.state
            let moment = CacheFlow.Moment(
                now: Stage.now + Int.random(in: 0..<900, using: &random),
                isDoubted: Int.random(in: 0..<10, using: &random) == 0,
                sinceFailure: Bool.random(using: &random) ? 0 : nil
            )
            let action = flow.handle(event, moment)
            if before != flow.state || (before == .asking && isAskedAgain(action)) {
                seen.insert(Step(from: before, to: flow.state))
            }
            _ = flow.takeEffects()
            let completesPart = flow.completesPart
            event = try next(after: flow.state, completesPart: completesPart, &random)
        }
    }

    /// Sometimes the course of a background revalidation after a stale response.
    private func perhapsRefreshing(_ served: consuming CacheFlow, _ random: inout SeededGenerator) throws -> CacheFlow {
        guard Int.random(in: 0..<8, using: &random) == 0 else { return served }
        let moment = CacheFlow.Moment(now: Stage.now, isDoubted: false)
        _ = served.handle(.request, moment)
        if served.state == .lookingUp { _ = served.handle(.found(try found(&random)), moment) }
        if let refreshing = served.refreshing() { return refreshing }
        return CacheFlow(served.question)
    }

    private func isAskedAgain(_ action: CacheFlow.Action) -> Bool {
        if case .give(.forward) = action { true } else { false }
    }

    /// An event that the state waits for, or the end.
    private func next(
        after state: CacheFlow.State,
        completesPart: Bool,
        _ random: inout SeededGenerator
    ) throws -> CacheFlow.Event {
        if Int.random(in: 0..<40, using: &random) == 0 { return .cancelled }
        switch state {
        case .idle: return .request
        case .lookingUp: return .found(try found(&random))
        case .joining:
            return try Self.pick(
                [
                    .joined(nil, isLate: false), .joined(.lead, isLate: false), .joined(.lead, isLate: true),
                    .joined(.goAlone, isLate: false), .joined(.readAlong(try growing(&random)), isLate: false),
                ],
                &random
            )
        case .waiting:
            return try Self.pick(
                [.woken(.lead), .woken(.goAlone), .woken(.lookUp), .woken(.readAlong(try growing(&random)))],
                &random
            )
        case .sharing:
            let found = try found(&random)
            return .shared(Bool.random(using: &random) ? found.entry ?? found.part : nil)
        case .opening: return .opened(Bool.random(using: &random) ? nil : .memory([1, 2, 3]))
        case .asking:
            if Int.random(in: 0..<4, using: &random) == 0 {
                return .failed(try Self.pick([.unreachable, .noConnection, .untrusted, .other], &random))
            }
            if completesPart, Bool.random(using: &random) {
                let fields = try Stage.fields(Self.rest)
                return .head(.init(status: 206, fields: fields, length: 1, mayStore: true, endIsSure: true))
            }
            return .head(
                CacheFlow.OriginHead(
                    status: try Self.pick([200, 200, 206, 304, 304, 503, 404], &random),
                    fields: try Stage.fields(Self.pick(Self.heads, &random)),
                    length: try Self.pick([nil, 1, 3], &random),
                    mayStore: Int.random(in: 0..<8, using: &random) > 0,
                    endIsSure: Int.random(in: 0..<8, using: &random) > 0
                )
            )
        case .storing:
            let body = GrowingBody(in: MemoryStore(capacity: 1000), keeps: true, length: 3)
            return .began(try Self.pick([nil, .tooLarge, .noRoom], &random), body.makeReader())
        case .removing: return .removed
        case .relaying: return .ended(isWhole: Bool.random(using: &random))
        case .finishing: return .settled(isStored: Bool.random(using: &random))
        case .over: return .cancelled
        }
    }

    private func found(_ random: inout SeededGenerator) throws -> CacheStore.Found {
        var found = CacheStore.Found()
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            let isInFile = Bool.random(using: &random)
            found.entries.append(
                CachedEntry(
                    key: try Stage.key("http://a.example/"),
                    response: try Stage.stored(Self.pick(Self.heads, &random)),
                    body: isInFile ? .file(StoredFile(number: 1, length: 3, checksum: 0)) : .memory([1, 2, 3])
                )
            )
        }
        if !found.entries.isEmpty, Int.random(in: 0..<4, using: &random) > 0 {
            found.selected = Int.random(in: found.entries.indices, using: &random)
        } else if Bool.random(using: &random) {
            let parts = StoredParts([1, 2], at: 0, of: 3, isCompletable: true, isInMemoryOnly: false)
            found.part = CachedEntry(
                key: try Stage.key("http://a.example/"),
                response: try Stage.stored([("Cache-Control", "max-age=60"), ("ETag", "\"a\"")]),
                body: .parts(parts)
            )
        }
        return found
    }

    private func growing(_ random: inout SeededGenerator) throws -> GrowingResponse {
        GrowingResponse(
            response: try Stage.stored(Self.pick(Self.heads, &random)),
            length: 3,
            body: GrowingBody(in: MemoryStore(capacity: 1000), keeps: true, length: 3)
        )
    }
}
