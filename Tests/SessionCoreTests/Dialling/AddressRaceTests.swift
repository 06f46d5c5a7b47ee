// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import SessionCore

@Suite("Which address of a name is dialled, and when")
struct AddressRaceTests {
    private static let millisecond: UInt64 = 1_000_000

    private static func v4(_ number: UInt32) -> SocketAddress { SocketAddress(ipv4: number, port: 443) }
    private static func v6(_ number: UInt64) -> SocketAddress {
        SocketAddress(ipv6Upper: 0x2001_0DB8 << 32, lower: number, port: 443)
    }

    /// A race with what it has said so far.
    private struct Course {
        var race: AddressRace
        var failed: FailedAddresses
        private(set) var dialled: [SocketAddress] = []
        private(set) var givenUp: [SocketAddress] = []
        private(set) var last = AddressRace.Step.end

        init(
            _ addresses: [SocketAddress],
            delay: TimeSpan = AddressRace.attemptDelay,
            behind failed: FailedAddresses = .init(),
            at time: UInt64 = 0
        ) {
            self.failed = failed
            race = AddressRace(addresses, delay: delay, behind: failed, at: time * millisecond)
            proceed(at: time)
        }

        /// Takes steps until there is none, and has it told what is new.
        @discardableResult
        mutating func proceed(at time: UInt64) -> [SocketAddress] {
            var new: [SocketAddress] = []
            while true {
                last = race.step(at: time * millisecond, &failed)
                switch last {
                case .dial(let address): new.append(address)
                case .giveUp(let address): givenUp.append(address)
                case .judge, .wait, .end:
                    dialled += new
                    return new
                }
            }
        }

        @discardableResult
        mutating func fail(_ address: SocketAddress, isItsOwn: Bool = true, at time: UInt64) -> [SocketAddress] {
            race.didFail(address, isItsOwn: isItsOwn, at: time * millisecond, &failed)
            return proceed(at: time)
        }

        mutating func connect(_ address: SocketAddress, at time: UInt64) {
            race.didConnect(address, at: time * millisecond, &failed)
            proceed(at: time)
        }

        func hasFailed(_ address: SocketAddress, at time: UInt64) -> Bool {
            failed.contains(address, at: time * millisecond)
        }
    }

    private static func wait(_ time: UInt64) -> AddressRace.Step { .wait(until: time * millisecond) }

    // MARK: The order

    @Test("the families take turns, from the first address's; each address has one")
    func turns() {
        let (a, b, c) = (Self.v6(1), Self.v6(2), Self.v6(3))
        let (x, y) = (Self.v4(1), Self.v4(2))
        for (given, order) in [
            ([a, b, c, x, y], [a, x, b, y, c]), ([x, y, a, b, c], [x, a, y, b, c]), ([a, a, b, a], [a, b]),
            ([x, y], [x, y]), ([], []),
        ] {
            var course = Course(given)
            for address in order { course.fail(address, at: 0) }
            #expect(course.dialled == order)
            #expect(course.last == .end)
        }
    }

    @Test("recently failed addresses come last, in turns, for a minute")
    func failedOnesLast() {
        var failed = FailedAddresses()
        let (a, b, x, y) = (Self.v6(1), Self.v6(2), Self.v4(1), Self.v4(2))
        for address in [a, b] { failed.note(address, at: 0) }
        func order(at time: UInt64) -> [SocketAddress] {
            var course = Course([a, b, x, y], behind: failed, at: time)
            for _ in 0..<4 { course.fail(course.dialled.last!, at: time) }
            return course.dialled
        }
        #expect(order(at: 59_999) == [x, y, a, b])
        #expect(order(at: 60_000) == [a, x, b, y])
        failed.note(x, at: 0)
        failed.note(y, at: 0)
        #expect(order(at: 1) == [a, x, b, y])
    }

    // MARK: When

    @Test("a single address is dialled without waiting, and its failure is not remembered")
    func alone() {
        var course = Course([Self.v4(1)])
        #expect(course.dialled == [Self.v4(1)] && course.last == .wait(until: nil))
        #expect(course.race.isAlone)
        course.fail(Self.v4(1), at: 5)
        #expect(course.last == .end)
        #expect(course.failed.count == 0)
        var twice = Course([Self.v4(1), Self.v4(1)])
        #expect(twice.race.isAlone)
        twice.race.giveUp(at: 10_000 * Self.millisecond, &twice.failed)
        #expect(twice.failed.count == 0)
    }

    @Test("the next address is dialled after 250 ms, or at once after a failure")
    func delay() {
        var course = Course([1, 2, 3, 4].map { Self.v4($0) })
        #expect(course.dialled == [Self.v4(1)] && course.last == Self.wait(250))
        #expect(course.proceed(at: 249).isEmpty)
        #expect(course.proceed(at: 250) == [Self.v4(2)])
        #expect(course.last == Self.wait(500))
        #expect(course.fail(Self.v4(1), at: 300) == [Self.v4(3)])
        // The delay counts from the last dial.
        #expect(course.last == Self.wait(550))
        #expect(course.proceed(at: 550) == [Self.v4(4)])
        #expect(course.last == .wait(until: nil))
        for number: UInt32 in 2...4 { course.fail(Self.v4(number), at: 600) }
        #expect(course.last == .end)
    }

