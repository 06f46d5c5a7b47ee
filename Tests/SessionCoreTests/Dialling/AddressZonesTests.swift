import IOCore
import Testing

@testable import SessionCore

@Suite("Zones of link-local addresses")
struct AddressZonesTests {
    private func linkLocal(_ last: UInt64, port: UInt16 = 0, zone: UInt32 = 0) -> SocketAddress {
        SocketAddress(ipv6Upper: 0xFE80 << 48, lower: last, port: port, scope: zone)
    }

    @Test("an address that libcurl dials gets the zone that the resolver has told, once for each zone")
    func found() {
        var zones = AddressZones([
            linkLocal(1, zone: 2), linkLocal(2), linkLocal(1, zone: 3), SocketAddress(ipv4: 1, port: 0),
        ])
        #expect(zones.removeAddress(like: linkLocal(2, port: 443)) == nil)
        #expect(zones.removeAddress(like: SocketAddress(ipv4: 1, port: 443)) == nil)
        #expect(zones.removeAddress(like: linkLocal(1, port: 443)) == linkLocal(1, zone: 2))
        #expect(zones.removeAddress(like: linkLocal(1, port: 443)) == linkLocal(1, zone: 3))
        #expect(zones.removeAddress(like: linkLocal(1, port: 443)) == nil)
    }
}
