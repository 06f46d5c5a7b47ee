<?php
// PHP with its curl extension.

function ask(string $url, array $options = [], ?string $proxy = null): array {
    $handle = curl_init($url);
    curl_setopt_array($handle, $options + [
        CURLOPT_PROXY => $proxy ?? getenv('PROXY'), CURLOPT_RETURNTRANSFER => true, CURLOPT_FOLLOWLOCATION => true,
        CURLOPT_CAINFO => getenv('CA'), CURLOPT_PROXY_CAINFO => getenv('CA'), CURLOPT_TIMEOUT => 30,
    ]);
    $body = curl_exec($handle);
    return [$body, curl_getinfo($handle, CURLINFO_RESPONSE_CODE), $handle];
}

function say(string $action, mixed ...$words): void {
    echo $action, ' ', implode(' ', $words), "\n";
}

$base = getenv('BASE');
say('get', ...array_slice(ask("$base/hello"), 0, 2));
say('post', ...array_slice(ask("$base/echo", [CURLOPT_POSTFIELDS => 'some fields']), 0, 2));
[, $refused] = ask("$base/hello", [], getenv('AUTH_PROXY'));
[, $known] = ask("$base/hello", [CURLOPT_PROXYUSERPWD => 'user:password'], getenv('AUTH_PROXY'));
say('auth', $refused, $known);
say('download', hash('sha256', ask("$base/large")[0]));
$part = file_get_contents(getenv('PART'));
say('resume', hash('sha256', $part . ask("$base/large", [CURLOPT_RESUME_FROM => strlen($part)])[0]));
$file = fopen(getenv('UPLOAD'), 'r');
$size = filesize(getenv('UPLOAD'));
say('upload', ask("$base/upload", [CURLOPT_UPLOAD => true, CURLOPT_INFILE => $file, CURLOPT_INFILESIZE => $size])[0]);
[$body, $status, $handle] = ask("$base/redirect");
say('redirect', $body, $status, curl_getinfo($handle, CURLINFO_EFFECTIVE_URL));
[$body, $status] = ask(getenv('WRONG') . '/hello');
say('error', $status, json_decode($body)->error);
$handle = ask("$base/keep/" . getenv('NAME') . '/1')[2];
curl_setopt($handle, CURLOPT_URL, "$base/keep/" . getenv('NAME') . '/2');
curl_exec($handle);
say('keep', 'done');
say('intercept', ...array_slice(ask(getenv('INNER') . '/hello'), 0, 2));
say('connect', curl_getinfo(ask(getenv('SECURE') . '/hello')[2], CURLINFO_HTTP_CONNECTCODE));
say('gateway', ...array_slice(ask(getenv('GATEWAY') . '/hello', [], ''), 0, 2));
say('tls', ...array_slice(ask("$base/hello", [], getenv('TLS_PROXY')), 0, 2));
