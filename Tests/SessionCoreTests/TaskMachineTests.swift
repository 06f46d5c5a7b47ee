// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The states of a task")
struct TaskMachineTests {
    private enum Event: CaseIterable {
        case resume, suspend, cancel, handOver, finish
    }

    /// Every state that the machine can be in, with the events that lead there.
    private static let ways: [(name: String, events: [Event], state: TaskState, started: Bool)] = [
        ("new", [], .suspended, false),
        ("running", [.resume], .running, true),
        ("held back", [.resume, .suspend], .suspended, true),
        ("canceling, never started", [.cancel], .canceling, false),
        ("canceling", [.resume, .cancel], .canceling, true),
        ("completed, never started", [.finish], .completed, false),
        ("completed", [.resume, .finish], .completed, true),
    ]

    private static func send(_ event: Event, to machine: inout TaskMachine) -> TaskMachine.Action {
        switch event {
        case .resume: machine.resume()
        case .suspend: machine.suspend()
        case .cancel: machine.cancel()
        case .handOver: machine.handOver()
        case .finish: machine.finish()
        }
    }

    private static func machine(_ name: String) throws -> TaskMachine {
        let way = try #require(ways.first { $0.name == name })
        var machine = TaskMachine()
        for event in way.events { _ = send(event, to: &machine) }
        #expect(machine.state == way.state)
        #expect(machine.started == way.started)
        return machine
    }

    @Test("every state handles every event as the table says")
    func table() throws {
        typealias Row = (Event, TaskMachine.Action, TaskState)
        let table: [String: [Row]] = [
            "new": [
                (.resume, .start, .running), (.suspend, .nothing, .suspended), (.cancel, .cancel, .canceling),
                (.handOver, .nothing, .suspended), (.finish, .complete, .completed),
            ],
            "running": [
                (.resume, .nothing, .running), (.suspend, .pause, .suspended), (.cancel, .cancel, .canceling),
                (.handOver, .handOver, .completed), (.finish, .complete, .completed),
            ],
            "held back": [
                (.resume, .unpause, .running), (.suspend, .nothing, .suspended), (.cancel, .cancel, .canceling),
                (.handOver, .handOver, .completed), (.finish, .complete, .completed),
            ],
            "canceling, never started": [
                (.resume, .nothing, .canceling), (.suspend, .nothing, .canceling), (.cancel, .nothing, .canceling),
                (.handOver, .nothing, .canceling), (.finish, .complete, .completed),
            ],
            "canceling": [
                (.resume, .nothing, .canceling), (.suspend, .nothing, .canceling), (.cancel, .nothing, .canceling),
                (.handOver, .nothing, .canceling), (.finish, .complete, .completed),
            ],
            "completed, never started": Event.allCases.map { ($0, .nothing, .completed) },
            "completed": Event.allCases.map { ($0, .nothing, .completed) },
        ]
        #expect(Set(table.keys) == Set(Self.ways.map(\.name)))
        for (name, rows) in table {
            #expect(rows.count == Event.allCases.count, "\(name)")
            for (event, action, state) in rows {
                var machine = try Self.machine(name)
                #expect(Self.send(event, to: &machine) == action, "\(name), \(event)")
                #expect(machine.state == state, "\(name), \(event)")
            }
        }
    }

    /// All that lead to one of the states above do so by these events and no others, so the table is whole.
    @Test("no sequence of events leads outside the states of the table")
    func closure() {
        var known: [TaskMachine] = [TaskMachine()]
        var next = 0
        while next < known.count {
            for event in Event.allCases {
                var machine = known[next]
                _ = Self.send(event, to: &machine)
                if !known.contains(machine) { known.append(machine) }
            }
            next += 1
        }
        #expect(known.count == Self.ways.count)
    }

    @Test("a task that takes over a transfer continues in its state")
    func takingOver() throws {
        var held = try Self.machine("held back")
        var successor = TaskMachine(takingOver: held)
        #expect(held.handOver() == .handOver)
        #expect(successor.resume() == .unpause)
    }
}
