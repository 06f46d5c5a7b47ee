// SPDX-License-Identifier: Apache-2.0
// A TLS connection of the program's own, held to a pin:
//
//     PinnedConnection HOST PORT PIN [CA.pem]
//
// It opens the connection, puts a policy in charge of it, and prints the verdict. Exit 0 when the server passed, 1 when
// it was refused or could not be reached, 64 for a wrong command line.

import Glibc

do {
    let arguments = try Arguments(CommandLine.arguments)
    let connection = try PinnedConnection(arguments)
    print(try connection.verdict())
} catch let fault as UsageFault {
    print(fault)
    exit(64)
} catch {
    print(error)
    exit(1)
}
