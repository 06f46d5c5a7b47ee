<?php
// PHP's own streams: file_get_contents and a context.

function ask(string $url, array $http = [], array $headers = [], string $proxy = 'PROXY'): array {
    $context = stream_context_create([
        'http' => $http + [
            'proxy' => $proxy === '' ? null : str_replace('http://', 'tcp://', getenv($proxy)), 'request_fulluri' => true,
            'ignore_errors' => true, 'timeout' => 30, 'header' => $headers,
        ],
        'ssl' => ['cafile' => getenv('CA')],
    ]);
    $body = @file_get_contents($url, false, $context);
    $statuses = array_values(preg_grep('/^HTTP/', $http_response_header ?? []));
    return [$body, explode(' ', end($statuses) ?: 'none none')[1], $http_response_header ?? []];
}

function say(string $action, mixed ...$words): void {
    echo $action, ' ', implode(' ', $words), "\n";
}

$base = getenv('BASE');
say('get', ...array_slice(ask("$base/hello"), 0, 2));
$post = ['method' => 'POST', 'content' => 'some fields'];
say('post', ...array_slice(ask("$base/echo", $post, ['Content-Type: text/plain']), 0, 2));
[, $refused] = ask("$base/hello", [], [], 'AUTH_PROXY');
$login = 'Proxy-Authorization: Basic ' . base64_encode('user:password');
say('auth', $refused, ask("$base/hello", [], [$login], 'AUTH_PROXY')[1]);
say('download', hash('sha256', ask("$base/large")[0]));
$part = file_get_contents(getenv('PART'));
say('resume', hash('sha256', $part . ask("$base/large", [], ['Range: bytes=' . strlen($part) . '-'])[0]));
$put = ['method' => 'PUT', 'content' => file_get_contents(getenv('UPLOAD'))];
say('upload', ask("$base/upload", $put, ['Content-Type: text/plain'])[0]);
[$body, $status, $fields] = ask("$base/redirect");
$location = preg_replace('/^location: */i', '', current(preg_grep('/^location:/i', $fields)));
say('redirect', $body, $status, $location);
[$body, $status] = ask(getenv('WRONG') . '/hello');
say('error', $status, json_decode($body)->error);
$inner = getenv('INNER');
say('intercept', ...array_slice(ask("$inner/hello", ['request_fulluri' => false]), 0, 2));
say('connect', ask(getenv('SECURE') . '/hello')[0] === false ? 'refused' : 'open');
say('gateway', ...array_slice(ask(getenv('GATEWAY') . '/hello', ['request_fulluri' => false], [], ''), 0, 2));
