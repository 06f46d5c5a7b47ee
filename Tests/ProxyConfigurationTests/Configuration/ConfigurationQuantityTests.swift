// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import ProxyConfiguration

@Suite("durations, sizes and addresses of the configuration")
struct ConfigurationQuantityTests {
    @Test(
        "a duration is a whole number and a unit",
        arguments: [
            ("1ms", 1), ("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("240h", 864_000_000),
        ]
    )
    func durations(text: String, milliseconds: Int) {
        #expect(Milliseconds(parsing: text)?.count == milliseconds)
    }

    @Test(
        "an invalid duration is refused",
        arguments: [
            "", "s", "10", "0s", "05s", "-1s", "+1s", "1.5s", "1 s", " 1s", "1s ", "1S", "1sec", "1d", "241h", "1e3s",
            "99999999999999999999s", "9223372036854775807h", "١s",
        ]
    )
    func badDurations(text: String) {
        #expect(Milliseconds(parsing: text) == nil)
    }

    @Test(
        "a duration describes itself as a configuration would write it",
        arguments: ["250ms", "30s", "5m", "1h", "90s", "1500ms"]
    )
    func durationText(text: String) {
        #expect(Milliseconds(parsing: text)?.description == text)
    }

    @Test(
        "sizes are in powers of 1,024",
        arguments: [("1KB", 1024), ("64KB", 65536), ("10MB", 10_485_760), ("1GB", 1 << 30)]
    )
    func sizes(text: String, bytes: Int) {
        #expect(ByteCount.parse(text) == bytes)
        #expect(ByteCount.describe(bytes) == text)
    }

    @Test(
        "an invalid size is refused",
        arguments: ["", "64", "0KB", "064KB", "64kb", "64K", "64KiB", "64 KB", "-1KB", "1.5MB", "1TB", "99999999999GB"]
    )
    func badSizes(text: String) {
        #expect(ByteCount.parse(text) == nil)
    }

    @Test(
        "an address with a port reads and writes alike",
        arguments: ["127.0.0.1:8080", "0.0.0.0:0", "[::1]:65535", "[2001:db8::1]:443", "192.0.2.1:1"]
    )
    func addresses(text: String) throws {
        let address = try AddressAndPort(parsing: text)
        #expect(address.description == text)
        #expect(AddressAndPort(address.socketAddress) == address)
    }

    @Test(
        "an invalid address with port is refused with its reason",
        arguments: [
            ("127.0.0.1", AddressAndPort.Fault.portMissing), ("[::1]", .portMissing), ("", .portMissing),
            ("127.0.0.1:", .portInvalid), ("127.0.0.1:65536", .portInvalid), ("127.0.0.1:080", .portInvalid),
            ("127.0.0.1:-1", .portInvalid), ("127.0.0.1:http", .portInvalid), ("127.0.0.1:999999", .portInvalid),
            ("::1:8080", .bracketsMissing), ("localhost:8080", .addressInvalid), (":8080", .addressInvalid),
            ("127.1:8080", .addressInvalid), ("[127.0.0.1]:80", .addressInvalid), ("[::1:80", .addressInvalid),
            ("[]:80", .addressInvalid), ("[::g]:80", .addressInvalid),
        ]
    )
    func badAddresses(text: String, fault: AddressAndPort.Fault) {
        #expect(throws: fault) { try AddressAndPort(parsing: text) }
    }
}
