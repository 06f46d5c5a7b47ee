// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

/// Every Swift target is held to the same rules: Swift 6 mode, no warnings, explicit imports.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    // Spans over bytes that a type owns: the safe way to hand a parser its input without a copy.
    .enableExperimentalFeature("Lifetimes"),
]

/// What `pinproxy version` names beside the version: `make build` sets it, a plain `swift build` knows none.
let commit = (Context.environment["PINPROXY_COMMIT"] ?? "").filter {
    $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-")
}

let package = Package(
    name: "pinproxy",
    products: [
        .executable(name: "pinproxy", targets: ["pinproxy"]),
        // HTTPCore and StrictJSON are in them because their signatures speak of their types: Host, HeaderFields, HTTPMethod,
        // DocumentIssue.
        .library(name: "ServerTrust", targets: ["ServerTrust", "ServerTrustDates", "StrictJSON", "HTTPCore"]),
        .library(name: "HTTPCaching", targets: ["HTTPCaching", "HTTPCore"]),
        .library(name: "SessionCore", targets: ["SessionCore", "ServerTrust", "HTTPCore"]),
        .library(
            name: "HTTPSession",
            targets: [
                "HTTPSession", "HTTPSessionCodable", "HTTPSessionCore", "SessionCore", "ServerTrust",
                "ServerTrustDates", "HTTPCore",
            ]
        ),
        .library(name: "HTTPSessionFoundation", targets: ["HTTPSessionFoundation"]),
        .library(name: "HTTPSessionImages", targets: ["HTTPSessionImages"]),
        .library(name: "HTTPSessionCodings", targets: ["HTTPSessionCodings"]),
        // For tests of programs.
        .library(name: "HTTPSessionStubs", targets: ["HTTPSessionStubs"]),
    ],
    targets: [
        // What Swift cannot call.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CCares", pkgConfig: "libcares", providers: [.apt(["libc-ares-dev"])]),
        .systemLibrary(name: "CIDN2", pkgConfig: "libidn2", providers: [.apt(["libidn2-dev"])]),
        .systemLibrary(name: "CPSL", pkgConfig: "libpsl", providers: [.apt(["libpsl-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "CHiredis", pkgConfig: "hiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CCrypt", pkgConfig: "libcrypt", providers: [.apt(["libcrypt-dev"])]),
        // Of HTTPSessionImages alone.
        .systemLibrary(name: "CPNG", pkgConfig: "libpng", providers: [.apt(["libpng-dev"])]),
        .systemLibrary(name: "CJPEG", pkgConfig: "libjpeg", providers: [.apt(["libjpeg62-turbo-dev"])]),
        // Of HTTPSessionCodings alone.
        .systemLibrary(name: "CBrotli", pkgConfig: "libbrotlidec", providers: [.apt(["libbrotli-dev"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .target(name: "CImages", dependencies: ["CPNG", "CJPEG"]),
        .target(
            name: "CShims",
            dependencies: ["COpenSSL", "CCares", "CCrypt"],
            cSettings: commit.isEmpty ? [] : [.define("PINPROXY_COMMIT", to: "\"\(commit)\"")]
        ),

        // From the bottom up; a module imports nothing above it.
        .target(name: "StrictJSON", swiftSettings: strict),
        .target(name: "IOCore", dependencies: ["CShims"], swiftSettings: strict),
        .target(name: "HTTPCore", dependencies: ["IOCore"], swiftSettings: strict),
        .target(name: "HTTP2Core", dependencies: ["HTTPCore", "IOCore", "CNGHTTP2"], swiftSettings: strict),
        .target(
            name: "WebSocketCore",
            dependencies: ["HTTPCore", "IOCore", "COpenSSL", "CZlib"],
            swiftSettings: strict
        ),
        .target(
            name: "ServerTrust",
            dependencies: ["StrictJSON", "HTTPCore", "IOCore", "CShims", "COpenSSL", "CIDN2", "CPSL"],
            swiftSettings: strict
        ),
        // What has types of Foundation is in modules of its own, so that the proxy is built without: dates here.
        .target(
            name: "ServerTrustDates",
            dependencies: ["ServerTrust", "StrictJSON", "HTTPCore"],
            swiftSettings: strict
        ),
        .target(name: "HTTPCaching", dependencies: ["HTTPCore", "IOCore", "CSQLite"], swiftSettings: strict),
        .target(
            name: "SessionCore",
            dependencies: [
                "ServerTrust", "StrictJSON", "HTTPCaching", "HTTP2Core", "HTTPCore", "IOCore", "CShims",
                "COpenSSL", "CZlib",
            ],
            swiftSettings: strict
        ),
        // The cache's last level, in Redis. Of the proxy alone.
        .target(
            name: "SharedCaching",
            dependencies: [
                "SessionCore", "HTTPCaching", "ServerTrust", "HTTPCore", "IOCore", "CHiredis", "COpenSSL",
            ],
            swiftSettings: strict
        ),
        .target(
            name: "HTTPSessionCore",
            dependencies: [
                "SessionCore", "ServerTrust", "WebSocketCore", "StrictJSON", "HTTPCore", "IOCore", "CShims", "COpenSSL",
                "CZlib",
            ],
            swiftSettings: strict
        ),
        // Of Foundation's types those of FoundationEssentials alone: types of Codable, dates, URLs.
        .target(
            name: "HTTPSessionCodable",
            dependencies: ["HTTPSessionCore", "SessionCore", "ServerTrustDates", "HTTPCore"],
            swiftSettings: strict
        ),
        // What programs import: the two above, and the dates.
        .target(
            name: "HTTPSession",
            dependencies: ["HTTPSessionCodable", "HTTPSessionCore", "ServerTrustDates"],
            swiftSettings: strict
        ),
        .target(
            name: "HTTPSessionFoundation",
            dependencies: ["HTTPSessionCore", "SessionCore", "HTTPCore"],
            swiftSettings: strict
        ),
        .target(
            name: "HTTPSessionImages",
            dependencies: ["HTTPSessionCore", "HTTPCore", "CImages"],
            swiftSettings: strict
        ),
        .target(
            name: "HTTPSessionCodings",
            dependencies: ["HTTPSessionCore", "IOCore", "CBrotli", "CZstd"],
            swiftSettings: strict
        ),
        .target(
            name: "HTTPSessionStubs",
            dependencies: [
                "HTTPSessionCodable", "HTTPSessionCore", "SessionCore", "ServerTrust", "WebSocketCore", "HTTPCore",
                "IOCore",
            ],
            swiftSettings: strict
        ),
        // `config.json` to values.
        .target(
            name: "ProxyConfiguration",
            dependencies: ["SessionCore", "HTTPCaching", "ServerTrust", "StrictJSON", "HTTPCore", "IOCore", "CShims"],
            swiftSettings: strict
        ),
        .target(
            name: "ProxyCore",
            dependencies: [
                "ProxyConfiguration", "SharedCaching", "SessionCore", "HTTP2Core", "HTTPCaching", "ServerTrust",
                "StrictJSON",
                "HTTPCore", "IOCore", "CShims",
            ],
            swiftSettings: strict
        ),
        .target(
            name: "ProxyAdmin",
            dependencies: [
                "ProxyCore", "ProxyConfiguration", "SharedCaching", "SessionCore", "HTTPCaching", "ServerTrust",
                "StrictJSON", "HTTPCore", "IOCore",
            ],
            resources: [.embedInCode("page.html")],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "pinproxy",
            dependencies: [
                "ProxyAdmin", "ProxyCore", "ProxyConfiguration", "HTTPSessionCore", "SessionCore", "ServerTrust",
                "StrictJSON", "HTTPCore", "IOCore", "CShims", "COpenSSL",
                // For their versions alone.
                "CCares", "CIDN2", "CNGHTTP2", "CPSL", "CSQLite", "CZlib",
            ],
            swiftSettings: strict
        ),

        // Tests.
        .target(
            name: "TestSupport",
            dependencies: ["ServerTrust", "HTTPCore", "IOCore", "CShims", "COpenSSL"],
            path: "Tests/TestSupport",
            swiftSettings: strict
        ),
        // Run by tests in a network namespace of its own.
        .executableTarget(
            name: "ReachabilityProbe",
            dependencies: ["HTTPSessionCore", "HTTPCore", "IOCore"],
            path: "Tests/ReachabilityProbe",
            swiftSettings: strict
        ),
        .testTarget(name: "IOCoreTests", dependencies: ["IOCore", "TestSupport"], swiftSettings: strict),
        .testTarget(name: "HTTPCoreTests", dependencies: ["HTTPCore", "IOCore", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "HTTP2CoreTests",
            dependencies: ["HTTP2Core", "HTTPCore", "IOCore", "TestSupport"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "WebSocketCoreTests",
            dependencies: ["WebSocketCore", "HTTPCore", "IOCore", "TestSupport"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "StrictJSONTests",
            dependencies: ["StrictJSON", "TestSupport"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ServerTrustTests",
            dependencies: [
                "ServerTrust", "ServerTrustDates", "StrictJSON", "HTTPCore", "IOCore", "CShims", "COpenSSL",
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "HTTPCachingTests",
            dependencies: ["HTTPCaching", "HTTPCore", "IOCore", "TestSupport", "CacheWriter", "CacheSimulation"],
            swiftSettings: strict
        ),
        // The cache beside a model of RFC 9111; the tests run a short course, `make cache-simulation` a long one.
        .target(
            name: "CacheSimulation",
            dependencies: ["HTTPCaching", "SessionCore", "HTTPCore", "IOCore", "TestSupport"],
            path: "Tests/CacheSimulation",
            exclude: ["Runner", "simulation.mk"],
            swiftSettings: strict
        ),
        // Fills a cache until a test kills it.
        .executableTarget(
            name: "CacheWriter",
            dependencies: ["HTTPCaching", "HTTPCore", "IOCore"],
            path: "Tests/CacheWriter",
            swiftSettings: strict
        ),
        .testTarget(
            name: "SessionCoreTests",
            dependencies: [
                "SessionCore", "HTTPCaching", "ServerTrust", "HTTPCore", "IOCore", "CShims", "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SharedCachingTests",
            dependencies: [
                "SharedCaching", "SessionCore", "HTTPCaching", "ServerTrust", "HTTPCore", "IOCore", "CHiredis",
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "HTTPSessionTests",
            dependencies: [
                "HTTPSession", "HTTPSessionCodable", "HTTPSessionCore", "HTTPSessionFoundation", "HTTPSessionImages",
                "HTTPSessionCodings", "HTTPSessionStubs", "SessionCore", "ServerTrust", "ServerTrustDates",
                "WebSocketCore", "HTTP2Core", "HTTPCore", "IOCore", "CZlib", "TestSupport", "ReachabilityProbe",
            ],
            swiftSettings: strict
        ),
        // The public calls of a program whose code is on the main actor by default; Examples/Chapters makes them from outside.
        .testTarget(
            name: "IsolationTests",
            dependencies: [
                "HTTPSession", "HTTPSessionStubs", "SessionCore", "ServerTrust", "HTTPCore", "TestSupport",
            ],
            swiftSettings: strict + [.defaultIsolation(MainActor.self)]
        ),
        .testTarget(
            name: "ProxyCoreTests",
            dependencies: [
                "ProxyCore", "ProxyConfiguration", "SessionCore", "HTTPCaching", "ServerTrust", "StrictJSON",
                "HTTPCore",
                "IOCore", "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ProxyConfigurationTests",
            dependencies: [
                "ProxyConfiguration", "SessionCore", "HTTPCaching", "ServerTrust", "StrictJSON", "HTTPCore", "IOCore",
                "TestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ProxyAdminTests",
            dependencies: [
                "ProxyAdmin", "ProxyCore", "ProxyConfiguration", "SharedCaching", "HTTPCaching", "ServerTrust",
                "HTTPCore", "IOCore", "TestSupport",
            ],
            swiftSettings: strict
        ),
        // What every reader of bytes from outside is held to; the tests run it over Tests/Fuzzing/Corpus, the fuzzer over anything.
        .target(
            name: "FuzzTargets",
            dependencies: [
                "ProxyAdmin", "ProxyCore", "ProxyConfiguration", "SharedCaching", "HTTPSessionCore",
                "HTTPSessionCodings", "SessionCore", "WebSocketCore", "HTTP2Core", "HTTPCaching", "ServerTrust",
                "StrictJSON", "HTTPCore", "IOCore", "COpenSSL", "TestSupport",
            ],
            path: "Tests/Fuzzing/FuzzTargets",
            swiftSettings: strict
        ),
        .testTarget(name: "FuzzCorpusTests", dependencies: ["FuzzTargets", "TestSupport"], swiftSettings: strict),
        // The built binary against real origins and real clients.
        .testTarget(
            name: "SystemTests",
            dependencies: [
                "pinproxy", "HTTPSessionCore", "SessionCore", "WebSocketCore", "ServerTrust", "StrictJSON", "HTTP2Core",
                "HTTPCore", "IOCore", "TestSupport",
            ],
            swiftSettings: strict
        ),
    ]
)

// A part of the tests, named by its targets, is built in a part of the time, with what it depends on and nothing else:
// `make test FILTER=HostTests`.
if let chosen = Context.environment["PINPROXY_TEST_TARGETS"], !chosen.isEmpty {
    var open = chosen.split(separator: " ").map(String.init)
    var needed: Set<String> = []
    while let name = open.popLast() {
        guard needed.insert(name).inserted else { continue }
        for case .byNameItem(let name, _) in package.targets.first(where: { $0.name == name })?.dependencies ?? [] {
            open.append(name)
        }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll { product in
        let library = product as? Product.Library
        let program = product as? Product.Executable
        return !(library?.targets ?? program?.targets ?? []).allSatisfy(needed.contains)
    }
}

// Programs that no ordinary build or test needs, and that want flags of their own: `make fuzz`, `make bench-policy`,
// `make bench-download` and `make bench-cache` name them here. In this package because they look inside its modules.
switch Context.environment["PINPROXY_EXTRA_TARGET"] {
case "fuzzer":
    package.targets += [
        .systemLibrary(name: "CLibFuzzer", path: "Tests/Fuzzing/CLibFuzzer"),
        .executableTarget(
            name: "fuzzer",
            dependencies: ["FuzzTargets", "CLibFuzzer"],
            path: "Tests/Fuzzing/Fuzzer",
            swiftSettings: strict
        ),
    ]
case "policy-benchmark":
    package.targets.append(
        .executableTarget(
            name: "policy-benchmark",
            dependencies: ["ServerTrust", "HTTPCore", "COpenSSL"],
            path: "Benchmarks/Policy",
            swiftSettings: strict
        )
    )
case "download-benchmark":
    package.targets.append(
        .executableTarget(
            name: "download-benchmark",
            dependencies: ["HTTPSessionCore", "SessionCore", "ServerTrust", "HTTPCore", "COpenSSL", "TestSupport"],
            path: "Benchmarks/Download",
            swiftSettings: strict
        )
    )
case "cache-benchmark":
    package.targets.append(
        .executableTarget(
            name: "cache-benchmark",
            dependencies: ["HTTPCaching", "HTTPCore", "IOCore"],
            path: "Benchmarks/Cache",
            swiftSettings: strict
        )
    )
case "cache-simulation":
    package.targets.append(
        .executableTarget(
            name: "cache-simulation",
            dependencies: ["CacheSimulation", "TestSupport"],
            path: "Tests/CacheSimulation/Runner",
            swiftSettings: strict
        )
    )
case "session-benchmark":
    package.targets.append(
        .executableTarget(
            name: "session-benchmark",
            dependencies: ["HTTPSessionCore", "SessionCore", "ServerTrust", "HTTPCore"],
            path: "Benchmarks/Session",
            exclude: ["multi.c"],
            swiftSettings: strict
        )
    )
default: break
}
