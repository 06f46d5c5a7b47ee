// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyAdmin
@testable import ProxyCore

@Suite("The text format of Prometheus")
struct ExpositionTextTests {
    @Test("a metric has help, type and samples, in this order")
    func metric() {
        var text = ExpositionText()
        text.begin("a_total", .counter, "What a is.")
        text.sample(7, ("kind", "x"))
        text.sample(0, ("kind", "y"), ("other", "z"))
        text.add("b", .gauge, "What b is.", -3)
        text.begin("c", .gauge, "A flag.")
        text.sample(true)
        #expect(
            text.text == """
                # HELP a_total What a is.
                # TYPE a_total counter
                a_total{kind="x"} 7
                a_total{kind="y",other="z"} 0
                # HELP b What b is.
                # TYPE b gauge
                b -3
                # HELP c A flag.
                # TYPE c gauge
                c 1

                """
        )
    }

    @Test("backslash, quotation mark and line end are escaped where necessary")
    func escaping() {
        var text = ExpositionText()
        text.begin("a", .gauge, "a \"b\" \\ c\nd")
        text.sample(1, ("name", "a \"b\" \\ c\nd"))
        #expect(text.text == "# HELP a a \"b\" \\\\ c\\nd\n# TYPE a gauge\na{name=\"a \\\"b\\\" \\\\ c\\nd\"} 1\n")
    }

    @Test("a label value is cut at 256 characters")
    func longLabels() {
        var text = ExpositionText()
        text.begin("a", .gauge, "A.")
        text.sample(1, ("name", String(repeating: "ü", count: 257) + "end"))
        text.sample(2, ("name", String(repeating: "x", count: 256)))
        let lines = text.text.split(separator: "\n").dropFirst(2)
        #expect(
            Array(lines) == [
                "a{name=\"\(String(repeating: "ü", count: 256))\"} 1",
                "a{name=\"\(String(repeating: "x", count: 256))\"} 2",
            ]
        )
    }

    @Test("the buckets of a histogram are cumulative")
    func histogram() {
        var text = ExpositionText()
        text.begin("t", .histogram, "Times.")
        text.histogram(bounds: [1_000, 2_500_000], counts: [3, 0, 4], sum: 12_000_500)
        #expect(
            text.text.split(separator: "\n").dropFirst(2) == [
                "t_bucket{le=\"0.001\"} 3", "t_bucket{le=\"2.5\"} 3", "t_bucket{le=\"+Inf\"} 7", "t_sum 12.0005",
                "t_count 7",
            ]
        )
    }

    @Test(
        "times are exact in seconds",
        arguments: [
            (0, "0"), (1, "0.000001"), (1_000_000, "1"), (1_500_000, "1.5"), (61_000_010, "61.00001"),
            (-250_000, "-0.25"),
        ]
    )
    func seconds(microseconds: Int, text: String) {
        #expect(ExpositionText.seconds(microseconds) == text)
    }
}
