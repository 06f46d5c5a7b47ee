// SPDX-License-Identifier: Apache-2.0
public import Dispatch
public import HTTPSessionCore

extension CallbackQueue {
    /// A dispatch queue; it has to be serial to keep the order of handlers, as `.main` is.
    ///
    /// - Parameter group: contains each handler from its submission to its end (AFNetworking's `completionGroup`).
    public static func dispatch(_ queue: DispatchQueue, group: DispatchGroup? = nil) -> CallbackQueue {
        CallbackQueue { work in queue.async(group: group, execute: work) }
    }
}
