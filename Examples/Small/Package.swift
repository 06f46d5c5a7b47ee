// swift-tools-version: 6.2

import PackageDescription

let package = Package(
    name: "Small",
    dependencies: [
        // Without the package's traits: sessions have no cache, and the cache is not built.
        .package(name: "pinproxy", path: "../..", traits: [])
    ],
    targets: [
        .target(name: "HTTPTypes"),
        .executableTarget(
            name: "Small",
            dependencies: [
                "HTTPTypes",
                .product(name: "HTTPSession", package: "pinproxy"),
                .product(name: "HTTPSessionStubs", package: "pinproxy"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
)
