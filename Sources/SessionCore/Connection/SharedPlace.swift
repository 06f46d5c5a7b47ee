// SPDX-License-Identifier: Apache-2.0
/// A connection that carries several exchanges at once (HTTP/2), or one that is being made for several requests.
package protocol SharedPlace: AnyObject {
    /// One more request can be taken now.
    var hasRoom: Bool { get }
    /// Nothing is carried, and no request is on its way.
    var isIdle: Bool { get }
}
