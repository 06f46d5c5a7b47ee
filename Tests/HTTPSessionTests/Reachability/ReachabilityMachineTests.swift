// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Reachability's questions and conclusions")
struct ReachabilityMachineTests {
    private let ethernet = NetworkLink(index: 2, flags: 0x41, hardware: 1, name: "eth0")
    private let loopback = NetworkLink(index: 1, flags: 0x49, hardware: 772, name: "lo")
    private let modem = NetworkLink(index: 3, flags: 0x41, hardware: 519, name: "wwan0", kind: "wwan")

    private func machine(_ target: ReachabilityMachine.Target) -> ReachabilityMachine {
        ReachabilityMachine(target) { $0 == "wlan0" }
    }

    /// Answers a round of questions about the whole network.
    private func response(
        _ machine: inout ReachabilityMachine,
        links: [NetworkLink],
        routes: [NetworkRoute]
    ) -> [ReachabilityMachine.Action] {
        for link in links { #expect(machine.received(.link(link)) == []) }
        #expect(machine.received(.done) == [.askRoutes(sequence: machine.sequence)])
        for route in routes { #expect(machine.received(.route(route)) == []) }
        return machine.received(.done)
    }

    @Test("the network is reachable by a default route over a link that runs")
    func defaultRoute() {
        var machine = machine(.everything)
        #expect(machine.networkChanged() == [.askLinks(sequence: 1)])
        let route = NetworkRoute(isDefault: true, link: 2)
        #expect(response(&machine, links: [loopback, ethernet], routes: [route]) == [.report(.reachable(.ethernet))])
    }

    @Test("without a running default route the network is unreachable")
    func noDefaultRoute() {
        var stopped = ethernet
        stopped.flags = 0x1
        let cases: [([NetworkLink], [NetworkRoute])] = [
            ([loopback, ethernet], []),
            ([loopback, ethernet], [NetworkRoute(isDefault: false, link: 2)]),
            ([loopback, stopped], [NetworkRoute(isDefault: true, link: 2)]),
            ([loopback], [NetworkRoute(isDefault: true, link: 1)]),
            ([loopback, ethernet], [NetworkRoute(isDefault: true, link: 9)]),
            ([loopback, ethernet], [NetworkRoute(isDefault: true, isUnicast: false, link: 2)]),
        ]
        for (links, routes) in cases {
            var machine = machine(.everything)
            _ = machine.networkChanged()
            #expect(response(&machine, links: links, routes: routes) == [.report(.notReachable)])
        }
    }

    @Test("of several default routes the working one with the lowest metric decides")
    func metrics() {
        var machine = machine(.everything)
        _ = machine.networkChanged()
        let routes = [
            NetworkRoute(isDefault: true, link: 2, metric: 700), NetworkRoute(isDefault: true, link: 3, metric: 50),
        ]
        #expect(response(&machine, links: [ethernet, modem], routes: routes) == [.report(.reachable(.cellular))])
        _ = machine.networkChanged()
        var gone = modem
        gone.flags = 0x1
        #expect(response(&machine, links: [ethernet, gone], routes: routes) == [.report(.reachable(.ethernet))])
    }

    @Test("an unchanged status is not reported again")
    func toldOnce() {
        var machine = machine(.everything)
        _ = machine.networkChanged()
        #expect(response(&machine, links: [], routes: []) == [.report(.notReachable)])
        #expect(machine.networkChanged() == [.askLinks(sequence: 3)])
        #expect(response(&machine, links: [], routes: []) == [])
    }

    @Test("a change in the middle of a round begins another when it is over")
    func changeInTheMiddle() {
        var machine = machine(.everything)
        _ = machine.networkChanged()
        #expect(machine.networkChanged() == [])
        #expect(response(&machine, links: [], routes: []) == [.report(.notReachable), .askLinks(sequence: 3)])
        #expect(response(&machine, links: [], routes: []) == [])
    }

    @Test("lost replies begin the round again, and unexpected ones are ignored")
    func lostAnswers() {
        var machine = machine(.everything)
        #expect(machine.repliesLost() == [])
        _ = machine.networkChanged()
        _ = machine.received(.link(ethernet))
        #expect(machine.repliesLost() == [.askLinks(sequence: 2)])
        #expect(response(&machine, links: [], routes: []) == [.report(.notReachable)])
        #expect(machine.received(.route(NetworkRoute(isDefault: true, link: 2))) == [])
        #expect(machine.received(.done) == [])
    }

    @Test("a dump that the kernel refuses leaves the status unknown")
    func refusedDump() {
        var machine = machine(.everything)
        _ = machine.networkChanged()
        #expect(response(&machine, links: [], routes: []) == [.report(.notReachable)])
        _ = machine.networkChanged()
        #expect(machine.received(.error(1)) == [.report(.unknown)])
    }

    @Test("an address is reachable when the kernel has a way to it")
    func address() throws {
        let address = try #require(IPAddress("198.51.100.7"))
        var machine = machine(.address(address))
        #expect(machine.networkChanged() == [.askLinks(sequence: 1)])
        #expect(machine.received(.link(ethernet)) == [])
        #expect(machine.received(.done) == [.askRoute(address, sequence: 2)])
        #expect(machine.received(.route(NetworkRoute(isDefault: false, link: 2))) == [.report(.reachable(.ethernet))])
        _ = machine.networkChanged()
        _ = machine.received(.done)
        // ENETUNREACH.
        #expect(machine.received(.error(101)) == [.report(.notReachable)])
    }

    @Test("a name is looked up in each round, and one of its addresses suffices")
    func name() throws {
        let addresses = try [#require(IPAddress("2001:db8::1")), #require(IPAddress("198.51.100.7"))]
        var machine = machine(.name("origin.test"))
        #expect(machine.networkChanged() == [.resolve("origin.test", sequence: 1)])
        #expect(machine.resolved(addresses, sequence: 7) == [])
        #expect(machine.resolved(addresses, sequence: 1) == [.askLinks(sequence: 2)])
        _ = machine.received(.link(ethernet))
        #expect(machine.received(.done) == [.askRoute(addresses[0], sequence: 3)])
        #expect(machine.received(.error(101)) == [.askRoute(addresses[1], sequence: 4)])
        #expect(machine.received(.route(NetworkRoute(isDefault: false, link: 2))) == [.report(.reachable(.ethernet))])
        #expect(machine.networkChanged() == [.resolve("origin.test", sequence: 5)])
        #expect(machine.resolved([], sequence: 5) == [.report(.notReachable)])
    }

    @Test(
        "links are told apart by driver, hardware and radio",
        arguments: [
            ("eth0", 1, "", NetworkReachabilityManager.ConnectionType.ethernet), ("wlan0", 1, "", .wifi),
            ("wwp0s20", 65534, "wwan", .cellular), ("wwan0", 1, "", .cellular), ("ppp0", 512, "", .cellular),
            ("rmnet0", 519, "", .cellular), ("lo", 772, "", .other), ("wg0", 65534, "wireguard", .other),
            ("veth0", 1, "veth", .ethernet),
        ]
    )
    func linkTypes(name: String, hardware: Int, kind: String, type: NetworkReachabilityManager.ConnectionType) {
        let link = NetworkLink(index: 1, flags: 0x41, hardware: UInt16(hardware), name: name, kind: kind)
        #expect(link.connectionType(isWireless: name == "wlan0") == type)
    }
}
