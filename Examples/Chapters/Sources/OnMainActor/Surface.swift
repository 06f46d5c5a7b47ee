// SPDX-License-Identifier: Apache-2.0
/// The calls are made on the main actor, in a target whose code is on no actor by default.
@MainActor
public final class Surface {
    /// What the calls have brought: state of the main actor.
    var seen: [String] = []

    public init() {}
}
