// SPDX-License-Identifier: Apache-2.0
// Node's https, or http2 with the argument "2"; files and gzip as programs on it do them by hand.
'use strict';
const fs = require('fs');
const zlib = require('zlib');

const { CERTIFICATE, KEY, SITE } = process.env;
const isHTTP2 = process.argv[2] === '2';
const settings = { cert: fs.readFileSync(CERTIFICATE), key: fs.readFileSync(KEY) };

function file(request, response) {
    let body = fs.readFileSync(`${SITE}${request.url.slice('/files'.length).split('?')[0]}`);
    const tag = `"${body.length}"`;
    response.setHeader('ETag', tag);
    response.setHeader('Vary', 'Accept-Encoding');
    if (request.headers['if-none-match'] === tag) {
        response.statusCode = 304;
        return response.end();
    }
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range || '');
    if (range) {
        response.statusCode = 206;
        response.setHeader('Content-Range', `bytes ${range[1]}-${range[2]}/${body.length}`);
        body = body.subarray(+range[1], +range[2] + 1);
    } else if (/gzip/.test(request.headers['accept-encoding'])) {
        response.setHeader('Content-Encoding', 'gzip');
        body = zlib.gzipSync(body);
    }
    response.setHeader('Content-Length', body.length);
    return response.end(body);
}

function answer(request, response) {
    if (request.url.startsWith('/files/')) return file(request, response);
    if (request.url === '/chunked') {
        for (let number = 0; number < 3; number += 1) response.write('piece ');
        return response.end();
    }
    if (request.url === '/refuse') {
        response.statusCode = 413;
        if (!isHTTP2) response.setHeader('Connection', 'close');
        return response.end('too large');
    }
    return request.pipe(response);
}

const server = isHTTP2
    ? require('http2').createSecureServer(settings, answer)
    : require('https').createServer(settings, answer);
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
