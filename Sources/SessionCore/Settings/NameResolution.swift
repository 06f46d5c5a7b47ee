// SPDX-License-Identifier: Apache-2.0
/// How a session looks up names.
public enum NameResolution: String, Sendable, Hashable, CaseIterable {
    /// `/etc/hosts`, then the name servers of `/etc/resolv.conf`, on the session's loop. Results are kept for their time to
    /// live, from a second to five minutes.
    case dns
    /// What `/etc/nsswitch.conf` names (getaddrinfo(3)), on at most four threads of the process. Results are kept for 30
    /// seconds.
    case system
}
