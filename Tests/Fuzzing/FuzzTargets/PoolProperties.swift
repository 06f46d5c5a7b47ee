import SessionCore

/// The pool of one host's connections: each byte of an input is an event.
enum PoolProperties {
    private final class Waiter {}
    private final class Connection {}

    /// Never are there more connections than the limit allows; no request waits where one could be made, and each gets one
    /// connection, in the order in which they came.
    static func events(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let first = bytes.first else { return }
        let limit = 1 + Int(first) % 5
        var pool = HostPool<Connection, Waiter>(limit: limit)
        var active: [Waiter] = []
        var idle: [Connection] = []
        var waiting: [Waiter] = []

        func begin(_ waiter: Waiter) throws(FuzzFinding) {
            guard waiting.first === waiter else { throw FuzzFinding("a request overtakes another one") }
            waiting.removeFirst()
            active.append(waiter)
        }

        for byte in bytes.dropFirst() {
            let isUsable = byte & 0x80 == 0
            let place = Int(byte & 0x7F) / 5
            switch byte % 5 {
            case 0, 1:
                let waiter = Waiter()
                switch pool.enter(waiter, isUsable: { _ in isUsable }) {
                case .use(let connection):
                    guard isUsable, let index = idle.firstIndex(where: { $0 === connection }) else {
                        throw FuzzFinding("a connection is used that is not idle")
                    }
                    idle.remove(at: index)
                    active.append(waiter)
                case .make: active.append(waiter)
                case .replace(let connection):
                    guard idle.first === connection else { throw FuzzFinding("not the oldest connection is closed") }
                    idle.removeFirst()
                    active.append(waiter)
                case .wait: waiting.append(waiter)
                }
            case 2, 3:
                guard !active.isEmpty else { continue }
                active.remove(at: place % active.count)
                let kept = byte % 5 == 2 ? Connection() : nil
                switch pool.leave(keeping: kept, isUsable: { _, _ in isUsable }) {
                case .none: guard kept == nil else { throw FuzzFinding("a connection is lost") }
                case .idle: idle.append(kept!)
                case .use(let waiter, let connection):
                    guard isUsable, connection === kept else { throw FuzzFinding("another connection is used") }
                    try begin(waiter)
                case .make(let waiter): try begin(waiter)
                case .replace(let waiter, let connection):
                    guard connection === kept else { throw FuzzFinding("another connection is closed") }
                    try begin(waiter)
                }
            default:
                if isUsable, !waiting.isEmpty {
                    pool.withdraw(waiting.remove(at: place % waiting.count))
                } else if !idle.isEmpty {
                    let connection = idle.remove(at: place % idle.count)
                    guard pool.remove(connection) else { throw FuzzFinding("an idle connection is not there") }
                }
            }
            guard pool.activeCount == active.count, pool.idleCount == idle.count,
                pool.waiters.elementsEqual(waiting, by: ===)
            else { throw FuzzFinding("the pool miscounts") }
            guard active.count + idle.count <= limit else { throw FuzzFinding("more connections than the limit") }
            guard waiting.isEmpty || active.count == limit else { throw FuzzFinding("a request waits in vain") }
            guard pool.isEmpty == (active.isEmpty && idle.isEmpty && waiting.isEmpty) else {
                throw FuzzFinding("the pool does not know that it is empty")
            }
        }
    }
}
