// SPDX-License-Identifier: Apache-2.0
/// The calls are made on the main actor, where all code of this target is by default.
public final class Surface {
    /// What the calls have brought: state of the main actor.
    var seen: [String] = []

    public init() {}
}
