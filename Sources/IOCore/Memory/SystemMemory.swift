import CShims

/// The process's memory as the system sees it.
package enum SystemMemory {
    /// Gives freed memory of this thread's back to the system. It costs milliseconds: when there is nothing else to do.
    package static func release() {
        pinproxy_release_memory()
    }
}