    @Test("four are dialled at a time; after two seconds the first gives way")
    func limit() {
        var course = Course((1...6).map { Self.v4($0) })
        for time: UInt64 in [250, 500, 750, 1000, 1999] { course.proceed(at: time) }
        #expect(course.dialled == (1...4).map { Self.v4($0) } && course.givenUp.isEmpty)
        #expect(course.last == Self.wait(2000))
        #expect(course.proceed(at: 2000) == [Self.v4(5)])
        #expect(course.givenUp == [Self.v4(1)] && course.hasFailed(Self.v4(1), at: 2000))
        #expect(course.last == Self.wait(2250))
        #expect(course.proceed(at: 2250) == [Self.v4(6)])
        #expect(course.givenUp == [Self.v4(1), Self.v4(2)])
        #expect(course.proceed(at: 2500) == [Self.v4(1)])
        // One that fails leaves its place at once.
        #expect(course.fail(Self.v4(5), at: 2600) == [Self.v4(2)])
        #expect(course.fail(Self.v4(6), at: 2600) == [Self.v4(3)])
    }

    // MARK: The end

    @Test("when an address connects, the others stop, and earlier ones rank last")
    func connected() {
        var course = Course((1...3).map { Self.v4($0) })
        course.proceed(at: 250)
        course.proceed(at: 500)
        course.connect(Self.v4(2), at: 501)
        #expect(Set(course.givenUp) == [Self.v4(1), Self.v4(3)] && course.last == .wait(until: nil))
        #expect(course.hasFailed(Self.v4(1), at: 501) && !course.hasFailed(Self.v4(3), at: 501))
        #expect(!course.hasFailed(Self.v4(1), at: 60_501))
    }

    @Test("an address that fails after connecting lets the race continue")
    func leftBehind() {
        var course = Course((1...3).map { Self.v4($0) })
        course.proceed(at: 250)
        course.connect(Self.v4(2), at: 300)
        #expect(course.race.hasOthers)
        #expect(course.fail(Self.v4(2), at: 301) == [Self.v4(3)])
        #expect(course.hasFailed(Self.v4(2), at: 301))
        #expect(course.fail(Self.v4(3), at: 302) == [Self.v4(1)])
        course.connect(Self.v4(1), at: 303)
        #expect(!course.race.hasOthers)
        course.fail(Self.v4(1), at: 304)
        #expect(course.last == .end)
    }

    @Test("an address that has to respond has three seconds, if there are others")
    func judged() {
        var course = Course([Self.v4(1), Self.v4(2)])
        course.connect(Self.v4(1), at: 100)
        #expect(course.last == .wait(until: nil))
        course.race.awaitAnswer()
        course.proceed(at: 100)
        #expect(course.last == Self.wait(3100))
        course.proceed(at: 3100)
        #expect(course.last == .judge(Self.v4(1)))
        var answered = course
        answered.race.didAnswer(&answered.failed)
        #expect(answered.proceed(at: 3100).isEmpty)
        #expect(answered.last == .wait(until: nil))
        #expect(course.fail(Self.v4(1), at: 3100) == [Self.v4(2)])
        course.connect(Self.v4(2), at: 3200)
        course.race.awaitAnswer()
        course.proceed(at: 3200)
        #expect(course.last == .wait(until: nil))
        #expect(course.hasFailed(Self.v4(1), at: 3200) && !course.hasFailed(Self.v4(2), at: 3200))
    }

    @Test("an address that has responded is no longer remembered as failed")
    func answered() {
        var failed = FailedAddresses()
        for number: UInt32 in 1...2 { failed.note(Self.v4(number), at: 0) }
        var course = Course([Self.v4(1), Self.v4(2)], behind: failed)
        course.connect(Self.v4(1), at: 10)
        course.race.awaitAnswer()
        course.race.didAnswer(&course.failed)
        course.race.giveUp(at: 5000 * Self.millisecond, &course.failed)
        #expect(!course.hasFailed(Self.v4(1), at: 10) && course.hasFailed(Self.v4(2), at: 10))
    }

    @Test("a cancelled race remembers addresses that were silent for a second")
    func givenUp() {
        var course = Course([Self.v4(1), Self.v4(2), Self.v4(3)])
        course.proceed(at: 250)
        course.race.giveUp(at: 1249 * Self.millisecond, &course.failed)
        #expect(course.hasFailed(Self.v4(1), at: 1249) && !course.hasFailed(Self.v4(2), at: 1249))

        // One that may take its time, and one that may not.
        for isAwaited in [false, true] {
            var connected = Course([Self.v4(1), Self.v4(2)])
            connected.connect(Self.v4(1), at: 10)
            if isAwaited { connected.race.awaitAnswer() }
            connected.race.giveUp(at: 1010 * Self.millisecond, &connected.failed)
            #expect(connected.hasFailed(Self.v4(1), at: 1010) == isAwaited)
        }
    }

    @Test("a failure that is not the address's own is not remembered")
    func othersFault() {
        var course = Course([Self.v4(1), Self.v4(2)])
        #expect(course.fail(Self.v4(1), isItsOwn: false, at: 1) == [Self.v4(2)])
        #expect(course.failed.count == 0)
    }

    // MARK: The memory

    @Test("the memory is bounded: the oldest failure is forgotten first")
    func bounded() {
        var failed = FailedAddresses()
        for number in 0..<UInt32(FailedAddresses.capacity) { failed.note(Self.v4(number), at: UInt64(number)) }
        failed.note(Self.v4(0), at: 1000)
        failed.note(Self.v4(9999), at: 1000)
        #expect(failed.count == FailedAddresses.capacity)
        #expect(failed.contains(Self.v4(0), at: 1000) && failed.contains(Self.v4(9999), at: 1000))
        #expect(!failed.contains(Self.v4(1), at: 1000) && failed.contains(Self.v4(2), at: 1000))
        // Those whose time is over go first.
        failed.note(Self.v4(1), at: 61_000_000_000)
        #expect(failed.count == 1)
    }
}
