<?php
// Prints IDs, a line each, through phpredis: phpredis.php PORT. It connects for a few IDs each time, as short requests do. Goes on after errors, until it is killed.

while (true) {
    try {
        $redis = new Redis();
        $redis->connect('127.0.0.1', (int) $argv[1], 1.0);
        $made = array_merge([$redis->get('orders')], $redis->mget(['orders', 'orders']));
        $pipeline = $redis->pipeline();
        for ($i = 0; $i < 20; $i++) $pipeline->get('orders');
        $made = array_merge($made, $pipeline->exec());
        if (in_array(false, $made, true)) throw new RedisException('no ID');
        fwrite(STDOUT, implode("\n", $made) . "\n");
    } catch (RedisException $e) {
        usleep(50000);
    }
}
