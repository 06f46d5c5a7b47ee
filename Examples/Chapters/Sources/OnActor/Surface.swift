// SPDX-License-Identifier: Apache-2.0
/// The calls are made on an actor.
public actor Surface {
    /// What the calls have brought: state of the actor.
    var seen: [String] = []

    public init() {}
}
