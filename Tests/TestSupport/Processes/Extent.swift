// SPDX-License-Identifier: Apache-2.0
/// How much a test tries where more of the same finds what is rare: `PINPROXY_WHOLE_TESTS=1` has all of it, as `.ci/run-long` does.
package enum Extent {
    private static let isWhole = Programs.environment["PINPROXY_WHOLE_TESTS"] == "1"

    package static func of(_ usual: Int, whole: Int) -> Int { isWhole ? whole : usual }
}
