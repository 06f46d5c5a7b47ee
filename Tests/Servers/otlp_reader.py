#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads an ExportTraceServiceRequest from a file with OpenTelemetry's published definitions (PyPI: opentelemetry-proto), and
prints its spans as JSON. A field that the definitions do not have is an error."""

import gzip
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def check(message):
    if len(UnknownFieldSet(message)):
        sys.exit(f"unknown fields in {message.DESCRIPTOR.full_name}")
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                check(inner)


def value_of(value):
    (kind,) = [field.name for field, _ in value.ListFields()] or [value.WhichOneof("value")]
    return [value_of(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def attributes(pairs):
    return {pair.key: value_of(pair.value) for pair in pairs}


request = ExportTraceServiceRequest()
with open(sys.argv[1], "rb") as file:
    data = file.read()
if data[:2] == b"\x1f\x8b":
    data = gzip.decompress(data)
if request.ParseFromString(data) != len(data):
    sys.exit("not the whole message")
check(request)
spans = []
for resource in request.resource_spans:
    for scope in resource.scope_spans:
        for span in scope.spans:
            spans.append(
                {
                    "resource": attributes(resource.resource.attributes),
                    "scope": scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "name": span.name,
                    "kind": span.SpanKind.Name(span.kind),
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "status": span.status.code,
                    "flags": span.flags,
                }
            )
json.dump(spans, sys.stdout)
