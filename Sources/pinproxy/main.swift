// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Glibc

// OpenSSL's exit handler would race with threads that still hold its objects. It is switched off before any other use
// of the library.
OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
exit(Program.run(Array(CommandLine.arguments.dropFirst())).rawValue)
