// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// Stores responses in Redis and gives leases back, for one loop. No request waits for it.
final class RedisWriter {
    private let loop: EventLoop
    private let nodes: RedisNodes
    private let state: SharedState
    private let room = BodyRoom(16 << 20)
    var isClosed = false {
        didSet {
            loop.remove(repetition)
            unreleased = []
        }
    }
    /// Leases whose release has failed, with the time when they are over anyway.
    private var unreleased: [Release] = []
    private let repetition = LoopTimer()

    private struct Release {
        let command: RedisCommand
        let key: [UInt8]
        let until: UInt64
    }

    private static let unreleasedAtMost = 1000
    private static let pause = TimeSpan.milliseconds(200)

    /// How long others go alone after a response that was not for others.
    private static let unwantedMilliseconds = RedisScript.number(10_000)
    private static let unwanted: [UInt8] = [UInt8(ascii: "-")]

    init(_ loop: EventLoop, _ nodes: RedisNodes, _ state: SharedState) {
        self.loop = loop
        self.nodes = nodes
        self.state = state
        repetition.whenDue { [weak self] in self?.releaseAgain() }
    }

    /// A response on its way to Redis: a command is sent when the one before it has succeeded, so that look-ups find their place
    /// between the chunks.
    private struct Course {
        let ticket: RedisTicket
        let entry: CachedEntry
        let bytes: StoredBytes
        let milliseconds: [UInt8]
        /// Of the response; that of the ticket then has the names of the Vary fields.
        let field: [UInt8]
        let identifier: [UInt8] = .random(16)
        /// The number of chunks; 0 for a body in its record.
        let chunks: Int
        let size: Int
        var index = 0
    }

    func store(_ entry: CachedEntry, with ticket: RedisTicket) {
        guard !isClosed, !ticket.isUsed else { return }
        ticket.isUsed = true
        func refuse(_ reason: String, isForOthers: Bool = true) {
            state.counters.count { $0.notStored[reason, default: 0] += 1 }
            releaseLease(of: ticket, isForOthers: isForOthers)
        }
        guard case .memory(let bytes) = entry.body, bytes.count <= state.settings.maximumBody,
            bytes.count <= SharedRecord.chunksAtMost * SharedRecord.chunkSize
        else { return refuse("tooLarge", isForOthers: false) }
        let now = Int(loop.wallClock / 1_000_000)
        let (request, options) = (ticket.question.request, state.judge.options)
        let lifetime = SharedJudge.lifetime(of: entry.response, request.grace, options, now: now)
        guard lifetime > 0 else { return refuse("useless", isForOthers: false) }
        guard entry.key == ticket.question.key, entry.response.matches(request, under: ticket.question.digest, options),
            loop.now &- ticket.madeAt < TimeSpan.seconds(RedisTicket.validity).nanoseconds
        else { return refuse("changed") }
        let size = bytes.count + 4096
        guard room.take(size) else { return refuse("busy") }
        let vary = entry.response.selecting.names
        let isInline = bytes.count <= SharedRecord.inlineAtMost
        proceed(
            Course(
                ticket: ticket,
                entry: entry,
                bytes: bytes,
                milliseconds: RedisScript.number(lifetime * 1000),
                field: vary.isEmpty
                    ? ticket.names.field
                    : ticket.names.field(for: request.fields, names: vary, state.secret),
                chunks: isInline ? 0 : (bytes.count + SharedRecord.chunkSize - 1) / SharedRecord.chunkSize,
                size: size
            )
        )
    }

    /// Sends the next command: the chunks, the record, and at last the names of the Vary fields, so that what is found is complete.
    private func proceed(_ course: Course) {
        let (names, field) = (course.ticket.names, course.field)
        let judge = state.judge
        switch course.index - course.chunks {
        case ..<0:
            let range = SharedJudge.range(course.index, length: course.bytes.count)
            let chunk = Self.copy(course.bytes, range)
            let sealed = judge.sealed(chunk, course.index, of: course.identifier, course.chunks, names.key, field)
            send(SharedNames.chunk(field, course.index), sealed, course)
        case 0:
            let sealed = state.secret.seal(record(course).encoded(), .record, at: [names.key, field])
            guard sealed.count <= SharedJudge.recordAtMost else { return abandon(course, "tooLarge") }
            send(field, sealed, course)
        case 1 where field != names.field:
            let record = SharedRecord.variants(course.entry.response.selecting.names)
            send(names.field, state.secret.seal(record.encoded(), .record, at: [names.key, names.field]), course)
        default:
            state.counters.count { $0.stored += 1 }
            end(course)
        }
    }

    private func record(_ course: Course) -> SharedRecord {
        let (entry, count) = (course.entry, course.bytes.count)
        return .response(
            SharedRecord.Response(
                purgeNumber: course.ticket.number,
                generation: course.ticket.generation,
                uri: entry.key.uri,
                part: entry.key.part,
                response: entry.response,
                tags: entry.tags,
                body: course.chunks == 0
                    ? .inline(course.bytes.bytes)
                    : .chunks(identifier: course.identifier, count: course.chunks, length: count)
            )
        )
    }

    private func send(_ field: [UInt8], _ value: [UInt8], _ course: Course) {
        let key = course.ticket.names.key
        let command = RedisScript.store.command([key], [course.ticket.generation, course.milliseconds, field, value])
        nodes.send(command, key: key, by: deadline) { [self] result in
            var course = course
            course.index += 1
            switch result.integer {
            case .success(1) where !isClosed: proceed(course)
            case .success(0): abandon(course, "changed")
            default: abandon(course, "failed")
            }
        }
    }

    private func abandon(_ course: Course, _ reason: String) {
        state.counters.count { $0.notStored[reason, default: 0] += 1 }
        end(course)
    }

    private func end(_ course: Course) {
        room.giveBack(course.size)
        releaseLease(of: course.ticket, isForOthers: true)
    }

    private static func copy(_ bytes: StoredBytes, _ range: Range<Int>) -> [UInt8] {
        var copy: [UInt8] = []
        copy.reserveCapacity(range.count)
        var start = range.lowerBound
        while start < range.upperBound {
            let piece = bytes.contiguous(start..<range.upperBound)
            copy.append(bytes.span(piece))
            start = piece.upperBound
        }
        return copy
    }

    // MARK: - Leases

    func giveBack(_ ticket: RedisTicket, isForOthers: Bool) {
        guard !ticket.isUsed else { return }
        ticket.isUsed = true
        releaseLease(of: ticket, isForOthers: isForOthers)
    }

    private func releaseLease(of ticket: RedisTicket, isForOthers: Bool) {
        guard !isClosed, let token = ticket.token else { return }
        let arguments = [token, isForOthers ? [] : Self.unwanted, Self.unwantedMilliseconds]
        let command = RedisScript.release.command([ticket.names.lease], arguments)
        release(Release(command: command, key: ticket.names.key, until: loop.now &+ state.settings.lease.nanoseconds))
    }

    /// Others wait as long as the lease is there: a release that fails, as while the breaker is open, is repeated.
    private func release(_ release: Release) {
        nodes.send(release.command, key: release.key, by: deadline) { [weak self] result in
            guard let self, !isClosed, case .failure = result, loop.now < release.until,
                unreleased.count < Self.unreleasedAtMost
            else { return }
            unreleased.append(release)
            if !repetition.isArmed { loop.arm(repetition, after: Self.pause) }
        }
    }

    private func releaseAgain() {
        let again = unreleased
        unreleased = []
        for lease in again { release(lease) }
    }

    private var deadline: UInt64 { loop.now &+ state.settings.patientTimeout.nanoseconds }
}
