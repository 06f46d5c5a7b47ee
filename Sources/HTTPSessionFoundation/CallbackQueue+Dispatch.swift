public import Dispatch
public import HTTPSession

extension CallbackQueue {
    /// A dispatch queue, which has to be a serial one to keep the order of handlers; `.main` is.
    ///
    /// - Parameter group: holds each handler from when it is handed over to its end (AFNetworking's `completionGroup`).
    public static func dispatch(_ queue: DispatchQueue, group: DispatchGroup? = nil) -> CallbackQueue {
        CallbackQueue { work in queue.async(group: group, execute: work) }
    }
}
