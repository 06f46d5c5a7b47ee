import Glibc

/// The processors that this process may run on.
package enum SystemProcessors {
    package static var count: Int {
        max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    }
}
