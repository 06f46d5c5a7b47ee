// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import Testing

@testable import ProxyCore

@Suite("The counters of a worker")
struct WorkerCountersTests {
    private func note(
        _ counters: WorkerCounters,
        status: Int?,
        error: Problem.Code? = nil,
        duration: Int64 = 0
    ) {
        counters.noteTask(status: status, error: error, bytesFromClient: 3, bytesToClient: 5, duration: duration)
    }

    @Test("a task is counted by the class of its status, and by its error")
    func tasks() {
        let counters = WorkerCounters()
        for status in [200, 204, 304, 404, 502, 599] { note(counters, status: status) }
        note(counters, status: 502, error: .pinMismatch)
        note(counters, status: nil, error: .clientClosed)
        let reading = counters.reading
        #expect(reading.tasks == [1, 0, 2, 1, 1, 3])
        let errors = zip(WorkerCounters.Reading.codes, reading.errors).filter { $0.1 > 0 }
        #expect(errors.map(\.0) == [.pinMismatch, .clientClosed] && errors.map(\.1) == [1, 1])
        #expect(reading.bodyBytesFromClients == 24 && reading.bodyBytesToClients == 40)
    }

    @Test("every status and every error has its own counter")
    func places() {
        let counters = WorkerCounters()
        for code in Problem.Code.allCases { note(counters, status: code.status, error: code) }
        for verdict in TrustEvaluation.Verdict.allCases {
            for group in WorkerCounters.Reading.groups { counters.noteHandshake(verdict, group) }
        }
        counters.noteHandshake(.pass, .p256)
        for status in [0, 100, 999, 1234] { note(counters, status: status) }
        let reading = counters.reading
        #expect(reading.errors == Array(repeating: 1, count: Problem.Code.allCases.count))
        var handshakes = Array(repeating: 1, count: TrustEvaluation.Verdict.allCases.count * 6)
        handshakes[WorkerCounters.Reading.place(.pass, .p256)] = 2
        #expect(reading.handshakes == handshakes)
        #expect(reading.tasks.reduce(0, +) == Problem.Code.allCases.count + 4)
        #expect(reading.clientConnections == 0 && reading.refusedConnections == 0)
    }

    @Test("a time counts in the first bucket that contains it")
    func durations() {
        let counters = WorkerCounters()
        let bounds = WorkerCounters.Reading.durationBounds
        #expect(bounds == bounds.sorted() && Set(bounds).count == bounds.count)
        for bound in bounds { note(counters, status: 200, duration: bound) }
        note(counters, status: 200, duration: 0)
        note(counters, status: 200, duration: bounds[0] + 1)
        note(counters, status: 200, duration: bounds[bounds.count - 1] + 1)
        var expected = Array(repeating: 1, count: bounds.count + 1)
        expected[0] += 1
        expected[1] += 1
        #expect(counters.reading.durations == expected)
        #expect(counters.reading.durationSum == Int(bounds.reduce(0, +) + bounds[0] + 1 + bounds[bounds.count - 1] + 1))
    }

    @Test("the numbers of several workers are added")
    func sums() {
        let (one, other) = (WorkerCounters(), WorkerCounters())
        one.noteConnection()
        other.noteConnection()
        other.noteRefusedConnection(at: 1_800_000_007)
        one.noteRefusedConnection(at: 1_800_000_005)
        note(one, status: 200)
        note(other, status: 200)
        var reading = WorkerCounters.Reading()
        for counters in [one, other] { counters.add(to: &reading) }
        #expect(reading.clientConnections == 2 && reading.refusedConnections == 2)
        #expect(reading.lastRefusal == 1_800_000_007)
        #expect(reading.tasks == [0, 0, 2, 0, 0, 0])
    }
}
