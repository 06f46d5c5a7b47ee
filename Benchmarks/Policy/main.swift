// SPDX-License-Identifier: Apache-2.0
// What a security policy costs: the evaluation of a chain beyond OpenSSL's own verification, and the lookup of a host
// among many pinned domains. `make bench-policy`; Benchmarks/README.md tells how to read it.

do {
    print("A policy's evaluation of a chain of three P-256 certificates, with ten pins; CPU µs, medians\n")
    try EvaluationBenchmark().run()
    print("\nA host's policy among the pinned domains; CPU ns a lookup, medians\n")
    try LookupBenchmark().run()
} catch {
    print("\(error)")
}
