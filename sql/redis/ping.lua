-- This server's clock.
--
-- pong clock

return { 'pong', 'clock', int(now) }
