# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 on either side of the verifying load, over Debian's python3-h2: a judge of frames that is none of ours."""
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

WINDOW = 1 << 20
PIECE = 16_000


class Connection(h2.connection.H2Connection):
    """python3-h2 takes any GOAWAY for the end of the connection; what was under way goes on (RFC 9113, section 6.8)."""

    def _receive_goaway_frame(self, frame):
        event = h2.events.ConnectionTerminated()
        event.error_code, event.last_stream_id = frame.error_code, frame.last_stream_id
        return [], [event]


class Stream:
    def __init__(self, identifier: int) -> None:
        self.identifier = identifier
        self.fields: list[tuple[str, str]] = []
        self.body = bytearray()
        self.trailers: list[tuple[str, str]] = []
        self.has_ended = False
        # Why it ended otherwise: the peer's code, "refused" when it has not looked at it, or that the connection is gone.
        self.fault: str | None = None
        self.is_over = asyncio.Event()
        self.has_window = asyncio.Event()

    def end(self, fault: str | None = None) -> None:
        if not self.is_over.is_set():
            self.fault = fault
            self.is_over.set()
        self.has_window.set()


class Http2Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_client: bool,
                 on_request: Callable[[Http2Peer, Stream], Awaitable] | None = None,
                 differences: Callable[[str], None] = lambda _: None) -> None:
        self.reader, self.writer, self.is_client = reader, writer, is_client
        self.on_request, self.differences = on_request, differences
        self.streams: dict[int, Stream] = {}
        self.tasks: set[asyncio.Task] = set()
        self.is_leaving = False
        self.is_closed = False
        configuration = h2.config.H2Configuration(client_side=is_client, header_encoding="latin-1")
        self.connection = Connection(configuration)
        self.connection.local_settings = h2.settings.Settings(client=is_client, initial_values={
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 100, h2.settings.SettingCodes.ENABLE_PUSH: 0}
            if is_client else {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
                               h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 100})
        self.connection.initiate_connection()
        self.connection.increment_flow_control_window(8 << 20)
        self.flush()

    def flush(self) -> None:
        if data := self.connection.data_to_send():
            self.writer.write(data)

    async def run(self) -> None:
        fault = "the connection has ended"
        try:
            while data := await self.reader.read(1 << 16):
                for event in self.connection.receive_data(data):
                    self._take(event)
                self.flush()
                await self.writer.drain()
        except h2.exceptions.ProtocolError as error:
            fault = f"what came is no HTTP/2: {error!r}"
            self.differences(fault)
            self.flush()
        except (ConnectionError, OSError) as error:
            fault = f"the connection has ended: {error}"
        finally:
            self.is_closed = self.is_leaving = True
            for stream in list(self.streams.values()):
                stream.end(fault)
            self.writer.close()

    def _take(self, event) -> None:
        identifier = getattr(event, "stream_id", None)
        if isinstance(event, h2.events.RequestReceived):
            stream = self.streams[identifier] = Stream(identifier)
            stream.fields = list(event.headers)
            return
        if isinstance(event, h2.events.ConnectionTerminated):
            self.is_leaving = True
            for number, stream in list(self.streams.items()):
                if self.is_client and number > event.last_stream_id:
                    stream.end("refused")
            return
        if isinstance(event, h2.events.DataReceived):
            self.connection.acknowledge_received_data(event.flow_controlled_length, identifier)
        if isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            for stream in [self.streams[identifier]] if identifier in self.streams else self.streams.values():
                stream.has_window.set()
            return
        stream = self.streams.get(identifier)
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.fields = list(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
        elif isinstance(event, h2.events.TrailersReceived):
            stream.trailers = list(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            stream.has_ended = True
            if self.is_client:
                stream.end()
            else:
                task = asyncio.ensure_future(self._answer(stream))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
        elif isinstance(event, h2.events.StreamReset):
            # All was said before it: the rest of the request is for nobody (RFC 9113, section 8.1).
            refused = event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
            stream.end("refused" if refused else f"reset with {event.error_code!r}")
            self.streams.pop(identifier, None)

    async def _answer(self, stream: Stream) -> None:
        try:
            await self.on_request(self, stream)
        except (h2.exceptions.ProtocolError, ConnectionError, OSError):
            # The stream or the connection has gone meanwhile.
            pass
        finally:
            self.streams.pop(stream.identifier, None)

    # What goes

    def begin(self, fields: list[tuple[str, str]], ends: bool) -> Stream:
        stream = Stream(self.connection.get_next_available_stream_id())
        self.connection.send_headers(stream.identifier, fields, end_stream=ends)
        self.streams[stream.identifier] = stream
        self.flush()
        return stream

    def send_head(self, stream: Stream, fields: list[tuple[str, str]], ends: bool) -> None:
        self.connection.send_headers(stream.identifier, fields, end_stream=ends)
        self.flush()

    async def send_body(self, stream: Stream, body: bytes, trailers: list[tuple[str, str]], ends: bool = True) -> None:
        position = 0
        while position < len(body) and not stream.is_over.is_set() and not self.is_closed:
            room = min(self.connection.local_flow_control_window(stream.identifier), PIECE)
            if room <= 0:
                stream.has_window.clear()
                await stream.has_window.wait()
                continue
            piece = body[position:position + room]
            position += len(piece)
            is_last = ends and position == len(body) and not trailers
            self.connection.send_data(stream.identifier, piece, end_stream=is_last)
            self.flush()
            await self.writer.drain()
        if stream.is_over.is_set() or self.is_closed:
            return
        if trailers:
            self.connection.send_headers(stream.identifier, trailers, end_stream=True)
        elif ends and not body:
            self.connection.send_data(stream.identifier, b"", end_stream=True)
        self.flush()

    def reset(self, stream: Stream, code: int) -> None:
        self.connection.reset_stream(stream.identifier, code)
        self.flush()

    def forget(self, stream: Stream) -> None:
        self.streams.pop(stream.identifier, None)

    def close(self) -> None:
        self.writer.close()
