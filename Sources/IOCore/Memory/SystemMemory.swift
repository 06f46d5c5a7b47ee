import CShims

/// The process's memory as the system sees it.
package enum SystemMemory {
    /// Returns freed memory of this thread to the system. It takes milliseconds: call it only when idle.
    package static func release() {
        pinproxy_release_memory()
    }
}
