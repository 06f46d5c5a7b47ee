// SPDX-License-Identifier: Apache-2.0
import HTTPSessionCore
import Testing

@testable import pinproxy

@Suite("Command line: parts of fetch")
struct FetchPartsTests {
    @Test("sizes have thousands as unit, and one decimal")
    func sizes() {
        let cases: [(Int64, String)] = [
            (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1049, "1.0 kB"), (1050, "1.1 kB"), (999_949, "999.9 kB"),
            (999_950, "1.0 MB"), (29_100_000, "29.1 MB"), (2_147_483_648, "2.1 GB"), (.max, "9223372.0 TB"),
        ]
        for (bytes, text) in cases { #expect(TransferMeter.size(bytes) == text) }
    }

    @Test("times are rounded up to seconds")
    func times() {
        let cases: [(Double, String)] = [
            (0, "0:00"), (0.1, "0:01"), (59.5, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (.infinity, "over 99 h"),
        ]
        for (seconds, text) in cases { #expect(TransferMeter.time(seconds) == text) }
    }

    @Test("the rate covers the last seconds, and the line shows the rest")
    func meter() {
        var meter = TransferMeter()
        #expect(meter.line(TaskProgress(completedBytes: 5, totalBytes: nil)) == "5 B")
        meter.add(0, at: 10)
        #expect(meter.rate == nil)
        for second in 1...10 { meter.add(Int64(second) * 1_000_000, at: 10 + Double(second)) }
        #expect(meter.rate == 1_000_000)
        // Faster from now on: what was long ago does not count.
        for second in 1...6 { meter.add(10_000_000 + Int64(second) * 3_000_000, at: 20 + Double(second)) }
        #expect(meter.rate == 3_000_000)
        #expect(
            meter.line(TaskProgress(completedBytes: 28_000_000, totalBytes: 56_000_000))
                == "[============>           ]  50 %   28.0 MB of 56.0 MB   3.0 MB/s   0:10 left"
        )
        #expect(
            meter.line(TaskProgress(completedBytes: 56_000_000, totalBytes: 56_000_000))
                == "[========================] 100 %   56.0 MB of 56.0 MB   3.0 MB/s   0:00 left"
        )
    }

    @Test("milliseconds have three places")
    func milliseconds() {
        let cases: [(Int64, String)] = [(0, "0.000"), (5, "0.005"), (12_345, "12.345"), (-1, "-0.001")]
        for (time, text) in cases { #expect(Waterfall.milliseconds(time) == text) }
    }

    @Test("options have letters, values behind or attached, and repetitions")
    func letters() throws {
        let arguments = try Arguments(["-o", "a", "-Hb: c", "--header", "d: e", "-i", "URL"][...], of: .fetch)
        #expect(
            arguments["output"] == "a" && arguments.lists["header"] == ["b: c", "d: e"] && arguments.has("include")
        )
        #expect(arguments.operands == ["URL"])
        for words in [["-o", "a", "-o", "b", "URL"], ["-ix", "URL"], ["-q", "URL"], ["URL", "-o"]] {
            #expect(throws: CommandFailure.self) { try Arguments(words[...], of: .fetch) }
        }
    }
}
