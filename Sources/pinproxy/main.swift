import COpenSSL
import Glibc

// OpenSSL's exit handler races the threads that still hold its objects, so there must be none: asked for before
// anything else uses the library.
OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
exit(Program.run(Array(CommandLine.arguments.dropFirst())).rawValue)
