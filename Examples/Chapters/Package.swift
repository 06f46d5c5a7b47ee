// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

let strict: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
let library: [Target.Dependency] = [
    .product(name: "HTTPSession", package: "pinproxy"), .product(name: "HTTPSessionStubs", package: "pinproxy"),
]

let package = Package(
    name: "Chapters",
    dependencies: [
        // The name holds whatever the folder of the checkout is called.
        .package(name: "pinproxy", path: "../..")
    ],
    targets: [
        // The public calls from an actor, from a class of the main actor, and from a target that is on the main actor by default.
        .target(name: "OnActor", dependencies: library, swiftSettings: strict),
        .target(name: "OnMainActor", dependencies: library, swiftSettings: strict),
        .target(
            name: "ByDefault",
            dependencies: library,
            swiftSettings: strict + [.defaultIsolation(MainActor.self)]
        ),
        .executableTarget(
            name: "Chapters",
            dependencies: [
                "OnActor", "OnMainActor", "ByDefault",
            ] + library,
            swiftSettings: strict
        ),
    ]
)
