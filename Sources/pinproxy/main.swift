// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc

// OpenSSL's exit handler would race with threads that still hold its objects. It is switched off before any other use
// of the library.
OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)

// `CommandLine.arguments` is empty where /proc is not mounted.
let words = (0..<pinproxy_argument_count()).compactMap { pinproxy_argument($0).map { String(cString: $0) } }
exit(Program.run(Array((words.isEmpty ? CommandLine.arguments : words).dropFirst())).rawValue)
