<?php
// A page that answers with an ID. A request of PHP is too short to hold a worker ID: it asks a daemon, in the Redis protocol, which costs
// it a connection at most.
//
//   snowlease daemon --resp 127.0.0.1:7071
//   php -S 127.0.0.1:8000 examples/ids.php
//
// SNOWLEASE_RESP (HOST:PORT) and SNOWLEASE_TOKEN are heeded. Needs the extension `redis`.

[$host, $port] = explode(':', getenv('SNOWLEASE_RESP') ?: '127.0.0.1:7071');
$token = getenv('SNOWLEASE_TOKEN');

header('Content-Type: text/plain');
try {
    $redis = new Redis();
    // It stays open for the requests that this process serves next.
    $redis->pconnect($host, (int) $port, 1.0);
    if ($token) $redis->auth($token);
    $id = $redis->get('orders');
    if ($id === false) throw new RedisException($redis->getLastError() ?? 'no ID came');
    // Text: an integer of JavaScript, or a column of 32 bits, would round it.
    echo "$id\n";
} catch (RedisException $e) {
    // Whatever went wrong, it may be asked again: an ID that nobody got is only not used.
    http_response_code(503);
    header('Retry-After: 1');
    error_log($e->getMessage());
    echo "no ID at the moment\n";
}
