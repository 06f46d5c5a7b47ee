// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore
import Testing

@Suite("The body of a response that is not delivered")
struct UnwantedBodyTests {
    @Test("a body of at most 64 KiB, or of unknown length, is worth reading")
    func framing() {
        #expect(UnwantedBody.isWorthReading(.none))
        #expect(UnwantedBody.isWorthReading(.length(UnwantedBody.limit)))
        #expect(!UnwantedBody.isWorthReading(.length(UnwantedBody.limit + 1)))
        #expect(UnwantedBody.isWorthReading(.chunked))
        #expect(UnwantedBody.isWorthReading(.untilClose))
    }

    @Test("a body of unknown length is read until it exceeds the limit")
    func counting() {
        var body = UnwantedBody()
        let steps = [UnwantedBody.limit - 1, 1, 1].map { body.didReceive($0) }
        #expect(steps == [true, true, false])
    }
}
