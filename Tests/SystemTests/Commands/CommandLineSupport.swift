// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// Runs the built binary with the words given, to its end.
func pinproxy(
    _ words: String...,
    environment: [String: String] = [:]
) throws -> Programs.Finished {
    try pinproxy(words, environment: environment)
}

func pinproxy(_ words: [String], environment: [String: String] = [:]) throws -> Programs.Finished {
    try Programs.run(
        try Programs.built("pinproxy"),
        words,
        environment: Programs.environment.merging(environment) { $1 }
    )
}
